"""Eigenvalues of the OV circuit by the small product, their null, and the counts, against the big matrix."""

from dataclasses import replace

import pytest
import torch
from transformer_lens import FactoredMatrix

from circuits import copying, heads
from circuits.weights import Head, Weights
from tests.unit.small_model import HEAD, D, R, V, dense_ov, random_weights

EIG = 1e-9
"""float64 eigenvalues of a non-symmetric matrix lose some digits to its condition."""

SIGMAS = 4
"""A sample mean or spread further from its expectation than this is a mistake, not luck."""


@pytest.fixture(scope="module")
def weights():
    return random_weights()


def on_unit_embeddings(d: int, r: int) -> Weights:
    """A head that passes the first r words on, in a model whose embeddings are the unit vectors."""
    eye = torch.eye(d, dtype=torch.float64)
    down = eye[None, None, :, :r]
    return Weights(eye, torch.zeros(4, d, dtype=torch.float64), down, down, down, down.mT, eye)


def test_small_product_has_the_nonzero_eigenvalues_of_the_big_one(weights):
    small = copying.ov_eigenvalues(weights, HEAD)
    big = torch.linalg.eigvals(dense_ov(weights))
    big = big[big.abs().argsort(descending=True)]
    assert small.shape == (R,)
    assert big[R:].abs().max() < 1e-6  # zero, but a V×V eigensolver only knows so much
    for value in small:
        assert (big[:R] - value).abs().min() < EIG
    assert abs(small.sum() - dense_ov(weights).trace()) < EIG


def test_score_of_copying_and_of_anticopying_heads():
    copies = on_unit_embeddings(8, 3)
    assert copying.copying_score(copying.ov_eigenvalues(copies, Head(0, 0))) == pytest.approx(1)
    deletes = replace(copies, W_O=-copies.W_O)
    assert copying.copying_score(copying.ov_eigenvalues(deletes, Head(0, 0))) == pytest.approx(-1)
    assert copying.copying_score(torch.zeros(3, dtype=torch.complex128)) == 0


def test_counter_example_of_two_positive_eigenvalues():
    M = torch.tensor([[3.0, 4.0], [-1.0, -1.0]], dtype=torch.float64)
    # A double eigenvalue of a matrix with one eigenvector: rounding 1e-16 moves it by its square root.
    assert (torch.linalg.eigvals(M) - 1).abs().max() < 1e-7
    assert copying.copying_score(torch.linalg.eigvals(M)) == pytest.approx(1)
    assert copying.self_counts(FactoredMatrix(M, torch.eye(2, dtype=torch.float64))).positive == 0.5


def test_gaussian_null_has_mean_zero_and_sd_of_one_and_a_half_over_r():
    draws, r = 400, 16
    weights = on_unit_embeddings(2 * r, r)
    null = copying.copying_null(weights, draws=draws)
    expected = copying.GAUSSIAN_SD / r
    assert abs(null.mean) < SIGMAS * expected / draws**0.5
    # A product of two Gaussian matrices is only nearly Gaussian, hence a tenth, not the sampling error.
    assert null.sd == pytest.approx(expected, rel=0.15)
    assert null.z(null.mean + 2 * null.sd) == pytest.approx(2)


def test_null_is_made_between_the_models_own_embeddings_and_scale_does_not_matter(weights):
    values = copying.null_eigenvalues(weights, draws=3, seed=5)
    generator = torch.Generator().manual_seed(5)
    W_V, W_O = (torch.randn(3, D, R, dtype=torch.float64, generator=generator) for _ in "VO")
    big = torch.linalg.eigvals(weights.W_E @ W_V[1] @ W_O[1].T @ weights.W_U)
    big = big[big.abs().argsort(descending=True)][:R]
    scaled = values[1] * (W_V[1].norm() * W_O[1].norm())
    for value in scaled:
        assert (big - value).abs().min() < EIG
    assert torch.allclose(copying.copying_score(values[1]), copying.copying_score(scaled))
    size = weights.W_V[HEAD].norm() * weights.W_O[HEAD].norm()
    assert copying.head_size(weights, HEAD) == pytest.approx(size.item())


@pytest.mark.parametrize("block", [7, 512])
def test_self_counts_are_those_of_the_dense_matrix(weights, monkeypatch, block):
    monkeypatch.setattr(copying, "BLOCK", block)
    # Strong diagonal in some rows, so that every count is strictly between 0 and 1.
    lift = torch.zeros(V, dtype=torch.float64)
    lift[:12] = 40.0
    circuit = heads.ov_circuit(weights, HEAD)
    mixed = FactoredMatrix(
        torch.cat([circuit.A, torch.eye(V, dtype=torch.float64)], 1), torch.cat([circuit.B, torch.diag(lift)], 0)
    )
    dense = mixed.AB
    order = dense.argsort(dim=1, descending=True)
    own = torch.arange(V).unsqueeze(1)
    counts = copying.self_counts(mixed)
    assert 0 < counts.top1 < counts.top5 < counts.positive < 1
    assert counts.positive == pytest.approx((dense.diagonal() > 0).double().mean().item())
    assert counts.top1 == pytest.approx((order[:, :1] == own).any(1).double().mean().item())
    assert counts.top5 == pytest.approx((order[:, :5] == own).any(1).double().mean().item())


def test_chance_is_what_independent_entries_reach():
    chance = copying.chance_counts(1000)
    M = torch.randn(1000, 1000, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    counts = copying.self_counts(FactoredMatrix(M, torch.eye(1000, dtype=torch.float64)))
    for expected, seen in zip(chance, counts, strict=True):
        assert abs(seen - expected) <= SIGMAS * (expected * (1 - expected) / 1000) ** 0.5
