"""What can be said of a dictionary by numbers; none of them says that a feature means something."""

from jaxtyping import Bool, Float
from torch import Tensor


def l0(f: Float[Tensor, "*models sample feature"]) -> Float[Tensor, "*models"]:
    """Return the mean number of features that are active at once."""
    return (f > 0).sum(-1).float().mean(-1)


def density(f: Float[Tensor, "*models sample feature"]) -> Float[Tensor, "*models feature"]:
    """Return the share of samples in which each feature is active; 0 for a dead one."""
    return (f > 0).float().mean(-2)


def dead(f: Float[Tensor, "*models sample feature"]) -> Bool[Tensor, "*models feature"]:
    """Return which features are active in no sample (so it depends on how many samples there are)."""
    return ~(f > 0).any(-2)


def explained_variance(
    x: Float[Tensor, "sample d"], x_hat: Float[Tensor, "*models sample d"]
) -> Float[Tensor, "*models"]:
    """Return ``1 − Σ‖x − x̂‖² / Σ‖x − mean x‖²``: 1 is perfect, 0 no better than the mean."""
    return 1 - (x - x_hat).square().sum((-2, -1)) / (x - x.mean(0)).square().sum()


def shrunk(a: Float[Tensor, "*any"], l1: float) -> Float[Tensor, "*any"]:
    """Return the ``f ≥ 0`` that minimises ``(a − f)² + λ f``, namely ``max(a − λ/2, 0)``.

    The derivative is ``−2 (a − f) + λ``.  So an L1 penalty makes every activation λ/2 too small, even where the
    direction is exactly right.
    """
    return (a - l1 / 2).clamp_min(0)
