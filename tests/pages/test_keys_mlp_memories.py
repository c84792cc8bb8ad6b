"""Every exercise of page 10 that depends on weights, by another route."""

import pytest
import torch
from streamlit.testing.v1 import AppTest

from circuits import models, tokens
from circuits.weights import Weights, forward
from pages.ui.prompt import DEFAULT_TEXT

TEXT = DEFAULT_TEXT


@pytest.fixture(scope="module")
def keys() -> tuple:
    at = AppTest.from_file(str(models.ASSETS.parent / "app.py"), default_timeout=60).run()
    at.switch_page("pages/10_mlp_memories.py").run()
    assert not at.exception
    assert not [error for error in at.error if "could not be computed" in error.value]
    return at.session_state["_answer_keys"]["mlp_memories"]


@pytest.fixture(scope="module")
def weights() -> Weights:
    return Weights.of(models.load("one-layer-mlp"))


@pytest.fixture(scope="module")
def ids() -> torch.Tensor:
    return torch.tensor(tokens.encode(models.load("one-layer-mlp"), TEXT))


def hidden(weights: Weights, ids: torch.Tensor) -> torch.Tensor:
    run = forward(weights, ids)
    x = run.resid_final - run.mlp_out.sum(0)  # one layer: what is left is what the MLP read
    return torch.relu(x @ weights.W_in[0] + weights.b_in[0])


def test_closed_forms(keys):
    assert keys[0].answer.correct == "Column i of W_in"
    assert keys[1].answer.value == 64 * 256 + 256 * 64
    x, K, V = torch.tensor([1.0, 2]), torch.tensor([[1.0, -1], [0, 1]]), torch.tensor([[3.0, 0], [2, 1]])
    assert keys[2].answer.value == (torch.relu(x @ K) @ V)[0]


def test_share_of_memories_that_answer(keys, weights, ids):
    share = (hidden(weights, ids) > 0).double().mean().item()
    assert keys[3].answer.value == pytest.approx(share, abs=1e-4)


def test_whether_the_strongest_memory_decides(keys, weights, ids):
    activation = hidden(weights, ids)[-1]
    strongest = int((activation[:, None] * weights.W_out[0]).norm(dim=1).argmax())
    run = forward(weights, ids)
    changed = (run.resid_final[-1] - activation[strongest] * weights.W_out[0, strongest]) @ weights.W_U
    flips = bool(changed.argmax() != run.logits[-1].argmax())
    assert keys[4].answer.correct == ("Yes" if flips else "No")
