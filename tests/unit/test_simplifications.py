"""What folds exactly and what does not, on random models."""

from dataclasses import replace

import pytest
import torch

from circuits.simplifications import (
    Biases,
    bias_folding_error,
    block_parameters,
    fold_layer_norm,
    folded_biases,
    norm_errors,
    random_tokens,
    random_weights,
    writes,
)
from circuits.weights import forward

EXACT = 1e-12
"""float64 logits of order ten."""
VISIBLE = 0.1
"""In logits: what is not exact must be far from rounding."""

SEEDS = range(5)


@pytest.mark.parametrize("seed", SEEDS)
def test_value_biases_fold_with_one_layer_only(seed):
    assert bias_folding_error(1, seed) < EXACT
    assert bias_folding_error(2, seed) > VISIBLE


@pytest.mark.parametrize("seed", SEEDS)
def test_only_queries_keep_a_bias_from_folding(seed):
    """MATH.md 1.2 names queries and keys; a constant in the keys moves whole rows of scores, and no pattern."""
    weights = random_weights(2, seed)
    tokens, biases = random_tokens(weights, seed), Biases.random(weights, seed)

    def error(weights):
        change = (writes(weights, tokens, biases) - writes(weights, tokens)).sum(0) @ weights.W_U
        return (change - folded_biases(weights, biases)).abs().max().item()

    blind = weights.W_Q.clone()
    blind[1] -= projection(constant_of_layer_0(weights, biases)) @ blind[1]
    assert error(weights) > VISIBLE
    assert error(replace(weights, W_Q=blind)) < EXACT  # keys and values still read the constant


def constant_of_layer_0(weights, biases):
    return sum(biases.V[0, h] @ weights.W_O[0, h] for h in range(weights.n_heads)) + biases.O[0]


def projection(vector):
    return torch.outer(vector, vector) / vector.dot(vector)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("n_layers", [1, 2])
def test_layer_norm_folds_but_for_the_division(n_layers, seed):
    errors = norm_errors(n_layers, seed)
    assert errors.folded < EXACT
    assert errors.frozen < EXACT
    assert errors.undivided > VISIBLE
    assert errors.live > VISIBLE


def test_without_biases_or_norm_it_is_the_forward_pass():
    weights = random_weights(2)
    tokens = random_tokens(weights)
    assert (writes(weights, tokens).sum(0) - forward(weights, tokens).resid_final).abs().max() < EXACT


def test_a_value_bias_is_added_to_the_values_and_an_output_bias_to_the_output():
    weights = random_weights(1)
    tokens, biases = random_tokens(weights), Biases.random(weights)
    run = forward(weights, tokens)
    by_hand = biases.O[0].clone().expand(16, -1)
    for head in range(4):
        values = run.resid_pre[0] @ weights.W_V[0, head] + biases.V[0, head]
        by_hand = by_hand + run.pattern[0, head] @ values @ weights.W_O[0, head]
    assert (writes(weights, tokens, biases)[2] - by_hand).abs().max() < EXACT


def test_folded_writers_have_no_mean():
    weights = random_weights(2)
    folded = fold_layer_norm(weights, torch.rand(3, 32, dtype=torch.float64))
    assert writes(folded, random_tokens(weights)).mean(-1).abs().max() < EXACT


@pytest.mark.parametrize(
    ("layers", "d_model", "attention_only", "published"),
    [(2, 512, True, 2_097_152), (1, 512, False, 3_145_728), (12, 768, False, 84_934_656)],
    ids=["attn-only-2l", "gelu-1l", "gpt2-small"],
)
def test_counts_are_the_published_ones(layers, d_model, attention_only, published):
    block = block_parameters(d_model)
    assert layers * (block.attention + (0 if attention_only else block.mlp)) == published


def test_an_mlp_is_two_thirds_of_a_standard_block():
    assert block_parameters(768).mlp_share == pytest.approx(2 / 3)
    assert block_parameters(256, d_attention=128, d_mlp=0).mlp_share == 0
