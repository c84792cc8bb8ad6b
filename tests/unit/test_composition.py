"""Composition scores against the dense definition, their baselines, the erratum, and the subspace angle."""

from dataclasses import replace

import pytest
import torch

from circuits import composition, residual
from circuits.weights import Head, Weights
from tests.conftest import random_weights

EXACT = 1e-12
"""float64, products of a few hundred terms."""

D, R, H, L = 64, 8, 3, 3
FIRST, SECOND = Head(0, 1), Head(2, 0)


def model(d_model: int = D, d_head: int = R, n_heads: int = H, n_layers: int = L) -> Weights:
    return random_weights(n_layers, n_heads, d_model, d_head)


@pytest.fixture(scope="module")
def weights() -> Weights:
    return model()


@pytest.mark.parametrize("kind", composition.KINDS)
def test_low_rank_scores_are_the_dense_ones(weights, kind):
    scores = composition.composition_scores(weights, kind)
    assert torch.allclose(scores, composition.dense_scores(weights, kind), atol=EXACT)
    assert scores[FIRST + SECOND] > 0


@pytest.mark.parametrize("kind", composition.KINDS)
def test_scores_in_the_papers_own_convention(weights, kind):
    """Columns, weights on the left: Q takes W_QKᵀ, K takes W_QK, V takes W_OV of the later head."""
    q, k, v, o = (getattr(weights, f"W_{name}")[SECOND].T for name in "QKVO")
    earlier = weights.W_O[FIRST].T @ weights.W_V[FIRST].T
    later = {"Q": (q.T @ k).T, "K": q.T @ k, "V": o @ v}[kind]
    expected = ((later @ earlier).norm() / later.norm() / earlier.norm()).item()
    assert composition.composition_scores(weights, kind)[FIRST + SECOND].item() == pytest.approx(expected, abs=EXACT)


def test_only_later_layers_are_scored(weights):
    scores = composition.composition_scores(weights, "K")
    for first in weights.heads:
        for second in weights.heads:
            assert (scores[first + second] > 0) == (second.layer > first.layer)


def test_a_head_that_writes_nothing_composes_with_nothing(weights):
    silent = weights.W_O.clone()
    silent[FIRST] = 0
    scores = composition.composition_scores(replace(weights, W_O=silent), "V")
    assert scores[FIRST].abs().max() == 0
    assert scores.isfinite().all()


def test_one_layer_and_no_layer_have_no_pairs():
    for layers in (0, 1):
        assert composition.composition_scores(model(n_layers=layers), "Q").abs().sum() == 0


def test_unknown_kind_is_named(weights):
    with pytest.raises(ValueError, match="'W'"):
        composition.composition_scores(weights, "W")


@pytest.mark.parametrize(("d", "r"), [(64, 8), (64, 16), (128, 16)])
def test_chance_is_one_over_root_d_model_whatever_d_head(d, r):
    """E ‖A R B‖² = ‖A‖²‖B‖²/d over random rotations, within 3 standard errors."""
    weights = model(d, r, n_heads=2, n_layers=2)
    scores = composition.chance_scores(weights, "K", composition.composition_scores, draws=40)[:, 0, :, 1]
    squares = scores.square().flatten()
    standard_error = (squares.std() / len(squares) ** 0.5).item()
    assert abs(squares.mean().item() - composition.chance(weights) ** 2) < 3 * standard_error


def test_the_two_matrices_keep_their_spectra_in_the_null(weights):
    """A pair whose matrices had rank one would score |cos| of one random angle, not what Gaussians score."""
    flat = [torch.linalg.qr(getattr(weights, name)).Q for name in ("W_Q", "W_K", "W_V")]
    even = replace(weights, W_Q=flat[0], W_K=flat[1], W_V=flat[2], W_O=torch.linalg.qr(weights.W_O.mT).Q.mT)
    scores = composition.chance_scores(even, "Q", composition.composition_scores, draws=8)[:, 0, :, 1:]
    assert scores.max() <= composition.flat_match(even) + EXACT


def test_cyclic_chance_is_root_d_head_over_d_model():
    weights = model(128, 16, n_heads=2, n_layers=2)
    scores = composition.chance_scores(weights, "K", composition.cyclic_scores, draws=40)[:, 0, :, 1]
    rms = scores.square().mean().sqrt().item()
    # Gaussian factors are flat up to corrections of order r/d = 1/8.
    assert rms == pytest.approx(composition.cyclic_chance(weights), rel=0.1)


def test_the_erratum_keeps_the_trace_and_changes_the_norm(weights):
    """The paper's product and its cyclic turn: same trace, same eigenvalues, another Frobenius norm."""
    q, k = weights.W_Q[SECOND].T, weights.W_K[SECOND].T
    v, o = weights.W_V[FIRST].T, weights.W_O[FIRST].T
    right, turned = q.T @ k @ o @ v, k @ o @ v @ q.T
    assert right.trace().item() == pytest.approx(turned.trace().item(), abs=1e-8)
    largest = torch.linalg.eigvals(right).abs().sort(descending=True).values[:R]
    assert torch.allclose(largest, torch.linalg.eigvals(turned).abs().sort(descending=True).values, atol=1e-8)
    assert abs(right.norm() / turned.norm() - 1) > 0.1
    ours = composition.cyclic_scores(weights, "K")[FIRST + SECOND]
    assert ours.item() == pytest.approx((turned.norm() / (q.T @ k).norm() / (o @ v).norm()).item(), abs=EXACT)


@pytest.mark.parametrize("kind", composition.KINDS)
def test_the_right_score_survives_a_reparametrisation_and_the_cyclic_one_does_not(weights, kind):
    """W_Q → W_Q M, W_K → W_K M⁻ᵀ (and V, O alike) is the same head: a score of heads must not notice."""
    m = torch.diag(torch.linspace(0.5, 2, R, dtype=torch.float64))
    same = replace(
        weights, W_Q=weights.W_Q @ m, W_K=weights.W_K @ m.inverse(), W_V=weights.W_V @ m, W_O=m.inverse() @ weights.W_O
    )
    for score, moved in ((composition.composition_scores, False), (composition.cyclic_scores, True)):
        gap = (score(same, kind) - score(weights, kind)).abs().max().item()
        assert (gap > 1e-3) if moved else (gap < EXACT)


def flat_pair() -> Weights:
    """All factors orthonormal: flat spectra."""
    weights = model(n_heads=1, n_layers=2)
    even = {name: torch.linalg.qr(getattr(weights, name)).Q for name in ("W_Q", "W_K", "W_V")}
    return replace(weights, **even, W_O=torch.linalg.qr(weights.W_O.mT).Q.mT)


@pytest.mark.parametrize("kind", composition.KINDS)
@pytest.mark.parametrize("degrees", [0.0, 30.0, 69.0, 90.0])
def test_angle_takes_flat_heads_from_one_over_root_d_head_to_zero(kind, degrees):
    weights, first, second = flat_pair(), Head(0, 0), Head(1, 0)
    turned = composition.turn_writer(weights, first, second, kind, degrees)
    score = composition.composition_scores(turned, kind)[first + second].item()
    expected = torch.deg2rad(torch.tensor(degrees, dtype=torch.float64)).cos().item() * composition.flat_match(weights)
    assert score == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize("kind", composition.KINDS)
def test_turning_sets_every_principal_angle_and_keeps_the_spectrum(weights, kind):
    turned = composition.turn_writer(weights, FIRST, SECOND, kind, 40.0)
    read, _ = composition.reading_factors(weights, kind)
    _, _, angles = composition.principal_pairs(turned.W_O[FIRST], read[SECOND])
    assert torch.allclose(angles, torch.full_like(angles, 40.0), atol=1e-6)
    assert torch.allclose(residual.principal_angles(turned.W_O[FIRST], read[SECOND]), angles, atol=1e-6)
    before, after = (torch.linalg.svdvals(w.W_O[FIRST]) for w in (weights, turned))
    assert torch.allclose(before, after, atol=1e-10)
    same = torch.ones(L, H, dtype=torch.bool)
    same[FIRST] = False
    assert torch.equal(turned.W_O[same], weights.W_O[same])


def test_the_angles_a_head_already_has_give_the_head_back(weights):
    read, _ = composition.reading_factors(weights, "K")
    _, _, angles = composition.principal_pairs(weights.W_O[FIRST], read[SECOND])
    turned = composition.turn_writer(weights, FIRST, SECOND, "K", angles)
    assert torch.allclose(turned.W_O, weights.W_O, atol=1e-10)


def test_turning_works_where_the_subspaces_are_the_same(weights):
    """W_O writes exactly what W_K reads: the plane of a pair is lost, any orthogonal direction will do."""
    W_O = weights.W_O.clone()
    W_O[FIRST] = weights.W_K[SECOND].T
    turned = composition.turn_writer(replace(weights, W_O=W_O), FIRST, SECOND, "K", 90.0)
    assert composition.composition_scores(turned, "K")[FIRST + SECOND].item() == pytest.approx(0, abs=1e-9)
    assert turned.W_O[FIRST].norm().item() == pytest.approx(W_O[FIRST].norm().item())


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [(Head(1, 0), Head(1, 1), "L1H1"), (Head(0, 9), Head(1, 0), "L0H9"), (Head(0, 0), Head(7, 0), "L7H0")],
)
def test_impossible_pairs_are_named(weights, first, second, message):
    with pytest.raises(ValueError, match=message):
        composition.turn_writer(weights, first, second, "K", 10.0)


def test_a_stream_too_small_for_orthogonal_subspaces_is_refused():
    with pytest.raises(ValueError, match="cannot be orthogonal"):
        composition.turn_writer(model(d_model=12), FIRST, SECOND, "K", 90.0)


def test_the_example_of_the_erratum(weights):
    example = composition.erratum_example(weights, FIRST, SECOND)
    assert example.trace_gap < EXACT
    product = weights.W_V[FIRST] @ weights.W_O[FIRST] @ weights.W_K[SECOND] @ weights.W_Q[SECOND].T
    assert example.norm == pytest.approx(product.norm().item(), abs=EXACT)
    right, cyclic = composition.composition_scores(weights, "K"), composition.cyclic_scores(weights, "K")
    ratio = (cyclic[FIRST + SECOND] / right[FIRST + SECOND]).item()
    assert example.cyclic_norm / example.norm == pytest.approx(ratio, abs=EXACT)
