"""The library's view of a head against TransformerLens' own."""

import pytest
import torch
from transformer_lens.config import TransformerBridgeConfig
from transformer_lens.model_bridge import TransformerBridge

from circuits import copying, heads, models
from circuits.weights import Head, Weights

EXACT = 1e-9
"""float64, but a native bridge computes its pattern's softmax in float32 at some steps; see DESIGN section 6."""

TL = 1e-5
"""A float64 bridge agrees with an independent float64 forward pass to 1e-5 and better."""


@pytest.fixture(scope="module")
def model() -> TransformerBridge:
    torch.manual_seed(0)
    cfg = TransformerBridgeConfig(
        n_layers=2,
        d_model=24,
        n_heads=3,
        d_head=8,
        n_ctx=16,
        d_vocab=40,
        attn_only=True,
        normalization_type=None,
        positional_embedding_type="standard",
        dtype=torch.float64,
    )
    model = TransformerBridge.boot_native(cfg, dtype=torch.float64)
    # The start of a training run is nearly zero; here every head has something to say.
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if not name.endswith("bias"):
                weight.normal_(std=0.5)
    return model


@pytest.fixture(scope="module")
def cached(model):
    tokens = torch.tensor([0, 7, 3, 7, 39, 3, 1, 7])
    with torch.no_grad():
        return tokens, model.run_with_cache(tokens[None])[1]


@pytest.mark.parametrize("head", [Head(0, 1), Head(1, 2)])
def test_pattern_and_output_are_transformerlens(model, cached, head):
    tokens, cache = cached
    weights, run = Weights.of(model), models.run(model, tokens)
    pattern = cache[f"blocks.{head.layer}.attn.hook_pattern"][0, head.head]
    assert (heads.masked(heads.raw_scores(weights, run, head)).softmax(-1) - pattern).abs().max() < TL
    result = cache.stack_head_results(return_labels=False).unflatten(0, (2, 3))[head][0]
    assert (heads.head_output(weights, run, head) - result).abs().max() < TL


def test_products_and_eigenvalues_are_transformerlens(model):
    weights, head = Weights.of(model), Head(0, 2)
    assert (heads.W_QK(weights, head).AB - model.W_Q[head] @ model.W_K[head].T).abs().max() < EXACT
    assert (heads.W_OV(weights, head).AB - model.W_V[head] @ model.W_O[head]).abs().max() < EXACT
    theirs = (model.W_E @ heads.W_OV(weights, head) @ model.W_U).eigenvalues
    ours = copying.ov_eigenvalues(weights, head)
    for value in theirs:
        assert (ours - value).abs().min() < EXACT


def test_reparametrised_weights_are_the_same_transformerlens_model(model, cached):
    tokens, cache = cached
    state = dict(model.state_dict())
    gauged = heads.reparametrise(Weights.of(model), heads.random_gauge(8, dtype=torch.float64))
    for layer in range(2):
        for name, W in (("q", gauged.W_Q), ("k", gauged.W_K), ("v", gauged.W_V)):
            state[f"blocks.{layer}.attn.{name}.weight"] = W[layer].transpose(-1, -2).flatten(0, 1)
        state[f"blocks.{layer}.attn.o.weight"] = gauged.W_O[layer].flatten(0, 1).T
    other = TransformerBridge.boot_native(model.cfg, dtype=torch.float64)
    other.load_state_dict(state)
    with torch.no_grad():
        logits, seen = other.run_with_cache(tokens[None])
        assert (logits - model(tokens[None])).abs().max() < EXACT
    assert (seen["blocks.1.attn.hook_pattern"] - cache["blocks.1.attn.hook_pattern"]).abs().max() < EXACT
    assert (seen["blocks.1.attn.hook_q"] - cache["blocks.1.attn.hook_q"]).abs().max() > 1e-3
