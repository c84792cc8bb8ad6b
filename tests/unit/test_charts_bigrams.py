"""Charts of page 03: what is drawn is what was given, equal labels stay apart, extremes stay on the picture."""

import numpy as np

from circuits.charts import bigrams as charts


def test_two_bars_a_token_and_equal_labels_stay_apart():
    chart = charts.next_tokens(["·a", "·a", "·b"], np.array([0.5, 0.3, 0.2]), [0.1, 0.2, 0.3], title="t")
    data = chart.data
    assert len(data) == 6
    assert data.loc[data["source"] == "corpus", "row"].tolist() == [0, 1, 2]
    assert data.loc[data["source"] == "model", "probability"].tolist() == [0.1, 0.2, 0.3]
    chart.to_dict()


def test_only_the_first_tokens_are_drawn():
    n = charts.MAX_POINTS + 50
    values = np.linspace(1, 1e-9, n)
    assert len(charts.next_tokens(["x"] * n, values, values, title="t").data) == 2 * charts.MAX_BARS
    chart = charts.scatter(["x"] * n, np.arange(n), values, values, title="t")
    assert len(chart.layer[1].data) == charts.MAX_POINTS


def test_what_the_model_all_but_excludes_lies_on_the_lower_edge():
    chart = charts.scatter(["x", "y"], [3, 1], [0.75, 0.25], [1e-30, 0.5], title="t", floor=1e-6)
    assert chart.layer[1].data["shown"].tolist() == [1e-6, 0.5]
    assert chart.layer[1].data["model"].tolist() == [1e-30, 0.5], "the tooltip keeps the number"


def test_the_chosen_size_is_marked():
    data = charts.by_size([2, 4, 8], [3.0, 2.0, 1.0], 4, title="t", unit="nats").to_dict()["datasets"]
    assert [row["d_model"] for row in next(iter(data.values())) if row["chosen"]] == [4]


def test_the_ladder_keeps_its_order_and_every_label():
    spec = charts.ladder(["b", "a"], [2.0, 1.0], ["counts", "deeper"], title="t").to_dict()
    rows = next(iter(spec["datasets"].values()))
    assert [row["name"] for row in rows] == ["b", "a"]
    assert spec["layer"][0]["encoding"]["y"]["axis"]["labelOverlap"] is False
