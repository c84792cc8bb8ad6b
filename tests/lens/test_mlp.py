"""Memories against the hooks of TransformerLens on the shipped model."""

import pytest
import torch

from circuits import interventions, mlp, models
from circuits.weights import Weights

CLOSE = 1e-4  # float32, logits of size 40


@pytest.fixture(scope="module")
def model():
    return models.load("one-layer-mlp")


@pytest.fixture(scope="module")
def tokens() -> torch.Tensor:
    return torch.randint(1, 4096, (24,), generator=torch.Generator().manual_seed(0)).index_fill(0, torch.tensor([0]), 0)


@torch.inference_mode()
def test_activations_and_outputs_are_those_of_the_bridge(model, tokens):
    weights = Weights.of(model)
    _, cache = model.run_with_cache(tokens[None])
    run = models.run(model, tokens)
    activation = mlp.activations(weights, mlp.inputs(run))
    torch.testing.assert_close(activation, cache["blocks.0.mlp.out.hook_in"][0], atol=CLOSE, rtol=CLOSE)
    output = mlp.writes(weights, activation).sum(-2) + weights.b_out[0]
    torch.testing.assert_close(output, cache["blocks.0.hook_mlp_out"][0], atol=CLOSE, rtol=CLOSE)


@torch.inference_mode()
@pytest.mark.parametrize("rank", [0, 1, 2])
def test_ablating_a_memory_is_a_hook_on_the_activation(model, tokens, rank):
    weights, run, position = Weights.of(model), models.run(model, tokens), 17
    activation = mlp.activations(weights, mlp.inputs(run))[position]
    neuron = int(mlp.strength(weights, activation).argsort(descending=True)[rank])

    def silence(value, hook):
        value = value.clone()
        value[:, position, neuron] = 0
        return value

    with interventions.hooked(model, [("blocks.0.mlp.out.hook_in", silence)]):
        logits = model(tokens[None])[0]
    ablated = mlp.ablate(weights, run, position, [neuron])
    torch.testing.assert_close(ablated.probs[0], logits[position].softmax(-1), atol=CLOSE, rtol=CLOSE)
    untouched = torch.arange(len(tokens)) != position
    torch.testing.assert_close(logits[untouched], run.logits[untouched], atol=CLOSE, rtol=CLOSE)
