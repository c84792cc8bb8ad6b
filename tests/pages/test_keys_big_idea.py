"""Every exercise key of page 01, by another route."""

import numpy as np
import pytest
import torch
from streamlit.testing.v1 import AppTest

from circuits import models
from circuits.weights import Weights, forward

SECONDS = 120


@pytest.fixture(scope="module")
def keys() -> tuple:
    at = AppTest.from_file(str(models.ASSETS.parent / "app.py"), default_timeout=SECONDS).run()
    assert not at.exception
    return at.session_state["_answer_keys"]["big_idea"]


def second_copy_accuracy(name: str) -> float:
    """Count hits one by one, on a probe of its own and by the plain forward pass."""
    weights = Weights.of(models.load(name))
    once = np.random.default_rng(7).integers(1, weights.d_vocab, (8, 40))
    tokens = torch.tensor(np.concatenate([np.zeros((8, 1), int), once, once], axis=1))
    guesses = forward(weights, tokens).logits.argmax(-1)
    hits = [guesses[row, i] == tokens[row, i + 1] for row in range(8) for i in range(41, 80)]
    return float(np.mean(hits))


def test_which_model_continues_a_repeat(keys):
    able = [name for name in ("zero-layer", "one-layer", "two-layer") if second_copy_accuracy(name) > 0.5]
    assert keys[0].answer.correct == (able[-1] if able else "none")


def test_paths_are_counted_by_listing_them(keys):
    choices = [None, 0, 1, 2, 3]
    assert keys[1].answer.value == len([(low, high) for low in choices for high in choices])


def test_shares_and_sizes(keys):
    d = 768
    attention, mlp = 4 * d * (12 * 64), 2 * d * (4 * d)
    assert keys[2].answer.accepts(str(attention / (attention + mlp)))
    weights = Weights.of(models.load("two-layer"))
    assert keys[3].answer.value == weights.W_E.numel() + weights.W_U.numel()
