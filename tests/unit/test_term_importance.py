"""Freeze, run, replace: equal to sums over the listed paths, at every order, for layers and for single heads."""

from dataclasses import replace
from math import log

import pytest
import torch
import torch.nn.functional as F

from circuits import paths, term_importance
from circuits.weights import Head, Weights, forward
from tests.conftest import random_weights

EXACT = 1e-10
TOKENS = torch.randint(0, 11, (11, 9), generator=torch.Generator().manual_seed(3))
"""More windows than one block holds, and not a multiple of it."""


def small(layers: int) -> Weights:
    return random_weights(n_layers=layers, d_vocab=11)


def brute_force(weights: Weights, keep) -> float:
    """Mean loss over all windows of the sum of the listed paths for which ``keep(path)``."""
    total = 0.0
    for tokens in TOKENS:
        expansion = paths.expand(weights, forward(weights, tokens))
        ticked = torch.tensor([keep(path) for path in expansion.paths])
        total += expansion.loss(ticked)
    return total / len(TOKENS)


@pytest.mark.parametrize("layers", [0, 1, 2, 3])
def test_orders_are_sums_over_paths(layers):
    weights = small(layers)
    result = term_importance.losses_by_order(weights, TOKENS)
    assert len(result.losses) == layers + 1
    for order, loss in enumerate(result.losses):
        assert loss == pytest.approx(brute_force(weights, lambda path, order=order: path.order <= order), abs=EXACT)


def test_the_last_order_is_the_whole_model_and_reductions_add_up():
    weights = small(2)
    result = term_importance.losses_by_order(weights, TOKENS)
    logits = forward(weights, TOKENS).logits[:, :-1].flatten(0, 1)
    full = F.cross_entropy(logits, TOKENS[:, 1:].flatten()).item()
    assert result.losses[-1] == pytest.approx(full, abs=EXACT)
    assert sum(result.reductions) == pytest.approx(log(11) - full, abs=EXACT)


@pytest.mark.parametrize("groups", [term_importance.by_layer, term_importance.by_head])
def test_groups_are_sums_over_paths(groups):
    weights = small(2)
    chosen = groups(weights)
    direct, everything = (brute_force(weights, lambda path, top=top: path.order <= top) for top in (0, 1))
    for group, importance in zip(chosen, term_importance.group_importance(weights, TOKENS, chosen), strict=True):
        alone = brute_force(weights, lambda p, g=group: p.order == 0 or (p.order == 1 and p.heads[0] in g))
        without = brute_force(weights, lambda p, g=group: p.order == 0 or (p.order == 1 and p.heads[0] not in g))
        assert importance.alone == pytest.approx(direct - alone, abs=EXACT)
        assert importance.marginal == pytest.approx(without - everything, abs=EXACT)


def test_layer_groups_hold_the_layers_heads():
    assert term_importance.by_layer(small(2))[1] == [Head(1, 0), Head(1, 1), Head(1, 2)]


def test_progress_rises_to_one():
    weights, seen = small(2), []
    term_importance.group_importance(weights, TOKENS, term_importance.by_layer(weights), seen.append)
    assert seen == sorted(seen)
    assert seen[0] > 0
    assert seen[-1] == pytest.approx(1)
    seen.clear()
    term_importance.losses_by_order(weights, TOKENS, seen.append)
    assert seen == pytest.approx([8 / 11, 1])


def test_what_cannot_be_analysed_is_refused():
    weights = small(1)
    for tokens in (TOKENS[:0], TOKENS[:, :1], torch.zeros(1, 99, dtype=torch.long)):
        with pytest.raises(ValueError, match="windows of 2 to 12"):
            term_importance.losses_by_order(weights, tokens)
    with pytest.raises(ValueError, match="MLP"):
        term_importance.losses_by_order(replace(weights, W_in=torch.zeros(1, 16, 2)), TOKENS)
