"""Every key of page 05 by another route."""

from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from streamlit.testing.v1 import AppTest

from circuits import models, tokens
from circuits.weights import Weights, forward
from pages.ui.prompt import DEFAULT_TEXT

APP = str(Path(__file__).resolve().parents[2] / "app.py")
SHOWN = 0.01
"""Losses in float32, and half of the last digit a reader can see."""


@pytest.fixture(scope="module")
def keys() -> tuple:
    at = AppTest.from_file(APP, default_timeout=60).run()
    at.switch_page("pages/05_path_expansion.py").run()
    assert not at.error
    return at.session_state["_answer_keys"]["path_expansion"]


def listed(n_layers: int, n_heads: int) -> list[tuple]:
    return list(product([None, *range(n_heads)], repeat=n_layers))


def test_counts(keys):
    assert keys[0].answer.value == len(listed(2, 8))
    assert keys[1].answer.value == len(listed(3, 4))
    assert keys[3].answer.value == 2 * sum(path[0] == 3 for path in listed(2, 8))


def test_the_product_by_hand(keys):
    big = np.kron([[1, 0], [0.5, 0.5]], [[3]])
    assert keys[2].answer.value == (big @ [2, 4])[1]


def test_the_patterns_change_with_the_text(keys):
    weights = Weights.of(models.load("two-layer"))
    ids = torch.tensor(tokens.encode(models.load("two-layer"), DEFAULT_TEXT))
    other = ids.clone()
    other[2] = 77
    assert (forward(weights, ids).pattern - forward(weights, other).pattern).abs().max() > 1e-3
    assert keys[4].answer.correct == "No, the patterns change too"


def test_the_loss_without_the_virtual_heads(keys):
    """Freeze, and take every pair's product out of the stream by hand."""
    model = models.load("two-layer")
    weights, ids = Weights.of(model), torch.tensor(tokens.encode(model, DEFAULT_TEXT))
    run = forward(weights, ids)
    OV = weights.W_V @ weights.W_O
    x = run.embed + run.pos_embed
    first = sum(run.pattern[0, h] @ x @ OV[0, h] for h in range(8))
    pairs = sum(run.pattern[1, h] @ first @ OV[1, h] for h in range(8))

    def loss(stream: torch.Tensor) -> float:
        log_probs = (stream @ weights.W_U).log_softmax(-1)
        return -log_probs[:-1].gather(1, ids[1:, None]).mean().item()

    expected = loss(run.resid_final - pairs) - loss(run.resid_final)
    assert keys[5].answer.value == pytest.approx(expected, abs=SHOWN)
