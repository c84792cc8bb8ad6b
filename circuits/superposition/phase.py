"""Two features, one hidden dimension: the phase diagram that can be computed.

With ``n = 2, m = 1`` a model is four numbers, ``θ = (w₁, w₂, b₁, b₂)``, and its expected loss is an integral
over two variables, done here by Gauss-Legendre quadrature: no sampling noise.  Importances are 1 and ``I``,
both features have density ``p``.  Three kinds of solution compete:

* ``dedicated`` - the more important feature has the dimension, the other gets the best constant;
* ``pair`` - the two point in opposite directions, and the relu tells them apart (superposition);
* ``same side`` - both point the same way and blur each other.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from circuits.superposition.toy import Setting, Toys

PAIR, DEDICATED, SAME_SIDE = KINDS = ("pair", "dedicated", "same side")
HALVINGS = 12
"""Bisection steps of the boundary: within 2⁻¹² of the density."""

OVERLAP = 0.02
"""``|w₁ w₂|`` under this counts as "one feature has the dimension to itself"."""

STARTS = ((1.0, -1.0, 0.0, 0.0), (0.95, -0.4, 0.1, 0.3), (0.95, 0.4, -0.1, 0.2), (1.0, 0.0, 0.0, 0.2))
"""Where the minimisation begins: an equal pair, a lopsided pair, the same side, dedicated."""


class Solution(NamedTuple):
    """The best of all starts at each point: ``theta = (w₁, w₂, b₁, b₂)``."""

    theta: Float[Tensor, "point 4"]
    loss: Float[Tensor, "point"]

    @property
    def kinds(self) -> list[str]:
        return [kind(*theta[:2]) for theta in self.theta.tolist()]


def kind(w1: float, w2: float) -> str:
    """Name a solution by its two weights."""
    if abs(w1 * w2) < OVERLAP:
        return DEDICATED
    return PAIR if w1 * w2 < 0 else SAME_SIDE


def expected_loss(
    theta: Float[Tensor, "*points 4"],
    density: Float[Tensor, "*#points"],
    importance: Float[Tensor, "*#points"],
    nodes: int = 16,
) -> Float[Tensor, "*points"]:
    """Return the exact expected loss ``E[(x₁ − x̂₁)² + I (x₂ − x̂₂)²]`` by quadrature.

    Neither, one or both features are present with probabilities ``(1−p)²``, ``p(1−p)`` twice and ``p²``;
    a present feature is uniform on [0, 1], an integral that ``nodes`` points take.
    """
    t, weight = (torch.from_numpy(a).to(theta) / 2 for a in np.polynomial.legendre.leggauss(nodes))
    t, zero, one = t + 0.5, theta.new_zeros(1), theta.new_ones(1)
    w1, w2, b1, b2 = theta.unsqueeze(-2).unbind(-1)

    def mean(x1: Tensor, x2: Tensor, weight: Tensor) -> Tensor:
        h = x1 * w1 + x2 * w2
        errors = ((h * w1 + b1).relu() - x1) ** 2 + importance[..., None] * ((h * w2 + b2).relu() - x2) ** 2
        return errors @ weight

    neither = mean(zero, zero, one)
    single = mean(t, torch.zeros_like(t), weight) + mean(torch.zeros_like(t), t, weight)
    both = mean(t.repeat_interleave(nodes), t.repeat(nodes), torch.outer(weight, weight).flatten())
    p = density
    return (1 - p) ** 2 * neither + p * (1 - p) * single + p**2 * both


def dedicated_loss(density: Tensor, importance: Tensor) -> Tensor:
    """Loss of keeping the more important feature: ``min(I, 1) (p/3 − p²/4)``; the other's best constant is p/2."""
    return importance.clamp(max=1) * (density / 3 - density**2 / 4)


def unbiased_pair_loss(density: Tensor, importance: Tensor) -> Tensor:
    """Loss of the pair ``w = (1, −1)`` with ``b = 0``: ``p² (1 + I) / 6``, lost only when both are present."""
    return density**2 * (1 + importance) / 6


def unbiased_boundary(importance: Tensor) -> Tensor:
    """Density at which the two closed forms cross, **for b = 0**: ``p = 2I / (1 + 2.5 I)`` for I ≤ 1.

    For I ≥ 1 the features change places: ``p = 2 / (2.5 + I)``.  A trained bias moves the true boundary to
    higher densities (:func:`boundary`).
    """
    return 2 / (2.5 + torch.maximum(importance, 1 / importance))


def solve(density: Float[Tensor, "point"], importance: Float[Tensor, "point"], steps: int = 600) -> Solution:
    """Minimise :func:`expected_loss` at every point from all :data:`STARTS` and keep the lowest."""
    density, importance = density.double(), importance.double()
    theta = torch.tensor(STARTS, dtype=torch.float64)[:, None].repeat(1, len(density), 1)
    swap = importance > 1  # the second feature is the important one: begin with the roles exchanged
    theta[:, swap] = theta[:, swap][..., [1, 0, 3, 2]]
    theta.requires_grad_()
    optimiser = torch.optim.Adam([theta], betas=(0.9, 0.99))
    for step in range(steps):
        optimiser.param_groups[0]["lr"] = 0.03 * min(1.0, 2 * (1 - step / steps))
        optimiser.zero_grad()
        expected_loss(theta, density, importance).sum().backward()
        optimiser.step()
    theta = theta.detach()
    losses = expected_loss(theta, density, importance, nodes=48)
    best = losses.argmin(0)
    points = torch.arange(len(density))
    return Solution(theta[best, points], losses[best, points])


def boundary(importance: Float[Tensor, "point"], halvings: int = HALVINGS) -> Iterator[Float[Tensor, "point"]]:
    """Find, for every importance, the highest density at which the pair wins, by bisection.

    Yields the present estimate after every halving; the last is within ``2^−halvings``.
    """
    low, high = torch.zeros(len(importance)), torch.ones(len(importance))
    for _ in range(halvings):
        middle = (low + high) / 2
        pair = torch.tensor([found == PAIR for found in solve(middle, importance).kinds])
        low, high = torch.where(pair, middle, low), torch.where(pair, high, middle)
        yield (low + high) / 2


def grid(densities: Tensor, importances: Tensor) -> list[Setting]:
    """Return the toy problem of every (importance, density) pair, importances slowest."""
    pairs = [(float(p), float(i)) for i in importances for p in densities]
    return [Setting(n_features=2, d_hidden=1, density=p, decay=i) for p, i in pairs]


@torch.inference_mode()
def choose(toys: Toys) -> Solution:
    """Return the best start of every trained setting of two features, by the exact loss instead of samples."""
    theta = torch.cat([toys.W[..., 0], toys.b], dim=-1).double()
    density, importance = torch.tensor([(s.density, s.decay) for s in toys.settings], dtype=torch.float64).T
    losses = expected_loss(
        theta, density[:, None].expand(theta.shape[:-1]), importance[:, None].expand(theta.shape[:-1])
    )
    best, points = losses.argmin(1), torch.arange(len(density))
    return Solution(theta[points, best], losses[points, best])
