"""The toy model, its data, and a training loop that fits many models as one tensor.

A single run in two dimensions often ends in a poor local minimum, so every setting is trained from several
starts and the lowest loss is kept.  All starts of all settings are one batched tensor
``W: [setting, seed, feature, hidden]``; Adam acts on each entry by itself, so training them together is
exactly training them apart.  Samples are the last dimension: the products are faster that way, and
``relu(W Wᵀ x + b)`` then reads as in the paper.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

ACTIVATIONS = ("relu", "linear")
PAIRS = ("independent", "correlated", "anticorrelated")
"""How features 0 and 1, 2 and 3, … occur: each by itself; both or neither; never both."""

EVALUATION_SAMPLES = 4096
"""Fresh samples on which the starts of one setting are compared; all starts see the same ones."""


@dataclass(frozen=True)
class Setting:
    """One toy problem: ``x_i`` is 0 with probability 1 − density, else uniform on [0, 1]; ``I_i = decay^i``."""

    n_features: int = 5
    d_hidden: int = 2
    density: float = 0.05
    decay: float = 1.0
    activation: str = "relu"
    pairs: str = "independent"

    def __post_init__(self):
        if self.d_hidden < 1:
            raise ValueError(f"the hidden space needs at least one dimension, not {self.d_hidden}")
        if self.n_features < 1:
            raise ValueError(f"the model needs at least one feature, not {self.n_features}")
        if not 0 < self.density <= 1:
            raise ValueError(f"density is the probability that a feature is present, in (0, 1], not {self.density}")
        if not self.decay > 0:
            raise ValueError(f"the importance decay must be positive, not {self.decay}")
        if self.activation not in ACTIVATIONS:
            raise ValueError(f"unknown activation {self.activation!r}; there are {', '.join(ACTIVATIONS)}")
        if self.pairs not in PAIRS:
            raise ValueError(f"unknown pairs {self.pairs!r}; there are {', '.join(PAIRS)}")

    @property
    def importance(self) -> Float[Tensor, "feature"]:
        return self.decay ** torch.arange(self.n_features, dtype=torch.get_default_dtype())


@dataclass(frozen=True)
class Toys:
    """Trained models of several settings, several starts each."""

    settings: tuple[Setting, ...]
    W: Float[Tensor, "setting seed feature hidden"]
    b: Float[Tensor, "setting seed feature"]


@dataclass(frozen=True)
class Toy:
    """The best start of one setting; ``losses`` are those of all its starts, on the same fresh samples."""

    setting: Setting
    W: Float[Tensor, "feature hidden"]
    b: Float[Tensor, "feature"]
    losses: Float[Tensor, "seed"]

    @property
    def loss(self) -> float:
        return self.losses.min().item()


@dataclass(frozen=True)
class Progress:
    """Where a training run is: ``step`` of ``steps`` done, and the models as they are now."""

    step: int
    steps: int
    toys: Toys


def samples(
    settings: Sequence[Setting], n: int, generator: torch.Generator | None = None
) -> Float[Tensor, "setting feature sample"]:
    """Draw ``n`` inputs for every setting; settings share the random numbers and differ in the threshold.

    A pair that is correlated shares one uniform number ``u``; in an anticorrelated pair the second feature
    uses ``1 − u``, so that both are never present (which caps the density at ½).
    """
    first = settings[0]
    value = torch.rand(first.n_features, n, generator=generator)
    if first.pairs == "independent":
        u = torch.rand(first.n_features, n, generator=generator)
    else:
        own = torch.rand((first.n_features + 1) // 2, n, generator=generator)
        partner = own if first.pairs == "correlated" else 1 - own
        u = torch.stack([own, partner], dim=1).flatten(0, 1)[: first.n_features]
    cap = 0.5 if first.pairs == "anticorrelated" else 1.0
    density = torch.tensor([min(setting.density, cap) for setting in settings])
    return value * (u < density[:, None, None])


def reconstruct(
    W: Float[Tensor, "*models feature hidden"],
    b: Float[Tensor, "*models feature"],
    x: Float[Tensor, "*#models feature sample"],
    activation: str = "relu",
) -> Float[Tensor, "*models feature sample"]:
    """Return ``relu(W Wᵀ x + b)`` (or without the relu, for a linear model), samples as columns."""
    z = W @ (W.mT @ x) + b[..., None]
    return z.relu() if activation == "relu" else z


def loss(toys: Toys, x: Float[Tensor, "setting feature sample"]) -> Float[Tensor, "setting seed"]:
    """Return ``mean over samples of Σ_i I_i (x_i − x̂_i)²`` for every model."""
    out = reconstruct(toys.W, toys.b, x[:, None], toys.settings[0].activation)
    return (importances(toys.settings) * (out - x[:, None]) ** 2).sum(-2).mean(-1)


def importances(settings: Sequence[Setting]) -> Float[Tensor, "setting 1 feature 1"]:
    """Return the importances of every setting, shaped to weigh ``[setting, seed, feature, sample]``."""
    return torch.stack([setting.importance for setting in settings])[:, None, :, None]


def gradient(toys: Toys, x: Float[Tensor, "setting feature sample"]) -> tuple[Tensor, Tensor]:
    """Return the gradients of :func:`loss` with respect to ``W`` and ``b``.

    With ``e = 2 I (x̂ − x) ⊙ 1[z > 0] / samples``, the product rule gives, as W appears twice,
    ``dW = e hᵀ + x (Wᵀ e)ᵀ`` and ``db = Σ e``: three lines, and three times faster than a recorded graph.
    """
    x = x[:, None]
    h = toys.W.mT @ x
    z = toys.W @ h + toys.b[..., None]
    relu = toys.settings[0].activation == "relu"
    e = ((z.relu() if relu else z) - x).mul_(2 * importances(toys.settings) / x.shape[-1])
    if relu:
        e.mul_(z > 0)
    return e @ h.mT + x @ (toys.W.mT @ e).mT, e.sum(-1)


@torch.no_grad()
def train(
    settings: Sequence[Setting],
    seeds: int = 8,
    steps: int = 1500,
    batch: int = 256,
    lr: float = 0.03,
    seed: int = 0,
    every: int = 50,
) -> Iterator[Progress]:
    """Train ``seeds`` models of every setting at once, and report every ``every`` steps and at the end.

    Adam; the learning rate is constant for half of the run, then falls to zero in a straight line.
    The caller draws the progress and stops by not asking for more.

    Raises:
        ValueError: the settings differ in more than density and importance, so that they are not one tensor.
    """
    settings = tuple(settings)
    if len({(s.n_features, s.d_hidden, s.activation, s.pairs) for s in settings}) != 1:
        raise ValueError("settings trained together may differ only in density and importance decay")
    generator = torch.Generator().manual_seed(seed)
    n, m = settings[0].n_features, settings[0].d_hidden
    W = 0.8 / m**0.5 * torch.randn(seeds, n, m, generator=generator).repeat(len(settings), 1, 1, 1)
    toys = Toys(settings, W, torch.zeros(W.shape[:-1]))
    optimiser = torch.optim.Adam([toys.W, toys.b], lr=lr, betas=(0.9, 0.99))
    for step in range(steps):
        optimiser.param_groups[0]["lr"] = lr * min(1.0, 2 * (1 - step / steps))
        toys.W.grad, toys.b.grad = gradient(toys, samples(settings, batch, generator))
        optimiser.step()
        if (step + 1) % every == 0 or step + 1 == steps:
            yield Progress(step + 1, steps, Toys(settings, toys.W.clone(), toys.b.clone()))


@torch.inference_mode()
def best(toys: Toys, seed: int = 1) -> list[Toy]:
    """Return the start with the lowest loss on fresh samples, for every setting."""
    x = samples(toys.settings, EVALUATION_SAMPLES, torch.Generator().manual_seed(seed))
    losses = loss(toys, x)
    winners = zip(toys.settings, toys.W, toys.b, losses, losses.argmin(-1).tolist(), strict=True)
    return [Toy(setting, W[k], b[k], loss) for setting, W, b, loss, k in winners]


def fit(setting: Setting, **options) -> Toy:
    """Train one setting to the end and return its best start; ``options`` are those of :func:`train`."""
    *_, last = train([setting], **options)
    return best(last.toys)[0]
