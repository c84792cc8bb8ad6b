"""Every exercise of page 13 that depends on weights, by another route; and what the page does with odd pairs."""

import json

import pytest
import torch
from streamlit.testing.v1 import AppTest

from circuits import discovery, induction, interventions, models
from circuits.weights import Head, Weights


def page(**state) -> AppTest:
    at = AppTest.from_file(str(models.ASSETS.parent / "app.py"), default_timeout=60).run()
    for name, value in state.items():
        at.session_state[name.replace("__", ".")] = value
    at.switch_page("pages/13_circuit_discovery.py").run()
    assert not at.exception
    assert not [error for error in at.error if "could not be computed" in error.value]
    return at


@pytest.fixture(scope="module")
def keys() -> tuple:
    return page().session_state["_answer_keys"]["circuit_discovery"]


@pytest.fixture(scope="module")
def model():
    return models.load("two-layer")


def metric(model, pair, hooks) -> float:
    with torch.inference_mode(), interventions.hooked(model, hooks):
        logits = model(pair.clean)[:, -1]
    rows = torch.arange(len(logits))
    return (logits[rows, pair.answer] - logits[rows, pair.wrong]).mean().item()


def test_the_costliest_head_by_hooks(keys, model):
    pair = discovery.repeat_pair("BB", period=16, batch=8)
    left = {
        Head(0, head): metric(model, pair, interventions.resample_ablation(model, [Head(0, head)], pair.corrupt))
        for head in range(8)
    }
    assert keys[3].answer.right == (min(left, key=left.get),)


def test_with_a_new_second_half_the_queries_matter(keys, model):
    weights = Weights.of(model)
    pair = discovery.repeat_pair("AB", period=16, batch=8)
    effects = discovery.activation_patching(weights, pair, discovery.differences(weights, pair))
    patterns = models.run(model, induction.repeat_probe(24, 4)).pattern
    best = induction.best_head(induction.head_scores(patterns, 24).induction, [1])
    change = {kind: abs(effects[kind][best].item()) for kind in "qkv"}
    assert max(change, key=change.get) == "q"
    assert keys[2].answer.correct == "Queries"


def test_counts(keys, model):
    assert keys[0].answer.correct == "It is exactly equal"
    assert keys[1].answer.value == model.cfg.n_layers * model.cfg.n_heads


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("", {"circuit_discovery__explain": "Your text"}),
        ("$a$ <b>x</b> *y* :smile:", {"circuit_discovery__explain": "Your text"}),
        ("one two", {"circuit_discovery__explain": "Your text", "circuit_discovery__against": "another text"}),
        ("same", {"circuit_discovery__against": "another text", "circuit_discovery__corrupt": "same"}),
    ],
)
def test_odd_pairs_leave_the_page_up(text, state):
    at = page(text=text, **state)
    assert any("holds" in markdown.value for markdown in at.markdown)


def test_the_threshold_thins_the_graph():
    many, few = (page(circuit_discovery__tau=tau) for tau in (0.0, 20.0))
    for at in (many, few):
        next(button for button in at.button if button.label == "Skip").click().run()
    titles = [json.loads(at.get("vega_lite_chart")[0].proto.spec)["layer"][0]["title"] for at in (many, few)]
    assert titles[0].startswith("306 of 306")
    assert int(titles[1].split()[0]) < 60
