"""The forward pass written in the library against TransformerLens', activation by activation."""

from dataclasses import fields

import pytest
import torch

from circuits import models
from circuits.weights import Head, Run, Weights, forward
from tests.conftest import EXACT, bridge_of, random_weights


@pytest.mark.parametrize(("n_layers", "d_mlp"), [(0, 0), (1, 0), (2, 0), (1, 24), (2, 24)])
@pytest.mark.parametrize("batched", [False, True])
def test_forward_equals_transformer_lens(n_layers, d_mlp, batched, prompt):
    weights = random_weights(n_layers=n_layers, d_mlp=d_mlp)
    tokens = torch.stack([prompt, prompt.flip(0)]) if batched else prompt
    ours, theirs = forward(weights, tokens), models.run(bridge_of(weights), tokens)
    for field in fields(Run):
        a, b = getattr(ours, field.name), getattr(theirs, field.name)
        if a is None:
            assert b is None
            continue
        assert a.shape == b.shape, field.name
        assert torch.allclose(a.double(), b.double(), atol=EXACT, rtol=0), field.name


def test_weights_survive_the_round_trip(small):
    again = Weights.of(bridge_of(small))
    for field in fields(Weights):
        a, b = getattr(small, field.name), getattr(again, field.name)
        assert (a is None and b is None) or torch.equal(a, b), field.name


def test_names_agree_with_transformer_lens(shipped):
    model = shipped("two-layer")
    weights = Weights.of(model)
    for name in ("W_E", "W_pos", "W_Q", "W_K", "W_V", "W_O", "W_U"):
        assert torch.equal(getattr(weights, name), getattr(model, name)), name


def test_a_prompt_beyond_the_position_table_is_refused(small):
    with pytest.raises(ValueError, match=r"13 tokens.*limit is 12"):
        forward(small, torch.zeros(13, dtype=torch.long))
    with pytest.raises(ValueError, match=r"13 tokens.*limit is 12"):
        models.run(bridge_of(small), torch.zeros(13, dtype=torch.long))


def test_head_prints_as_the_field_writes_it():
    assert str(Head(1, 4)) == "L1H4"
    assert f"{Head(0, 12)}" == "L0H12"
