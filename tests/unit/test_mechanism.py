"""Eigenvalue scores against the dense products, score terms against the scores, and both kinds of formation."""

import pytest
import torch

from circuits import induction
from circuits.composition import composition_scores
from circuits.copying import copying_score
from circuits.hand_built import induction_head
from circuits.mechanism import formation, mechanism, score_components
from circuits.simplifications import random_tokens, random_weights
from circuits.weights import Head, Weights, forward

EXACT = 1e-10
"""float64, sums of a few hundred terms of order one."""
EIGEN = 1e-6
"""Eigenvalues of a singular V×V product carry its rounding; the score sums fifty of them."""

PREVIOUS = Head(0, 1)


@pytest.fixture(scope="module")
def weights():
    return random_weights(n_layers=2)


def dense_score(M: torch.Tensor) -> float:
    return copying_score(torch.linalg.eigvals(M)).item()


def test_scores_are_those_of_the_dense_circuits(weights):
    check = mechanism(weights, PREVIOUS, draws=4)
    W_E, OV = weights.W_E, weights.W_V[PREVIOUS] @ weights.W_O[PREVIOUS]
    assert check.heads == tuple(Head(1, head) for head in range(4))
    for head, matching, copying in zip(check.heads, check.matching, check.copying, strict=True):
        term = W_E @ weights.W_Q[head] @ weights.W_K[head].T @ OV.T @ W_E.T
        assert matching.item() == pytest.approx(dense_score(term), abs=EIGEN)
        circuit = W_E @ weights.W_V[head] @ weights.W_O[head] @ weights.W_U
        assert copying.item() == pytest.approx(dense_score(circuit), abs=EIGEN)


def test_nulls_are_centred_and_wide(weights):
    check = mechanism(weights, PREVIOUS, draws=400)
    for null in (check.matching_null, check.copying_null):
        standard_error = null.sd / 400**0.5
        assert abs(null.mean) < 4 * standard_error
        assert 0.05 < null.sd < 0.6  # d_head 8: a plain Gaussian gives 1.5/8 = 0.19


def test_the_hand_built_head_sits_in_the_corner():
    weights = induction_head(d_vocab=20, n_ctx=16)
    check = mechanism(weights, Head(0, 0), draws=4)
    assert check.matching.item() == pytest.approx(1, abs=EXACT)
    assert check.copying.item() == pytest.approx(1, abs=EXACT)


def test_its_composition_scores_are_known():
    weights = induction_head(d_vocab=20, n_ctx=16)
    scores = {kind: composition_scores(weights, kind)[0, 0, 1, 0].item() for kind in "QKV"}
    assert scores == pytest.approx({"Q": 0, "K": 20**-0.5, "V": 0}, abs=EXACT)


def test_nothing_above_is_said(weights):
    with pytest.raises(ValueError, match="no head lies above L1H0"):
        mechanism(weights, Head(1, 0))


def test_terms_sum_to_the_scores(weights):
    run = forward(weights, random_tokens(weights))
    for head in weights.heads:
        parts = score_components(weights, run, head)
        assert parts.names[:2] == ("token", "position")
        assert len(parts.names) == parts.terms.shape[0] == parts.terms.shape[1]
        visible = torch.ones(16, 16).tril().bool()
        assert (parts.terms.sum((0, 1)) - run.scores[head])[visible].abs().max() < EXACT


def test_margins_sum_to_the_margin_of_the_scores(weights):
    tokens = induction.repeated(induction.distinct_tokens(7, 50))
    run, targets = forward(weights, tokens), induction.induction_targets(tokens)
    parts = score_components(weights, run, Head(1, 2))
    by_hand = []
    for i in range(8, 15):
        others = [j for j in range(i + 1) if j != i - 6]
        by_hand.append(run.scores[1, 2, i, i - 6] - run.scores[1, 2, i, others].mean())
    assert parts.margin(targets).sum().item() == pytest.approx(torch.stack(by_hand).mean().item(), abs=EXACT)
    formed = formation(weights, parts, targets)
    assert sum(formed.margins.values()) == pytest.approx(torch.stack(by_hand).mean().item(), abs=EXACT)
    with pytest.raises(ValueError, match="nothing repeats"):
        parts.margin(torch.zeros(15, 15, dtype=torch.bool))


def test_spread_is_over_visible_pairs(weights):
    parts = score_components(weights, forward(weights, random_tokens(weights)), Head(1, 0))
    visible = [parts.terms[0, 3, i, j] for i in range(16) for j in range(i + 1)]
    assert parts.spread()[0, 3].item() == pytest.approx(torch.stack(visible).std(correction=0).item(), abs=EXACT)


def test_a_mixed_stream_is_refused(weights):
    tokens = random_tokens(weights)
    run = forward(weights, tokens)
    with_mlp = type(run)(**vars(run) | {"mlp_out": torch.zeros(2, 16, 32)})
    with pytest.raises(ValueError, match="MLP"):
        score_components(weights, with_mlp, Head(1, 0))


def by_duplicate_tokens(d_vocab: int, n_ctx: int) -> Weights:
    """Induction without a previous-token head: find the earlier copy, bring back its position, look one further."""
    d_model, r = d_vocab + 2 * n_ctx, max(d_vocab, n_ctx)
    token, position, earlier = slice(0, d_vocab), slice(d_vocab, d_vocab + n_ctx), slice(d_vocab + n_ctx, d_model)
    eye, gain = torch.eye(d_model), 30 * r**0.5
    Q, K, V = torch.zeros(3, 2, 1, d_model, r)
    O = torch.zeros(2, 1, r, d_model)  # noqa: E741
    Q[0, 0, token, :d_vocab], K[0, 0, token, :d_vocab] = gain * torch.eye(d_vocab), torch.eye(d_vocab)
    V[0, 0, position, :n_ctx], O[0, 0, :n_ctx, earlier] = torch.eye(n_ctx), torch.eye(n_ctx)
    Q[1, 0, earlier, :n_ctx], K[1, 0, position, :n_ctx] = gain * torch.eye(n_ctx).roll(1, 1), torch.eye(n_ctx)
    V[1, 0, token, :d_vocab], O[1, 0, :d_vocab, token] = torch.eye(d_vocab), 20 * torch.eye(d_vocab)
    return Weights(eye[token], eye[position], Q, K, V, O, eye[:, token]).double()


@pytest.mark.parametrize(("build", "kind"), [(induction_head, "K"), (by_duplicate_tokens, "Q")])
def test_which_composition_formed_is_decided_by_numbers(build, kind):
    weights = build(d_vocab=30, n_ctx=24)
    tokens = induction.repeated(induction.distinct_tokens(10, 30))
    run, targets = forward(weights, tokens), induction.induction_targets(tokens)
    assert induction.copying(run.logits, tokens).accuracy == 1
    formed = formation(weights, score_components(weights, run, Head(1, 0)), targets)
    assert (formed.kind, formed.partner) == (kind, Head(0, 0))
    assert formed.share == pytest.approx(1, abs=1e-6)
