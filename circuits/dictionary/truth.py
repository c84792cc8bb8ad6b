"""The toy model's hidden vectors: data whose right dictionary is known.

A toy of :mod:`circuits.superposition` stores features as directions ``W[i]``.  An autoencoder that sees only
its hidden vectors ``h = x W`` should find these directions again.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from circuits.dictionary import measures
from circuits.dictionary.autoencoder import Autoencoder
from circuits.superposition import geometry, toy
from circuits.superposition.toy import Toy

RECOVERED = 0.9
"""A true feature counts as found when some dictionary row has at least this cosine with it."""


def hidden_vectors(
    model: Toy, n: int, generator: torch.Generator
) -> tuple[Float[Tensor, "sample feature"], Float[Tensor, "sample hidden"]]:
    """Draw ``n`` inputs, drop the empty ones (they teach nothing), and return the rest with their ``h = x W``."""
    x = toy.samples([model.setting], n, generator)[0].T
    x = x[(x > 0).any(-1)]
    return x, x @ model.W


def batches(model: Toy, n: int = 1024, seed: int = 0) -> Iterator[Float[Tensor, "sample hidden"]]:
    """Yield hidden vectors for ever, about ``n · P(not empty)`` at a time."""
    generator = torch.Generator().manual_seed(seed)
    while True:
        yield hidden_vectors(model, n, generator)[1]


def match(
    W: Float[Tensor, "truth hidden"], W_dec: Float[Tensor, "*models feature hidden"]
) -> Float[Tensor, "*models truth feature"]:
    """Return the cosine of every true direction with every dictionary row."""
    unit = torch.nn.functional.normalize
    return unit(W, dim=-1) @ unit(W_dec, dim=-1).mT


def order(cosines: Float[Tensor, "truth feature"]) -> Int[Tensor, "feature"]:
    """Return the dictionary rows in the order of the true feature each resembles most: a good match is diagonal."""
    return cosines.argmax(0).argsort(stable=True)


@dataclass(frozen=True)
class Report:
    """How good a dictionary is, by what the data say and by what only the truth can say; one entry a model.

    ``l0``, ``error`` (mean ``‖h − ĥ‖²``), ``explained`` and ``dead`` need no truth.  ``mean_max_cosine`` is taken
    over the stored true features, ``recovered`` counts those with a cosine above :data:`RECOVERED`, and
    ``shrinkage`` is how much too small the activation of the best match is when a feature is present alone.
    ``true_l0`` is the number of features really present.
    """

    l0: Float[Tensor, "*models"]
    error: Float[Tensor, "*models"]
    explained: Float[Tensor, "*models"]
    dead: Float[Tensor, "*models"]
    mean_max_cosine: Float[Tensor, "*models"]
    recovered: Float[Tensor, "*models"]
    shrinkage: Float[Tensor, "*models"]
    true_l0: float


@torch.inference_mode()
def report(model: Autoencoder, truth: Toy, n: int = 8192, seed: int = 1) -> Report:
    """Measure autoencoders (leading dimension: λ) on fresh hidden vectors of ``truth``."""
    x, h = hidden_vectors(truth, n, torch.Generator().manual_seed(seed))
    f = model.encode(h)
    h_hat = model.decode(f)
    cosine, best = match(truth.W, model.W_dec).max(-1)
    kept = geometry.norms(truth.W) > geometry.STORED_NORM
    return Report(
        l0=measures.l0(f),
        error=(h - h_hat).square().sum(-1).mean(-1),
        explained=measures.explained_variance(h, h_hat),
        dead=measures.dead(f).sum(-1).float(),
        mean_max_cosine=cosine[..., kept].mean(-1),
        recovered=(cosine[..., kept] > RECOVERED).sum(-1).float(),
        shrinkage=torch.stack([_shrinkage(x, truth.W, f[k], best[k]) for k in range(len(f))]),
        true_l0=(x > 0).sum(-1).float().mean().item(),
    )


def _shrinkage(x: Tensor, W: Tensor, f: Float[Tensor, "sample feature"], best: Tensor) -> Float[Tensor, ""]:
    """Mean of ``a − f`` over samples with exactly one feature, ``a = x_i ‖W_i‖``, where the match is active."""
    rows = ((x > 0).sum(-1) == 1).nonzero()[:, 0]
    present = x[rows].argmax(-1)
    a = x[rows, present] * geometry.norms(W)[present]
    found = f[rows, best[present]]
    return (a - found)[found > 0].mean()
