"""What a trained ``W`` looks like: who is stored, how much room each feature has, at which angles.

``W: [feature, hidden]`` in all of this module; leading dimensions are models.
"""

import math
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

STORED_NORM = 0.5
"""A feature counts as stored when ``‖W_i‖`` exceeds this: trained norms lie near 0 or near 1."""


def norms(W: Float[Tensor, "*models feature hidden"]) -> Float[Tensor, "*models feature"]:
    """Return ``‖W_i‖``: near 1 for a stored feature, near 0 for one that is dropped."""
    return W.norm(dim=-1)


def stored(W: Float[Tensor, "*models feature hidden"]) -> Int[Tensor, "*models"]:
    """Return how many features have a norm above :data:`STORED_NORM`."""
    return (norms(W) > STORED_NORM).sum(-1)


def dimensionality(W: Float[Tensor, "*models feature hidden"]) -> Float[Tensor, "*models feature"]:
    """Return the share of a dimension that each feature has to itself.

    .. math:: D_i = \\frac{\\|W_i\\|^2}{\\sum_j (\\hat W_i \\cdot W_j)^2}

    1 for a feature with a dimension of its own, ½ in an antipodal pair, 2/5 in a regular pentagon, 0 for a
    feature with no direction.  Always ``Σ D_i ≤ rank W ≤ m`` (Cauchy-Schwarz: ``D_i ≤ W_i S⁻¹ W_iᵀ`` with
    ``S = WᵀW``), with equality when every ``W_i`` is an eigenvector of S.  (Elhage et al. 2022, "feature
    dimensionality".)
    """
    own = W.square().sum(-1).square()
    all_of_them = ((W @ (W.mT @ W)) * W).sum(-1)  # Σ_j (W_i · W_j)² = W_i S W_iᵀ: no feature × feature matrix
    return torch.where(own > 0, own / all_of_them.clamp_min(torch.finfo(W.dtype).tiny), 0)


def dimensions_per_feature(W: Float[Tensor, "*models feature hidden"]) -> Float[Tensor, "*models"]:
    """Return ``D* = m / ‖W‖_F²``: hidden dimensions for each stored feature (``‖W‖_F²`` counts them)."""
    return W.shape[-1] / W.square().sum((-2, -1))


def interference(W: Float[Tensor, "*models feature hidden"]) -> Float[Tensor, "*models feature"]:
    """Return ``Σ_{j≠i} (Ŵ_i · W_j)²``: how much of the others each feature picks up."""
    unit = torch.nn.functional.normalize(W, dim=-1)
    return ((unit @ (W.mT @ W)) * unit).sum(-1) - W.square().sum(-1)


def angle_gaps(W: Float[Tensor, "feature hidden"]) -> Float[Tensor, "stored"]:
    """Return the angles in degrees between neighbouring stored features of a two-dimensional model, from the
    direction nearest to the positive first axis on, counter-clockwise; they sum to 360.

    Raises:
        ValueError: the hidden space is not two-dimensional.
    """
    if W.shape[-1] != 2:
        raise ValueError(f"angles around a circle need 2 hidden dimensions, not {W.shape[-1]}")
    kept = W[norms(W) > STORED_NORM]
    angle = torch.atan2(kept[:, 1], kept[:, 0]).remainder(2 * math.pi).sort().values
    return torch.diff(angle, append=angle[:1] + 2 * math.pi).rad2deg()


class PolygonError(NamedTuple):
    """How far the stored features are from a regular polygon: worst angle (degrees), worst ``D_i``."""

    sides: int
    angle: float
    dimensionality: float


def polygon_error(W: Float[Tensor, "feature hidden"]) -> PolygonError:
    """Compare the stored features with a regular polygon of as many sides (``360°/k``, ``D_i = 2/k``).

    Raises:
        ValueError: the hidden space is not two-dimensional, or fewer than three features are stored.
    """
    gaps = angle_gaps(W)
    k = len(gaps)
    if k < 3:
        raise ValueError(f"a polygon needs three stored features, the model stores {k}")
    D = dimensionality(W)[norms(W) > STORED_NORM]
    return PolygonError(k, (gaps - 360 / k).abs().max().item(), (D - 2 / k).abs().max().item())


def polygon(k: int) -> Float[Tensor, "feature 2"]:
    """Return ``k`` unit vectors at equal angles: the regular polygon as a ``W``."""
    angle = torch.arange(k) * (2 * math.pi / k)
    return torch.stack([angle.cos(), angle.sin()], dim=-1)


def tetrahedron() -> Float[Tensor, "4 3"]:
    """Return the four unit vectors of a regular tetrahedron (``D_i = 3/4``)."""
    corners = torch.tensor([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]], dtype=torch.get_default_dtype())
    return corners / 3**0.5


def square_antiprism() -> Float[Tensor, "8 3"]:
    """Return eight unit vectors: two squares, one turned by 45°, at the heights where ``D_i = 3/8`` for all.

    The frame is tight when the mean squared height is 1/3, so the squares lie at ``z = ±1/√3``.
    """
    angle = torch.arange(8) * (math.pi / 4)
    z = torch.tensor([1.0, -1.0]).repeat(4) / 3**0.5
    radius = (2 / 3) ** 0.5
    return torch.stack([radius * angle.cos(), radius * angle.sin(), z], dim=-1)
