"""Every exercise key of page 06 by another route, and what the page does with other sources and rankings."""

import json

import numpy as np
import pytest
import torch
from streamlit.testing.v1 import AppTest

from circuits import bugs, models
from circuits.counts import BigramCounts
from circuits.weights import Weights
from tests.pages.opened import opened_and_holding


def page(**state) -> AppTest:
    return opened_and_holding("skip_trigrams", **state)


@pytest.fixture(scope="module")
def keys() -> tuple:
    return page().session_state["_answer_keys"]["skip_trigrams"]


@pytest.fixture(scope="module")
def weights() -> Weights:
    return Weights.of(models.load("one-layer")).double()


def test_rank_of_an_outer_product(keys):
    generator = np.random.default_rng(0)
    table = np.outer(generator.normal(size=30), generator.normal(size=40))
    assert keys[0].answer.value == np.linalg.matrix_rank(table)
    other = np.outer(generator.normal(size=30), generator.normal(size=40))
    assert "two heads can" in keys[4].answer.correct
    assert np.linalg.matrix_rank(table + other) == 2


def test_the_counter_example(keys):
    M = np.array([[3.0, 4.0], [-1.0, -1.0]])
    # A double root: rounding moves it by about its square root.
    assert np.allclose(np.linalg.eigvals(M), 1, atol=1e-6)
    copied = [f"Token {i + 1}" for i in range(2) if M[i, i] > 0]
    assert keys[1].answer.correct == f"{copied[0]} only"
    assert len(copied) == 1


def test_spread_of_gaussian_scores(keys):
    generator = np.random.default_rng(0)
    values = [np.linalg.eigvals(generator.normal(size=(16, 16))) for _ in range(2000)]
    assert keys[2].answer.accepts(str(np.std([v.real.sum() / np.abs(v).sum() for v in values])))


def test_heads_beyond_two_sd_by_the_other_product(keys, weights):
    """Scores from [d_model, d_model] products, where the app uses [d_head, d_head]; the null's draws are the same."""
    UE = (weights.W_U @ weights.W_E).numpy()

    def score(W_V: np.ndarray, W_O: np.ndarray) -> float:
        values = np.linalg.eigvals(UE @ W_V @ W_O)
        return values.real.sum() / np.abs(values).sum()

    generator = torch.Generator().manual_seed(0)
    draws = 200, weights.d_model, weights.d_head
    W_V, W_O = (torch.randn(draws, generator=generator).double().numpy() for _ in "VO")
    # float32 draws of the served weights' dtype; the [256, 256] eigenproblem is slow, so small products here.
    small = [np.linalg.eigvals(o.T @ UE @ v) for v, o in zip(W_V, W_O, strict=True)]
    null = np.array([v.real.sum() / np.abs(v).sum() for v in small])
    limit = null.mean() + 2 * null.std(ddof=1)
    scores = [score(weights.W_V[0, h].numpy(), weights.W_O[0, h].numpy()) for h in range(weights.n_heads)]
    assert keys[3].answer.value == sum(s > limit for s in scores)


def titles(at: AppTest) -> list[str]:
    charts = (json.loads(chart.proto.spec) for chart in at.get("vega_lite_chart"))
    return [str(layer.get("title")) for chart in charts for layer in (chart, *chart.get("layer", []))]


def test_the_source_follows_the_focus_or_the_box():
    assert "L0H0, source ·Mr: QK · OV" in titles(page(head="L0H0", origin="in focus"))
    assert "L0H3, source ·cat: QK · OV" in titles(page(head="L0H3", origin="typed", source=" cat"))


def test_it_opens_on_the_head_with_the_strongest_trigram(weights):
    common = np.flatnonzero(BigramCounts.load().unigrams.numpy() >= bugs.GOOD_COUNT)
    E, U = weights.W_E.numpy(), weights.W_U.numpy()
    best = []
    for h in range(weights.n_heads):
        W_Q, W_K, W_V, W_O = (W[0, h].numpy() for W in (weights.W_Q, weights.W_K, weights.W_V, weights.W_O))
        qk = (E @ W_Q) @ (E @ W_K - (E @ W_K).mean(0)).T / weights.d_head**0.5
        ov = E @ W_V @ W_O @ U
        looked, raised = qk[np.ix_(common, common)].max(0), ov[np.ix_(common, common)].max(1)
        best.append((looked.clip(0) * raised.clip(0)).max())
    at = page()
    assert next(box for box in at.selectbox if box.label == "Head").value == f"L0H{np.argmax(best)}"


def explorer(at: AppTest):
    return next(frame.value for frame in at.dataframe if "destination →" in frame.value.columns)


@pytest.mark.parametrize("by", ["QK · OV", "QK", "OV"])
def test_explorer_agrees_with_the_dense_tables(by, weights):
    at = page(head="L0H0", fix=["destination", "out"], by=by, least="all")
    listed = explorer(at)
    destination, out = (models.load("one-layer").tokenizer.encode(f" {word}")[-1] for word in ("the", "circumstances"))
    scores = weights.W_E[destination] @ weights.W_Q[0, 0] @ weights.W_K[0, 0].T @ weights.W_E.T / weights.d_head**0.5
    qk = (scores - scores.mean()).numpy()
    ov = (weights.W_E @ weights.W_V[0, 0] @ weights.W_O[0, 0] @ weights.W_U)[:, out].numpy()
    value = {"QK": qk, "OV": ov, "QK · OV": np.where((qk > 0) & (ov > 0), qk * ov, -np.inf)}[by]
    best = np.sort(value)[::-1][: len(listed)]
    column = {"QK": "QK score", "OV": "OV logit", "QK · OV": "QK · OV"}[by]
    assert len(listed) > 3
    assert np.allclose(listed[column], best, atol=1e-3)
