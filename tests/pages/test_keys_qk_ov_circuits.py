"""Every exercise key of page 04 by another route, and what the page does with another head or token."""

import json

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from circuits import models
from circuits.weights import Head, Weights
from tests.pages.opened import opened_and_holding


def page(**state) -> AppTest:
    return opened_and_holding("qk_ov_circuits", **state)


@pytest.fixture(scope="module")
def keys() -> tuple:
    return page().session_state["_answer_keys"]["qk_ov_circuits"]


def test_shapes_and_sizes_by_numpy(keys):
    W_Q, W_K = np.zeros((64, 8)), np.zeros((64, 8))
    assert keys[0].answer.value == (W_Q.T @ W_K).shape
    assert keys[1].answer.value == np.zeros((1000, 8)).size + np.zeros((8, 1000)).size
    row = np.exp([0.7] * 4)
    assert keys[2].answer.value == pytest.approx(row[0] / row.sum())


def test_a_constant_in_a_row_changes_nothing(keys):
    scores = np.array([0.3, -1.0, 2.0])
    before, after = (np.exp(s) / np.exp(s).sum() for s in (scores, scores + 5))
    assert keys[3].answer.correct == ("Nothing" if np.allclose(before, after) else "something")


def test_the_head_that_positions_alone_send_one_back(keys):
    weights = Weights.of(models.load("two-layer")).double()
    P = weights.W_pos.numpy()
    attention = {}
    for h in range(weights.n_heads):
        scores = P @ weights.W_Q[0, h].numpy() @ weights.W_K[0, h].numpy().T @ P.T / weights.d_head**0.5
        to_previous = []
        for i in range(2, len(P)):
            row = np.exp(scores[i, : i + 1] - scores[i, : i + 1].max())
            to_previous.append(row[i - 1] / row.sum())
        attention[h] = np.mean(to_previous)
    assert keys[4].answer.right == (Head(0, max(attention, key=attention.get)),)


def titles(at: AppTest) -> list[str]:
    return [str(json.loads(chart.proto.spec).get("title")) for chart in at.get("vega_lite_chart")]


def test_tables_follow_the_source_and_the_pattern_the_head():
    at = page(head="L1H2")
    assert "L1H2: where each token looks" in titles(at)
    assert "reads what layer 0 wrote" in " ".join(block.value for block in at.markdown)
    assert {"Who looks at ·Mr", "What ·Mr raises"} <= set(titles(at))
    assert {"Who looks at ·cat", "What ·cat raises"} <= set(titles(page(typed=True, source=" cat")))


def test_no_mask_leaks_and_a_large_divisor_is_flat():
    def measured(at: AppTest, what: str) -> float:
        words = next(block.value for block in at.markdown if what in block.value)
        return float(words.split("`")[1].split()[0])

    assert measured(page(), "attention on the future") == 0
    assert measured(page(mask=False), "attention on the future") > 0
    sharp, flat = (measured(page(divisor=d), "mean entropy") for d in (0.5, 32.0))
    assert sharp < flat
