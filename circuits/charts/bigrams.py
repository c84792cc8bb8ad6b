"""Charts of page 03: a row of the direct path beside the corpus, and how the fit depends on d_model."""

from collections.abc import Sequence

import altair as alt
import numpy as np
import pandas as pd

from circuits.charts.base import DIRECT, OV, QK, token_axis

Numbers = Sequence[float] | Sequence[int] | np.ndarray

CORPUS, MODEL = DIRECT, QK
"""Counts are grey, the model is blue, on every figure of the page."""

MAX_BARS = 8
"""The most frequent tokens, each with two bars."""

MAX_POINTS = 800
"""The most frequent pairs of a token; the rest was seen once or twice each and would only blur the picture."""


def next_tokens(labels: Sequence[str], corpus: Numbers, model: Numbers, *, title: str, height: int = 300) -> alt.Chart:
    """Draw two bars for each of the first tokens: how often it follows in the corpus, and what the model gives it."""
    labels = list(labels[:MAX_BARS])
    data = pd.concat(
        pd.DataFrame({"row": range(len(labels)), "token": labels, "source": source, "probability": values[:MAX_BARS]})
        for source, values in (("corpus", corpus), ("model", model))
    )
    return (
        alt.Chart(data, title=title, height=height)
        .mark_bar()
        .encode(
            x=alt.X("probability:Q", title="probability of coming next", axis=alt.Axis(format="%", tickCount=4)),
            y=alt.Y("row:O", sort=None, axis=_every_label(labels)),
            yOffset=alt.YOffset("source:N", sort=["corpus", "model"]),
            color=_by_source(),
            tooltip=["token:N", "source:N", alt.Tooltip("probability:Q", format=".4f")],
        )
    )


def _every_label(names: Sequence[str]) -> alt.Axis:
    """Return a token axis that drops no label: there are few, and each matters."""
    axis = token_axis(names, "")
    axis["labelOverlap"], axis["labelLimit"] = False, 200
    return axis


def _by_source() -> alt.Color:
    scale = alt.Scale(domain=["corpus", "model"], range=[CORPUS, MODEL])
    return alt.Color("source:N", scale=scale, legend=alt.Legend(title=None, orient="bottom"))


def scatter(
    labels: Sequence[str],
    counts: Numbers,
    corpus: Numbers,
    model: Numbers,
    *,
    title: str,
    floor: float = 1e-7,
    height: int = 300,
) -> alt.LayerChart:
    """Draw one point for each pair that was seen, log-probability by log-probability, its size the count.

    On the diagonal model and corpus agree.  Both axes are fixed, so that points move when the model changes;
    what the model gives less than ``floor`` lies on the lower edge.
    """
    frame = pd.DataFrame({"token": list(labels), "count": counts, "corpus": corpus, "model": model}).head(MAX_POINTS)
    frame["shown"] = frame["model"].clip(lower=floor)
    scale = alt.Scale(type="log", domain=[floor, 1], nice=False)
    line = alt.Chart(pd.DataFrame({"p": [floor, 1.0]})).mark_line(color=DIRECT, strokeDash=[4, 4])
    points = (
        alt.Chart(frame)
        .mark_circle(color=MODEL, opacity=0.5)
        .encode(
            x=alt.X("corpus:Q", title="in the corpus (log scale)", scale=scale, axis=_powers()),
            y=alt.Y("shown:Q", title="by the model (log scale)", scale=scale, axis=_powers()),
            size=alt.Size("count:Q", scale=alt.Scale(range=[6, 400]), legend=None),
            tooltip=[
                "token:N",
                "count:Q",
                alt.Tooltip("corpus:Q", format=".2e"),
                alt.Tooltip("model:Q", format=".2e"),
            ],
        )
    )
    diagonal = line.encode(x=alt.X("p:Q", scale=scale), y=alt.Y("p:Q", scale=scale))
    return alt.layer(diagonal, points).properties(title=title, height=height)


def _powers() -> alt.Axis:
    return alt.Axis(values=[1e-6, 1e-4, 1e-2, 1], format=".0e", grid=True)


def by_size(
    d_models: Sequence[int], values: Numbers, chosen: int, *, title: str, unit: str, height: int = 220
) -> alt.LayerChart:
    """Draw one number of the model against d_model (log scale), the chosen size marked."""
    frame = pd.DataFrame({"d_model": d_models, "value": np.asarray(values, float)})
    frame["chosen"] = frame["d_model"] == chosen
    base = alt.Chart(frame).encode(
        x=alt.X("d_model:Q", scale=alt.Scale(type="log", base=2), axis=alt.Axis(values=list(d_models), grid=False)),
        y=alt.Y("value:Q", title=unit, scale=alt.Scale(zero=False)),
        tooltip=["d_model:Q", alt.Tooltip("value:Q", title=unit, format=".4f")],
    )
    line = base.mark_line(color=MODEL)
    points = base.mark_point(filled=True, size=70, color=MODEL).transform_filter("!datum.chosen")
    focus = base.mark_point(filled=True, size=160, color=OV, shape="diamond").transform_filter("datum.chosen")
    return alt.layer(line, points, focus).properties(title=title, height=height)


def ladder(
    names: Sequence[str], losses: Numbers, kinds: Sequence[str], *, title: str, height: int | None = None
) -> alt.LayerChart:
    """Draw losses from the worst to the best, one rung each; ``kinds`` are "counts", "zero layers" or "deeper"."""
    frame = pd.DataFrame({"row": range(len(names)), "name": list(names), "loss": losses, "kind": list(kinds)})
    scale = alt.Scale(domain=["counts", "zero layers", "deeper"], range=[CORPUS, MODEL, OV])
    base = alt.Chart(frame).encode(y=alt.Y("row:O", sort=None, axis=_every_label(names)))
    x = alt.X("loss:Q", title="nats per token, less is better", scale=alt.Scale(zero=True))
    bar = base.mark_bar().encode(
        x=x,
        color=alt.Color("kind:N", scale=scale, legend=alt.Legend(title=None, orient="top")),
        tooltip=["name:N", alt.Tooltip("loss:Q", title="nats per token", format=".3f")],
    )
    number = base.mark_text(align="left", dx=4, color=DIRECT).encode(x=x, text=alt.Text("loss:Q", format=".2f"))
    return alt.layer(bar, number).properties(title=title, height=height or 90 + 26 * len(names))
