"""The path expansion against the forward pass, with 0 to 3 layers, with an MLP, and with shortformer positions."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch

from circuits import paths
from circuits.weights import Head, Weights, attention_scores, causal_mask, forward
from tests.conftest import random_weights

EXACT = 1e-10
TOKENS = torch.tensor([0, 3, 1, 4, 1, 5, 9, 2])


def small(layers: int, heads: int = 3) -> Weights:
    return random_weights(n_layers=layers, n_heads=heads)


@pytest.mark.parametrize("layers", [0, 1, 2, 3])
def test_all_paths_sum_to_the_logits(layers):
    weights = small(layers)
    run = forward(weights, TOKENS)
    expansion = paths.expand(weights, run)
    everything = torch.ones(len(expansion.paths), dtype=torch.bool)
    assert len(expansion.paths) == 2 * paths.n_paths(layers, 3)
    assert len(set(expansion.paths)) == len(expansion.paths)
    assert torch.allclose(expansion.streams.sum(0), run.resid_final, atol=EXACT)
    assert expansion.residual_error(everything) < EXACT


@pytest.mark.parametrize("layers", [2, 3])
def test_every_term_is_its_own_product(layers):
    """A² A¹ X OV¹ OV² W_U, written out with dense matrices, for every chain of heads and the direct path."""
    weights = small(layers)
    run = forward(weights, TOKENS)
    expansion = paths.expand(weights, run)
    for index, path in enumerate(expansion.paths):
        term = run.embed if path.source == paths.TOKEN else run.pos_embed
        for head in path.heads:
            term = run.pattern[head] @ term @ (weights.W_V[head] @ weights.W_O[head])
        assert torch.allclose(expansion.contribution(index), term @ weights.W_U, atol=EXACT), str(path)


def test_one_missing_term_is_the_residual_error():
    weights = small(2)
    expansion = paths.expand(weights, forward(weights, TOKENS))
    ticked = torch.ones(len(expansion.paths), dtype=torch.bool)
    ticked[7] = False
    assert expansion.residual_error(ticked) == pytest.approx(expansion.contribution(7).abs().max().item(), abs=EXACT)
    assert expansion.residual_error(ticked) > 1e-3
    assert expansion.residual_error(~torch.ones_like(ticked)) == pytest.approx(expansion.logits.abs().max().item())


def test_order_effect_norm_and_loss():
    weights = small(2)
    run = forward(weights, TOKENS)
    expansion = paths.expand(weights, run)
    orders = [path.order for path in expansion.paths]
    assert orders == sorted(orders)
    assert [orders.count(order) for order in range(3)] == [2, 12, 18]
    assert sum(expansion.of_order(order).sum().item() for order in range(3)) == len(orders)
    assert torch.allclose(expansion.effect(5).sum(0), run.logits[:, 5], atol=EXACT)
    assert torch.allclose(expansion.norms()[4], expansion.streams[4].square().sum(-1).sqrt(), atol=EXACT)
    everything = torch.ones(len(orders), dtype=torch.bool)
    log_probs = run.logits.log_softmax(-1)
    by_hand = -sum(log_probs[i, TOKENS[i + 1]] for i in range(len(TOKENS) - 1)) / (len(TOKENS) - 1)
    assert expansion.loss(everything) == pytest.approx(by_hand.item(), abs=EXACT)
    assert str(expansion.paths[-1]) == "position → L0H2 → L1H2"


def test_two_layers_of_eight_heads_have_162_rows():
    assert 2 * paths.n_paths(2, 8) == 162
    assert paths.n_paths(3, 4) == 125
    assert paths.n_paths(2, 12) == 169
    layers = [[(), *[(Head(layer, head),) for head in range(8)]] for layer in range(2)]
    assert len({first + second for first, second in product(*layers)}) == paths.n_paths(2, 8)


def test_an_mlp_is_one_more_source():
    weights = random_weights(d_mlp=24)
    expansion = paths.expand(weights, forward(weights, TOKENS))
    assert expansion.residual_error(torch.ones(len(expansion.paths), dtype=torch.bool)) < EXACT
    assert {str(path) for path in expansion.paths if path.source.startswith("MLP")} == {
        "MLP 0",
        "MLP 1",
        *(f"MLP 0 → L1H{head}" for head in range(3)),
    }


def shortformer(weights: Weights, tokens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The paper's own kind of positions, in plain tensors: added for queries and keys, never to the stream."""
    n = len(tokens)
    x, patterns = weights.W_E[tokens], []
    for layer in range(weights.n_layers):
        scores = attention_scores(x + weights.W_pos[:n], weights.W_Q[layer], weights.W_K[layer])
        patterns.append(scores.masked_fill(causal_mask(n), -torch.inf).softmax(-1))
        x = x + sum(
            pattern @ x @ weights.W_V[layer, head] @ weights.W_O[layer, head]
            for head, pattern in enumerate(patterns[-1])
        )
    return torch.stack(patterns), x @ weights.W_U


def test_shortformer_positions_need_the_token_paths_alone():
    """No path begins at a position: the 1 + 2H + H² token paths are the logits."""
    weights = small(2)
    patterns, logits = shortformer(weights, TOKENS)
    embed = weights.W_E[TOKENS]
    run = replace(forward(weights, TOKENS), pattern=patterns, pos_embed=torch.zeros_like(embed), logits=logits)
    expansion = paths.expand(weights, run)
    from_token = torch.tensor([path.source == paths.TOKEN for path in expansion.paths])
    assert from_token.sum() == paths.n_paths(2, 3)
    assert expansion.residual_error(from_token) < EXACT
    assert torch.allclose(paths.frozen_logits(weights, embed, patterns), logits, atol=EXACT)


def test_frozen_and_live_logits_are_the_models_own():
    weights = small(2)
    run = forward(weights, TOKENS)
    x = paths.start_of_stream(weights, TOKENS)
    assert torch.allclose(paths.frozen_logits(weights, x, run.pattern), run.logits, atol=EXACT)
    assert torch.allclose(paths.live_logits(weights, x), run.logits, atol=EXACT)


@pytest.mark.parametrize(("alpha", "beta"), [(0.5, 0.5), (2.0, -1.0), (0.3, 1.9), (0.0, 0.0)])
def test_frozen_patterns_make_the_model_linear_in_soft_tokens(alpha, beta):
    """f(α t₁ + β t₂) = α f(t₁) + β f(t₂) on real-valued mixtures of one-hot rows; with live patterns it fails."""
    weights = small(2)
    run = forward(weights, TOKENS)
    generator = torch.Generator().manual_seed(2)
    soft = torch.rand(2, len(TOKENS), weights.d_vocab, generator=generator, dtype=torch.float64)
    first, second = (t @ weights.W_E + weights.W_pos[: len(TOKENS)] for t in soft)

    def frozen(x):
        return paths.frozen_logits(weights, x, run.pattern)

    def live(x):
        return paths.live_logits(weights, x)

    assert paths.linearity_gap(frozen, first, second, alpha, beta) < EXACT
    if alpha and beta:
        assert paths.linearity_gap(live, first, second, alpha, beta) > 1e-3


def test_kron_both_ways_and_the_mixed_product():
    rng = np.random.default_rng(0)
    A, C, W, V = rng.normal(size=(3, 3)), rng.normal(size=(3, 3)), rng.normal(size=(2, 4)), rng.normal(size=(4, 5))
    x = rng.normal(size=(3, 4))
    both = paths.kron_product(A, W, x)
    np.testing.assert_allclose(both.flat, both.two_sided, atol=1e-12)
    np.testing.assert_allclose(np.kron(A, W) @ np.kron(C, V), np.kron(A @ C, W @ V), atol=1e-12)
    # Columns stacked, the textbook's vec: the factors change places.
    np.testing.assert_allclose(np.kron(W, A) @ x.ravel("F"), both.two_sided.ravel("F"), atol=1e-12)


def test_a_batch_and_an_expansion_too_large_are_refused(monkeypatch):
    weights = small(2)
    with pytest.raises(ValueError, match="one prompt"):
        paths.expand(weights, forward(weights, TOKENS[None]))
    monkeypatch.setattr(paths, "LIMIT_BYTES", 1000)
    with pytest.raises(ValueError, match="32 paths"):
        paths.expand(weights, forward(weights, TOKENS))


def test_one_token_has_no_loss():
    weights = small(1)
    expansion = paths.expand(weights, forward(weights, TOKENS[:1]))
    assert expansion.residual_error(torch.ones(8, dtype=torch.bool)) < EXACT
    with pytest.raises(ValueError, match="two tokens"):
        expansion.loss(torch.ones(8, dtype=torch.bool))


@pytest.mark.parametrize(("layers", "sides"), [(0, (1, 3)), (1, (4, 3)), (2, (4, 9))])
def test_every_path_has_its_own_place_on_the_board(layers, sides):
    weights = small(layers)
    expansion = paths.expand(weights, forward(weights, TOKENS))
    places = paths.board_places(expansion.paths, layers, 3)
    assert (len(places.rows), len(places.columns)) == sides
    assert len(set(places.cells)) == len(expansion.paths)
    for path, (row, column) in zip(expansion.paths, places.cells, strict=True):
        named = {places.rows[row], places.columns[column]} - {"direct"}
        assert named == {str(head) for head in path.heads}
        assert (column > sides[1] // 2) == (path.source == paths.POSITION)


def test_a_board_has_no_third_side():
    with pytest.raises(ValueError, match="3 layers"):
        paths.board_places([], 3, 2)
