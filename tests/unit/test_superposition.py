"""The toy model: gradients, geometry of known polytopes, closed forms, and what training finds."""

import math

import pytest
import torch

from circuits.superposition import geometry, phase, shipped, sweep, toy

EXACT = 1e-10
"""Identities in float64."""

QUADRATURE = 2e-4
"""Sixteen Gauss nodes a side across the kink of a relu; losses are of order 0.01 to 0.1."""

PENTAGON_ANGLE, PENTAGON_DIMENSIONALITY = 3.0, 0.02
"""How regular a trained pentagon must be: sampling noise of the last steps moves angles by about one degree."""


REMADE = 0.02
"""Overlaps ``W Wᵀ`` of one training made twice: sums in another order, damped again near the minimum."""


@pytest.fixture
def float64():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def random_toys(activation: str, pairs: str = "independent") -> toy.Toys:
    settings = tuple(toy.Setting(6, 3, p, 0.8, activation, pairs) for p in (0.9, 0.3))
    generator = torch.Generator().manual_seed(0)
    W, b = torch.randn(2, 4, 6, 3, generator=generator), 0.1 * torch.randn(2, 4, 6, generator=generator)
    return toy.Toys(settings, W, b)


@pytest.mark.parametrize("activation", toy.ACTIVATIONS)
def test_gradient_is_that_of_autograd(float64, activation):
    toys = random_toys(activation)
    x = toy.samples(toys.settings, 50, torch.Generator().manual_seed(1))
    W, b = toys.W.clone().requires_grad_(), toys.b.clone().requires_grad_()
    expected = torch.autograd.grad(toy.loss(toy.Toys(toys.settings, W, b), x).sum(), [W, b])
    for ours, theirs in zip(toy.gradient(toys, x), expected, strict=True):
        assert (ours - theirs).abs().max() < EXACT


@pytest.mark.parametrize("activation", toy.ACTIVATIONS)
def test_loss_is_the_definition_sample_by_sample(float64, activation):
    toys = random_toys(activation)
    x = toy.samples(toys.settings, 20, torch.Generator().manual_seed(1))
    total = 0.0
    for sample in x[1].T:  # rows, as the rest of the library: x̂ = relu(x W Wᵀ + b)
        out = sample @ toys.W[1, 2] @ toys.W[1, 2].T + toys.b[1, 2]
        out = out.relu() if activation == "relu" else out
        total += sum(0.8**i * (sample[i] - out[i]) ** 2 for i in range(6))
    assert toy.loss(toys, x)[1, 2].item() == pytest.approx(total.item() / 20, abs=EXACT)


def test_training_together_is_training_apart():
    settings = [toy.Setting(density=p) for p in (0.5, 0.05)]
    *_, together = toy.train(settings, seeds=2, steps=30)
    for k, setting in enumerate(settings):
        *_, alone = toy.train([setting], seeds=2, steps=30)
        # Batched products may add in another order; thirty steps amplify that little.
        assert torch.allclose(together.toys.W[k], alone.toys.W[0], atol=1e-4)


@pytest.mark.parametrize(("pairs", "density"), [("independent", 0.3), ("correlated", 0.3), ("anticorrelated", 0.3)])
def test_features_occur_as_said(pairs, density):
    n, sd = 40_000, (density * (1 - density) / 40_000) ** 0.5
    x = toy.samples([toy.Setting(5, 2, density, pairs=pairs)], n, torch.Generator().manual_seed(0))[0]
    present = (x > 0).float()
    assert ((present.mean(1) - density).abs() < 5 * sd).all()
    both = (present[0] * present[1]).mean().item()
    expected = {"independent": density**2, "correlated": density, "anticorrelated": 0.0}[pairs]
    assert both == pytest.approx(expected, abs=5 * sd)
    assert (present[1] * present[2]).mean().item() == pytest.approx(density**2, abs=5 * sd)  # other pairs: independent
    assert x[x > 0].mean().item() == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize(
    ("broken", "named"),
    [
        ({"density": 0.0}, "0.0"),
        ({"density": 1.5}, "1.5"),
        ({"d_hidden": 0}, "0"),
        ({"n_features": 0}, "0"),
        ({"decay": -1.0}, "-1.0"),
        ({"activation": "gelu"}, "gelu"),
        ({"pairs": "triples"}, "triples"),
    ],
)
def test_a_setting_that_makes_no_sense_is_named(broken, named):
    with pytest.raises(ValueError, match=named):
        toy.Setting(**broken)


def test_settings_of_other_shapes_cannot_be_trained_together():
    with pytest.raises(ValueError, match="only in density"):
        next(toy.train([toy.Setting(), toy.Setting(n_features=6)]))


@pytest.mark.parametrize(
    ("W", "share"),
    [
        (geometry.polygon(3), 2 / 3),
        (geometry.polygon(5), 2 / 5),
        (geometry.tetrahedron(), 3 / 4),
        (geometry.square_antiprism(), 3 / 8),
        (torch.tensor([[1.0], [-1.0]]), 1 / 2),
        (torch.eye(4), 1.0),
    ],
)
def test_polytopes_have_the_dimensionality_of_the_books(W, share):
    W = 1.3 * W.double()  # a common factor does not matter
    D = geometry.dimensionality(W)
    assert (D - share).abs().max() < 1e-6  # the corners were made in float32
    assert D.sum().item() == pytest.approx(W.shape[1], abs=1e-5)  # tight frames fill the space


def test_dimensionality_is_its_definition_and_never_fills_more_than_the_space():
    W = torch.randn(50, 7, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    W[:, 2] = 0  # a feature without a direction
    D = geometry.dimensionality(W)
    unit = W / W.norm(dim=-1, keepdim=True)
    brute = W[3, 0].norm() ** 2 / sum((unit[3, 0] @ W[3, j]) ** 2 for j in range(7))
    assert D[3, 0].item() == pytest.approx(brute.item(), abs=EXACT)
    assert (D[:, 2] == 0).all()
    assert (D.sum(-1) <= 3 + EXACT).all()
    assert D.sum(-1).min() < 2.9  # and the bound is not an identity


def test_angles_go_round_once_and_skip_dropped_features():
    W = torch.cat([geometry.polygon(5), torch.tensor([[0.1, 0.2]])])[[3, 5, 0, 4, 1, 2]]
    gaps = geometry.angle_gaps(W)
    assert torch.allclose(gaps, torch.full((5,), 72.0), atol=1e-3)
    assert geometry.polygon_error(W).sides == 5
    with pytest.raises(ValueError, match="3"):
        geometry.angle_gaps(torch.ones(4, 3))
    with pytest.raises(ValueError, match="stores 2"):
        geometry.polygon_error(torch.eye(2))


def test_sparse_features_form_a_pentagon():
    found = toy.fit(toy.Setting(5, 2, density=0.05, decay=1.0), seeds=4)
    error = geometry.polygon_error(found.W)
    assert error.sides == 5
    assert error.angle < PENTAGON_ANGLE
    assert error.dimensionality < PENTAGON_DIMENSIONALITY


def test_dense_features_are_not_superposed():
    found = toy.fit(toy.Setting(4, 2, density=1.0, decay=0.7), seeds=4, steps=600)
    assert geometry.stored(found.W) == 2
    assert geometry.norms(found.W).argsort(descending=True)[:2].sort().values.tolist() == [0, 1]


@pytest.mark.parametrize("density", [1.0, 0.05])
def test_a_linear_model_keeps_m_features_however_sparse(density):
    found = toy.fit(toy.Setting(12, 5, density, decay=0.7, activation="linear"), seeds=2, steps=1200)
    assert geometry.stored(found.W) == 5
    assert (geometry.dimensionality(found.W)[:5] - 1).abs().max() < 0.05


def test_anticorrelated_features_share_a_line_and_correlated_ones_do_not():
    def cosine(pairs: str) -> float:
        W = toy.fit(toy.Setting(4, 2, density=0.1, pairs=pairs), seeds=4, steps=800).W
        return torch.nn.functional.cosine_similarity(W[0], W[1], dim=0).item()

    assert cosine("anticorrelated") < -0.95
    assert abs(cosine("correlated")) < 0.2


def test_quadrature_is_the_expected_loss():
    theta = torch.tensor([[0.9, -0.7, 0.1, 0.2], [0.9, 0.4, -0.1, 0.2], [1.0, -1.0, 0.0, 0.0]], dtype=torch.float64)
    density = torch.tensor([0.6, 0.9, 0.3], dtype=torch.float64)
    importance = torch.tensor([0.5, 2.0, 1.0], dtype=torch.float64)
    quadrature = phase.expected_loss(theta, density, importance)
    fine = phase.expected_loss(theta, density, importance, nodes=96)
    assert (quadrature - fine).abs().max() < QUADRATURE
    n = 400_000
    for k in range(3):
        settings = tuple(phase.grid(density[k : k + 1], importance[k : k + 1]))
        toys = toy.Toys(settings, theta[k, :2].reshape(1, 1, 2, 1).float(), theta[k, 2:].reshape(1, 1, 2).float())
        x = toy.samples(toys.settings, n, torch.Generator().manual_seed(k))
        # A sample's loss is below 3, and its spread below 0.5: five standard errors.
        assert toy.loss(toys, x).item() == pytest.approx(fine[k].item(), abs=5 * 0.5 / math.sqrt(n))


def test_closed_forms_are_the_losses_of_their_solutions():
    p, importance = (torch.rand(20, dtype=torch.float64) * 0.98 + 0.01 for _ in range(2))
    zero, one = torch.zeros_like(p), torch.ones_like(p)
    dedicated = phase.expected_loss(torch.stack([one, zero, zero, p / 2], -1), p, importance)
    assert (dedicated - phase.dedicated_loss(p, importance)).abs().max() < EXACT
    pair = phase.expected_loss(torch.stack([one, -one, zero, zero], -1), p, importance, nodes=96)
    assert (pair - phase.unbiased_pair_loss(p, importance)).abs().max() < QUADRATURE


@pytest.mark.parametrize("importance", [0.1, 0.5, 1.0, 2.0, 10.0])
def test_unbiased_boundary_is_where_the_closed_forms_cross(importance):
    i = torch.tensor(importance, dtype=torch.float64)
    p = phase.unbiased_boundary(i)
    assert phase.unbiased_pair_loss(p, i).item() == pytest.approx(phase.dedicated_loss(p, i).item(), abs=EXACT)
    if importance <= 1:
        assert p.item() == pytest.approx(2 * importance / (1 + 2.5 * importance), abs=EXACT)


def test_with_a_trained_bias_the_pair_wins_beyond_the_closed_form():
    i = torch.tensor([0.2, 0.5, 1.0])
    p = phase.unbiased_boundary(i)
    solution = phase.solve(p, i, steps=300)
    assert solution.kinds == [phase.PAIR] * 3
    assert (solution.loss < phase.dedicated_loss(p.double(), i.double())).all()


def test_shipped_solutions_are_what_the_code_finds():
    points = [(0.46, 0.5), (0.03, 0.1), (0.9, 5.0)]
    density, importance = torch.tensor(points).T
    afresh, solutions = phase.solve(density, importance), shipped.solutions()
    for k, point in enumerate(points):
        ours = solutions.at(*point)
        assert ours.loss[0].item() == pytest.approx(afresh.loss[k].item(), abs=1e-6)  # stored in float32
        assert ours.kinds[0] == afresh.kinds[k]
    p, i = torch.meshgrid(torch.tensor(shipped.POINT_DENSITIES), torch.tensor(shipped.POINT_IMPORTANCES), indexing="ij")
    closed = torch.minimum(phase.dedicated_loss(p, i), phase.unbiased_pair_loss(p, i)).T
    assert (solutions.loss <= closed + 1e-6).all()  # nothing simple is better


def test_shipped_boundary_is_what_the_code_finds():
    diagram = shipped.phase_diagram()
    some = torch.tensor([0, 14, 23])  # I = 0.1, 0.5, 1.4; near I = 1 the losses are too close to tell by kind
    around = torch.cat([diagram.boundary[some] - 0.01, diagram.boundary[some] + 0.01])
    kinds = phase.solve(around, diagram.importance[some].repeat(2), steps=400).kinds
    assert kinds[:3] == [phase.PAIR] * 3
    assert phase.PAIR not in kinds[3:]


def test_shipped_trained_points_lie_on_the_side_the_boundary_says():
    diagram = shipped.phase_diagram()
    p, importance = diagram.point_density, diagram.point_importance
    clear = diagram.pair_wins(0.97 * p, importance) == diagram.pair_wins(1.03 * p, importance)
    pair = torch.tensor([phase.kind(*theta[:2]) == phase.PAIR for theta in diagram.point_theta.tolist()])
    assert clear.float().mean() > 0.8
    assert (pair == diagram.pair_wins(p, importance))[clear].all()


@pytest.mark.parametrize("density", [1.0, 0.05])
def test_shipped_sweep_is_what_the_code_trains(density):
    """One density alone, which is the same training as all together."""
    at, sweep_here = sweep.DENSITIES.index(density), shipped.default_sweep()
    *_, last = toy.train(sweep.DEFAULT.settings[at : at + 1], seeds=8, steps=sweep.STEPS, every=sweep.STEPS)
    ours, theirs = last.toys.W[0], sweep_here.trained.W[at]
    # A rotation of the hidden space changes nothing and is not damped; overlaps are.
    assert (ours @ ours.mT - theirs @ theirs.mT).abs().max() < REMADE
    assert (last.toys.b[0] - sweep_here.trained.b[at]).abs().max() < REMADE


def test_shipped_sweep_shows_what_its_page_claims():
    toys = shipped.default_sweep().toys
    assert tuple(each.setting for each in toys) == sweep.DEFAULT.settings
    stored = [int(geometry.stored(each.W)) for each in toys]
    assert stored[0] == 2  # dense: as many as dimensions
    assert stored[-1] == 5  # sparse: all
    assert stored == sorted(stored)
    error = geometry.polygon_error(toys[sweep.DENSITIES.index(0.05)].W)
    assert (error.sides, error.angle < PENTAGON_ANGLE) == (5, True)


def test_a_sweep_reports_its_way(tmp_path):
    found = list(sweep.train(sweep.Problem(3, 2), steps=60))
    assert [now.step for now in found] == list(range(2, 61, 2))
    assert len(found[-1].toys) == len(sweep.DENSITIES)


def test_a_damaged_file_names_its_command(tmp_path):
    content = (shipped.ASSETS / "sweep.safetensors").read_bytes()
    (tmp_path / "sweep.safetensors").write_bytes(content[:-8])
    with pytest.raises(ValueError, match="superposition sweep"):
        shipped.default_sweep(tmp_path)


def test_a_missing_file_names_its_command(tmp_path):
    with pytest.raises(ValueError, match="superposition sweep"):
        shipped.default_sweep(tmp_path)
    with pytest.raises(ValueError, match="superposition phase"):
        shipped.phase_diagram(tmp_path)
    with pytest.raises(ValueError, match="superposition uniform"):
        shipped.uniform(tmp_path)
