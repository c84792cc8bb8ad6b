"""The sparse autoencoder and its training, one or many at once.

.. math:: f = \\mathrm{relu}((x - b_{dec}) W_{enc} + b_{enc}), \\qquad \\hat x = f\\, W_{dec} + b_{dec},
          \\qquad L = \\|x - \\hat x\\|^2 + \\lambda \\sum_i f_i, \\qquad \\|W_{dec}[i]\\| = 1

Row ``W_dec[i]`` is the direction of dictionary feature ``i``.  Without the unit norm the penalty is escaped:
halve ``f``, double ``W_dec``, and the same reconstruction costs half as much.  (Bricken et al. 2023, "Towards
Monosemanticity".)  Leading dimensions are models: several values of λ train as one tensor.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor


@dataclass(frozen=True)
class Autoencoder:
    """The four matrices; ``d`` is the width of what is encoded."""

    W_enc: Float[Tensor, "*models d feature"]
    b_enc: Float[Tensor, "*models feature"]
    W_dec: Float[Tensor, "*models feature d"]
    b_dec: Float[Tensor, "*models d"]

    def encode(self, x: Float[Tensor, "*#models sample d"]) -> Float[Tensor, "*#models sample feature"]:
        """Return the feature activations ``relu((x − b_dec) W_enc + b_enc)``."""
        return ((x - self.b_dec.unsqueeze(-2)) @ self.W_enc + self.b_enc.unsqueeze(-2)).relu()

    def decode(self, f: Float[Tensor, "*models sample feature"]) -> Float[Tensor, "*models sample d"]:
        """Return the reconstruction ``f W_dec + b_dec``."""
        return f @ self.W_dec + self.b_dec.unsqueeze(-2)

    def __call__(self, x: Tensor) -> Tensor:
        return self.decode(self.encode(x))

    def __getitem__(self, model: int) -> "Autoencoder":
        """Return one of several models."""
        return Autoencoder(*(getattr(self, field.name)[model] for field in fields(self)))

    def clone(self) -> "Autoencoder":
        return Autoencoder(*(getattr(self, field.name).detach().clone() for field in fields(self)))

    def half(self) -> "Autoencoder":
        """Return the model rounded to float16, as it is stored."""
        return Autoencoder(*(getattr(self, field.name).half() for field in fields(self)))

    def float(self) -> "Autoencoder":
        return Autoencoder(*(getattr(self, field.name).float() for field in fields(self)))

    @property
    def n_features(self) -> int:
        return self.W_dec.shape[-2]


@dataclass(frozen=True)
class Progress:
    """Where a training run is: the models as they are now, their squared error and their L0 on the last batch."""

    step: int
    steps: int
    model: Autoencoder
    error: Float[Tensor, "*models"]
    l0: Float[Tensor, "*models"]


def initial(models: tuple[int, ...], d: int, n_features: int, generator: torch.Generator) -> Autoencoder:
    """Return random unit decoder rows with the encoder as their transpose; no biases yet."""
    W_dec = torch.nn.functional.normalize(torch.randn(n_features, d, generator=generator), dim=-1)
    W_dec = W_dec.repeat(*models, 1, 1)
    return Autoencoder(
        W_dec.mT.clone(memory_format=torch.contiguous_format),
        W_dec.new_zeros(*models, n_features),
        W_dec,
        W_dec.new_zeros(*models, d),
    )


def train(
    batches: Iterable[Float[Tensor, "sample d"]],
    n_features: int,
    l1: Float[Tensor, "*models"],
    steps: int,
    lr: float = 0.003,
    seed: int = 0,
    resample_at: tuple[int, ...] = (),
    every: int = 50,
) -> Iterator[Progress]:
    """Train one autoencoder for every entry of ``l1`` on the same batches; report every ``every`` steps.

    Adam; the learning rate is constant for the first two thirds, then falls to zero in a straight line.
    At the steps of ``resample_at``, features that have been silent since the last such step begin afresh.

    Raises:
        ValueError: ``batches`` ends before ``steps``.
    """
    batches = iter(batches)
    generator = torch.Generator().manual_seed(seed)
    model = fired = optimiser = None
    for step in range(steps):
        x = next(batches, None)
        if x is None:
            raise ValueError(f"the batches end after {step} of {steps} steps")
        if model is None:
            model = initial(l1.shape, x.shape[-1], n_features, generator)
            optimiser = torch.optim.Adam([getattr(model, field.name) for field in fields(model)], betas=(0.9, 0.99))
            fired = torch.zeros_like(model.b_enc, dtype=torch.bool)
        optimiser.param_groups[0]["lr"] = lr * min(1.0, 3 * (1 - step / steps))
        f, error = update(model, optimiser, x, l1)
        fired |= (f > 0).any(-2)
        if step in resample_at:
            resample(model, optimiser, fired, x, generator)
            fired.zero_()
        if (step + 1) % every == 0 or step + 1 == steps:
            yield Progress(step + 1, steps, model.clone(), error, (f > 0).float().sum(-1).mean(-1))


def update(
    model: Autoencoder, optimiser: torch.optim.Optimizer, x: Float[Tensor, "sample d"], l1: Float[Tensor, "*models"]
) -> tuple[Float[Tensor, "*models sample feature"], Float[Tensor, "*models"]]:
    """Take one step on one batch; return the activations and the mean squared error before it."""
    W_dec = model.W_dec
    with torch.enable_grad():
        for field in fields(model):
            getattr(model, field.name).requires_grad_()
        f = model.encode(x)
        error = (model.decode(f) - x).float().square().sum(-1).mean(-1)
        (error + l1 * f.float().sum(-1).mean(-1)).sum().backward()
    with torch.no_grad():
        # A step along the row itself would be undone by the constraint, but would spoil Adam's estimates.
        W_dec.grad -= (W_dec.grad * W_dec).sum(-1, keepdim=True) * W_dec
        optimiser.step()
        optimiser.zero_grad()
        W_dec.copy_(torch.nn.functional.normalize(W_dec, dim=-1))
    return f.detach(), error.detach()


@torch.no_grad()
def resample(
    model: Autoencoder,
    optimiser: torch.optim.Optimizer,
    fired: Bool[Tensor, "*models feature"],
    x: Float[Tensor, "sample d"],
    generator: torch.Generator,
) -> None:
    """Point every silent feature at what a badly reconstructed sample lacks (drawn ∝ squared loss), in place.

    The new encoder column is short, a fifth of the living ones, so that it disturbs nothing until it has learnt.
    """
    lacking = x - model(x)
    for at in np.ndindex(fired.shape[:-1]):
        dead = (~fired[at]).nonzero()[:, 0]
        if not len(dead):
            continue
        weight = lacking[at].square().sum(-1).square() + 1e-30
        rows = torch.nn.functional.normalize(
            lacking[at][torch.multinomial(weight, len(dead), replacement=True, generator=generator)], dim=-1
        )
        alive = model.W_enc[at].norm(dim=0)[fired[at]]
        scale = 0.2 * (alive.mean() if len(alive) else 1.0)
        model.W_dec[at][dead], model.W_enc[at][:, dead], model.b_enc[at][dead] = rows, scale * rows.T, 0.0
        for moment in ("exp_avg", "exp_avg_sq"):
            optimiser.state[model.W_dec][moment][at][dead] = 0.0
            optimiser.state[model.W_enc][moment][at][:, dead] = 0.0
            optimiser.state[model.b_enc][moment][at][dead] = 0.0
