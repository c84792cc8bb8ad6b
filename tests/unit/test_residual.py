"""The stream is a sum of writes, and a rotation of it changes nothing that can be observed."""

import pytest
import torch

from circuits import residual
from circuits.weights import forward
from tests.conftest import EXACT, random_weights


@pytest.fixture(params=[0, 1, 2])
def weights(request):
    return random_weights(n_layers=request.param, d_mlp=20 if request.param == 1 else 0)


def test_components_sum_to_the_stream(weights, prompt):
    run = forward(weights, prompt)
    parts = residual.components(run)
    assert (parts.total() - run.resid_final).abs().max() < EXACT
    assert len(parts.names) == len(parts.values) == 2 + weights.n_layers * weights.n_heads + (weights.W_in is not None)


def test_attribution_sums_to_the_logit(weights, prompt):
    run = forward(weights, prompt)
    share = residual.direct_logit_attribution(residual.components(run), weights.W_U, token=7, position=4)
    assert share.sum().item() == pytest.approx(run.logits[4, 7].item(), abs=EXACT)


@pytest.mark.parametrize("angle", [0.0, 37.0, 90.0])
def test_rotation_leaves_patterns_and_logits_alone(weights, prompt, angle):
    R = residual.rotation(weights.d_model, angle)
    before, after = forward(weights, prompt), forward(residual.rotate(weights, R), prompt)
    assert (before.logits - after.logits).abs().max() < EXACT
    assert (before.pattern - after.pattern).abs().amax(dim=(-1, -2)).sum() < EXACT
    moved = (before.resid_final @ R - after.resid_final).abs().max()
    assert moved < EXACT
    if angle:
        assert (before.resid_final - after.resid_final).abs().max() > 0.1


def test_rotation_turns_every_vector_by_its_angle():
    R = residual.rotation(10, 25.0)
    x = torch.randn(10, dtype=torch.float64)
    cosine = torch.dot(x, x @ R) / x.norm() ** 2
    assert torch.rad2deg(torch.acos(cosine)).item() == pytest.approx(25.0, abs=1e-6)
    assert torch.equal(residual.rotation(10, 25.0), R)
    with pytest.raises(ValueError, match="d = 7 is odd"):
        residual.rotation(7, 10.0)


def test_logit_lens_ends_at_the_model(small, prompt):
    run = forward(small, prompt)
    lens = residual.logit_lens(run, small.W_U, position=5)
    assert lens.shape == (small.n_layers + 1, small.d_vocab)
    assert (lens[-1] - run.logits[5].log_softmax(-1)).abs().max() < EXACT
    direct = ((small.W_E[prompt[5]] + small.W_pos[5]) @ small.W_U).log_softmax(-1)
    assert (lens[0] - direct).abs().max() < EXACT


def test_virtual_weights_against_the_dense_product(small):
    names, readers, table = residual.virtual_weights(small)
    A, B = small.W_O[0, 2], small.W_K[1, 1]
    dense = (A @ B).norm() / (A.norm() * B.norm())
    assert table[names.index("L0H2"), readers.index("L1H1 K")].item() == pytest.approx(dense.item(), abs=1e-6)
    finite = table[~table.isnan()]
    assert ((finite >= 0) & (finite <= 1)).all()


def test_virtual_weights_know_who_comes_first(small):
    names, readers, table = residual.virtual_weights(small)
    assert table[names.index("L1H0"), readers.index("L0H0 Q")].isnan()
    assert table[names.index("L0H0"), readers.index("L0H0 Q")].isnan()
    assert not table[names.index("L1H0"), readers.index("logits")].isnan()


def test_principal_angles_of_known_planes():
    A = torch.eye(4, dtype=torch.float64)[:2]  # rows span e0, e1
    turned = torch.tensor([[0.0, 0], [1, 0], [0, 0.6], [0, 0.8]], dtype=torch.float64)  # columns span e1, (e2, e3)
    assert residual.principal_angles(A, turned).tolist() == pytest.approx([0.0, 90.0], abs=1e-5)


def test_variance_spectrum_is_a_distribution(small):
    spectrum = residual.variance_spectrum(small.W_E)
    centred = small.W_E - small.W_E.mean(0)
    expected = torch.linalg.svdvals(centred) ** 2
    assert (spectrum - expected / expected.sum()).abs().max() < EXACT


def test_bandwidth_halfway_through_fifty_layers():
    assert residual.bandwidth(layer=25, d_model=768, d_mlp=4 * 768, n_heads=12, d_head=64).ratio == 100
    with pytest.raises(ValueError, match="d_model 0"):
        residual.bandwidth(1, 0, 4, 1, 1)
