"""Every key of page 07 by another route; and what a click, an angle and a measurement do."""

from pathlib import Path

import numpy as np
import pytest
import torch
from streamlit.testing.v1 import AppTest

from circuits import induction, models
from circuits.composition import random_rotation
from circuits.weights import Weights, forward

APP = str(Path(__file__).resolve().parents[2] / "app.py")


def page() -> AppTest:
    at = AppTest.from_file(APP, default_timeout=60).run()
    at.switch_page("pages/07_composition.py").run()
    assert not at.error
    return at


@pytest.fixture(scope="module")
def keys() -> tuple:
    return page().session_state["_answer_keys"]["composition"]


def test_chance_by_random_rotations(keys):
    """Root mean square over rotations of two random matrices of rank 32 in 256 dimensions."""
    generator = torch.Generator().manual_seed(0)
    a, b = (torch.randn(2, 256, 32, generator=generator, dtype=torch.float64) for _ in "ab")
    left, right = a[0] @ a[1].T, b[0] @ b[1].T
    squares = [
        ((left @ random_rotation(256, generator, torch.float64) @ right).norm() / left.norm() / right.norm()) ** 2
        for _ in range(6)
    ]
    assert keys[0].answer.value == pytest.approx(float(np.mean(squares)) ** 0.5, rel=0.02)


def test_flat_match_is_the_norm_of_a_projection(keys):
    basis = torch.linalg.qr(torch.randn(64, 16, dtype=torch.float64)).Q
    projection = basis @ basis.T
    expected = (projection @ projection).norm() / projection.norm() ** 2
    assert keys[1].answer.value == pytest.approx(expected.item(), abs=1e-9)


def test_two_shifts_in_a_row(keys):
    shift = np.eye(10, k=-1)
    assert keys[2].answer.value == (shift @ shift)[7].argmax()


def test_the_strongest_partner_of_the_best_induction_head(keys):
    model = models.load("two-layer")
    weights = Weights.of(model).double()
    probe = induction.repeat_probe(period=50, batch=4, d_vocab=weights.d_vocab)
    stripe = forward(weights, probe).pattern.mean(0)[1].diagonal(-49, -2, -1)[..., 2:].mean(-1)
    reader = int(stripe.argmax())
    QK_T = weights.W_K[1, reader] @ weights.W_Q[1, reader].T
    OV = weights.W_V[0] @ weights.W_O[0]
    scores = torch.stack([torch.linalg.matrix_norm(ov @ QK_T) / torch.linalg.matrix_norm(ov) for ov in OV])
    assert keys[3].answer.right == ((0, int(scores.argmax())),)


def test_frozen_patterns_hide_k_composition(keys):
    assert keys[4].answer.correct == "No: frozen patterns hide it"


@pytest.mark.parametrize("kind", ["Q", "K", "V"])
@pytest.mark.parametrize("angle", ["as trained", "90°", "0°"])
def test_every_kind_at_every_end_of_the_slider(kind, angle):
    at = page()
    at.session_state["composition.kind"] = kind
    at.session_state["composition.angle"] = angle
    at.run()
    assert not at.error


def test_term_importance_is_measured_on_request():
    at = page()
    at.session_state["composition.windows"] = "4"
    at.run()
    next(button for button in at.button if button.label == "Measure").click().run()
    assert not at.error
    assert any("from ln V = 8.32" in caption.value for caption in at.caption)
