"""The parts of a logit sum to it."""

import pytest

from circuits.overview import logit_origins, next_token
from circuits.simplifications import random_tokens, random_weights
from circuits.weights import forward

EXACT = 1e-12
"""float64, a logit of order ten."""


@pytest.mark.parametrize("n_layers", [1, 2])
def test_origins_sum_to_the_centred_logit(n_layers):
    weights = random_weights(n_layers)
    run = forward(weights, random_tokens(weights))
    parts = logit_origins(run, weights.W_U, token=7, position=5)
    assert list(parts) == ["direct path", "layer-0 heads", "layer-1 heads"][: n_layers + 1]
    expected = run.logits[5, 7] - run.logits[5].mean()
    assert sum(parts.values()) == pytest.approx(expected.item(), abs=EXACT)


def test_a_layer_is_the_sum_of_its_heads():
    weights = random_weights(2)
    run = forward(weights, random_tokens(weights))
    W_U = weights.W_U - weights.W_U.mean(1, keepdim=True)
    by_hand = sum(run.head_out[1, head, 5] @ W_U[:, 7] for head in range(4))
    assert logit_origins(run, weights.W_U, 7, 5)["layer-1 heads"] == pytest.approx(by_hand.item(), abs=EXACT)


def test_next_token_is_a_distribution_at_its_position():
    weights = random_weights(1)
    run = forward(weights, random_tokens(weights))
    by_hand = run.logits[5].exp() / run.logits[5].exp().sum()
    assert (next_token(run, 5) - by_hand).abs().max() < EXACT
