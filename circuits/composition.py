"""Composition scores: how much of what one head writes lies where a later head reads.

A head of an earlier layer adds ``A x W_OV`` to the stream.  A later head reads the stream three times, and
so can be composed with in three ways (Elhage et al. 2021, "Two-Layer Attention-Only Transformers"):

* **Q**: through ``W_QK = W_Q W_Kᵀ``, the earlier head's output takes part in the *queries*;
* **K**: through ``W_QKᵀ = W_K W_Qᵀ``, it takes part in the *keys*;
* **V**: through ``W_OV = W_V W_O``, it is what the later head *moves*.

The score of a pair is ``‖W_OV¹ M²‖ / (‖W_OV¹‖ ‖M²‖)`` (Frobenius norms; M is one of the three).  What a
score means only shows beside what chance gives: ``1/√d_model`` whatever d_head is, since
``E ‖A R B‖² = ‖A‖²‖B‖² / d_model`` over random rotations R.  And 1 is out of reach unless a matrix has rank
one: two perfectly matched subspaces with flat spectra score ``1/√d_head``.

:func:`cyclic_scores` is the mistake the paper had to correct in this very figure, kept beside the right one.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from circuits.weights import Head, Weights

KINDS = ("Q", "K", "V")

Scores = Float[Tensor, "layer head later_layer later_head"]


def reading_factors(
    weights: Weights, kind: str
) -> tuple[Float[Tensor, "layer head d_model d_head"], Float[Tensor, "layer head d_head d_model"]]:
    """Return every head's factors ``(read, rest)`` of the matrix ``read @ rest`` that meets an earlier head's output.

    Row order: a vector written by an earlier head is multiplied by ``read`` first.

    Raises:
        ValueError: ``kind`` is not one of Q, K, V.
    """
    if kind == "Q":
        return weights.W_Q, weights.W_K.mT
    if kind == "K":
        return weights.W_K, weights.W_Q.mT
    if kind == "V":
        return weights.W_V, weights.W_O
    raise ValueError(f"unknown kind of composition {kind!r}; there are {', '.join(KINDS)}")


@torch.inference_mode()
def composition_scores(weights: Weights, kind: str) -> Scores:
    """Return ``‖W_OV¹ M²‖ / (‖W_OV¹‖ ‖M²‖)`` for every pair of heads, 0 where the second is not in a later layer.

    No [d_model, d_model] matrix is formed: a QR factor has the norm of its matrix, so
    ``‖W_V (W_O read) rest‖ = ‖R_V (W_O read) R_restᵀ‖``, all [d_head, d_head].
    Source: Elhage et al. 2021, "Composition of attention heads".
    """
    read, rest = reading_factors(weights, kind)
    meeting = torch.einsum("ihrd,jkds->ihjkrs", weights.W_O, read)
    product = _r_factor(weights.W_V)[:, :, None, None] @ meeting @ _r_factor(rest.mT).mT
    return _relative(product, weights, kind)


@torch.inference_mode()
def cyclic_scores(weights: Weights, kind: str) -> Scores:
    """Return the paper's first, mistaken scores: ``‖rest² W_V¹ W_O¹ read²‖`` over the right denominators.

    The product ``W_V W_O read rest`` has been turned round like a wheel so that it is only [d_head, d_head].
    That keeps its trace and its eigenvalues, but not its Frobenius norm.  For K it is the quantity that the
    paper's correction names, ``‖W_K W_O W_V W_Qᵀ‖`` in the paper's order: large where the later head's
    *query* is read from what the earlier head reads and its *key* from what the earlier head writes.
    """
    read, rest = reading_factors(weights, kind)
    writes = torch.einsum("ihrd,jkds->ihjkrs", weights.W_O, read)
    reads = torch.einsum("jksd,ihdr->ihjksr", rest, weights.W_V)
    return _relative(reads @ writes, weights, kind)


@torch.inference_mode()
def dense_scores(weights: Weights, kind: str) -> Scores:
    """Return the scores by the definition, from [d_model, d_model] products: slow, and there to check the others."""
    read, rest = reading_factors(weights, kind)
    earlier, later = weights.W_V @ weights.W_O, read @ rest
    norm = torch.linalg.matrix_norm
    scores = torch.zeros(earlier.shape[:2] * 2, dtype=earlier.dtype)
    for first in weights.heads:
        for second in [head for head in weights.heads if head.layer > first.layer]:
            scores[first + second] = norm(earlier[first] @ later[second]) / norm(earlier[first]) / norm(later[second])
    return scores.nan_to_num(0.0)


def _r_factor(matrix: Float[Tensor, "*head d_model d_head"]) -> Float[Tensor, "*head d_head d_head"]:
    return torch.linalg.qr(matrix, mode="r").R


def _relative(product: Float[Tensor, "layer head later_layer later_head r s"], weights: Weights, kind: str) -> Scores:
    """Divide the norm of every pair's product by the norms of its two matrices."""
    read, rest = reading_factors(weights, kind)
    norm = torch.linalg.matrix_norm
    earlier = norm(_r_factor(weights.W_V) @ _r_factor(weights.W_O.mT).mT)
    later = norm(_r_factor(read) @ _r_factor(rest.mT).mT)
    scores = norm(product) / earlier[:, :, None, None] / later
    order = torch.arange(weights.n_layers)
    is_later = order[:, None, None, None] < order[:, None]
    # A head that writes nothing (0/0) composes with nothing.
    return torch.where(is_later, scores.nan_to_num(0.0), 0.0)


def chance(weights: Weights) -> float:
    """Return ``1/√d_model``, the root mean square score of a pair whose subspaces are turned at random."""
    return weights.d_model**-0.5


def flat_match(weights: Weights) -> float:
    """Return ``1/√d_head``, the score of two equal subspaces with flat spectra."""
    return weights.d_head**-0.5


def cyclic_chance(weights: Weights) -> float:
    """Return ``√d_head / d_model``, the chance level of :func:`cyclic_scores` for Gaussian or flat factors."""
    return weights.d_head**0.5 / weights.d_model


def random_rotation(d: int, generator: torch.Generator, dtype: torch.dtype) -> Float[Tensor, "d d"]:
    """Draw an orthogonal matrix from the uniform (Haar) distribution."""
    q, r = torch.linalg.qr(torch.randn(d, d, generator=generator, dtype=dtype))
    return q * r.diagonal().sign()


@torch.inference_mode()
def chance_scores(
    weights: Weights, kind: str, score: Callable[[Weights, str], Scores], draws: int = 8, seed: int = 0
) -> Float[Tensor, "draw layer head later_layer later_head"]:
    """Score the model again and again with all heads' reading and writing turned apart by random rotations.

    Every matrix keeps its spectrum (``W_OV¹ → R W_OV¹ R'``); only *where* it reads and writes is random.  This
    is the model's own null distribution: its spread says which multiples of chance are worth a look.  (For V the later
    head is turned as well; what meets is ``R' R``, a random rotation again.)
    """
    generator = torch.Generator().manual_seed(seed)

    def turned() -> Weights:
        before, after = (random_rotation(weights.d_model, generator, weights.W_O.dtype) for _ in range(2))
        return replace(weights, W_V=before @ weights.W_V, W_O=weights.W_O @ after)

    return torch.stack([score(turned(), kind) for _ in range(draws)])


@torch.inference_mode()
def principal_pairs(
    write: Float[Tensor, "d_head d_model"], read: Float[Tensor, "d_model d_head"]
) -> tuple[Float[Tensor, "d_model d_head"], Float[Tensor, "d_model d_head"], Float[Tensor, "d_head"]]:
    """Return orthonormal bases ``(w, r)`` of the written and the read subspace, and the angles between them.

    ``w_i · r_j = cos φ_i`` for i = j and 0 otherwise; φ are the principal angles, in degrees, ascending.
    ``write`` spans with its rows (``W_O``), ``read`` with its columns (``W_Q``, ``W_K`` or ``W_V``).
    """
    w, r = torch.linalg.qr(write.mT).Q, torch.linalg.qr(read).Q
    u, cosines, vh = torch.linalg.svd(w.mT @ r)
    return w @ u, r @ vh.mT, torch.rad2deg(cosines.clamp(max=1).arccos())


@torch.inference_mode()
def turn_writer(weights: Weights, first: Head, second: Head, kind: str, degrees: float | Tensor) -> Weights:
    """Return weights in which what ``first`` writes makes one angle with what ``second`` reads.

    Each written direction ``w_i`` is turned within its own plane ``span(w_i, r_i)`` until its principal angle
    is ``degrees`` (a tensor sets each angle apart).  ``W_O`` keeps its singular values, everything else is
    untouched, and the score becomes ``cos(degrees)`` times its value at 0°.

    Raises:
        ValueError: ``second`` is not in a later layer, or the stream is too small for orthogonal subspaces.
    """
    check_pair(weights, first, second)
    if 2 * weights.d_head > weights.d_model:
        raise ValueError(f"two subspaces of {weights.d_head} dimensions cannot be orthogonal in {weights.d_model}")
    read, _ = reading_factors(weights, kind)
    w, r, _ = principal_pairs(weights.W_O[first], read[second])
    radians = torch.deg2rad(torch.as_tensor(degrees, dtype=w.dtype))
    W_O = weights.W_O.clone()
    W_O[first] = weights.W_O[first] @ w @ (radians.cos() * r + radians.sin() * _away(w, r)).mT
    return replace(weights, W_O=W_O)


def _away(w: Float[Tensor, "d_model d_head"], r: Float[Tensor, "d_model d_head"]) -> Float[Tensor, "d_model d_head"]:
    """Return unit directions orthogonal to all of ``r``, the i-th in the plane of ``w_i`` and ``r_i``.

    QR after ``r`` finds them, and still finds orthogonal ones where ``w_i = r_i`` and the plane is lost.
    """
    q, upper = torch.linalg.qr(torch.cat([r, w - r @ (r.mT @ w)], dim=1))
    n = r.shape[1]
    sign = upper.diagonal()[n:].sign()
    return q[:, n:] * torch.where(sign == 0, 1.0, sign)


def check_pair(weights: Weights, first: Head, second: Head) -> None:
    """Raise ``ValueError`` unless both heads exist and the second is in a later layer."""
    for head in (first, second):
        if not (0 <= head.layer < weights.n_layers and 0 <= head.head < weights.n_heads):
            raise ValueError(f"there is no head {head} in a model of {weights.n_layers} × {weights.n_heads}")
    if second.layer <= first.layer:
        raise ValueError(f"{second} cannot read what {first} writes: it is not in a later layer")


class Erratum(NamedTuple):
    """One pair's K-product and the same four matrices turned round: the trace stays, the norm does not."""

    trace_gap: float
    norm: float
    cyclic_norm: float


@torch.inference_mode()
def erratum_example(weights: Weights, first: Head, second: Head) -> Erratum:
    """Compare ``W_V¹ W_O¹ W_K² W_Q²ᵀ`` with ``W_Q²ᵀ W_V¹ W_O¹ W_K²``, both written out."""
    check_pair(weights, first, second)
    left, right = weights.W_V[first] @ weights.W_O[first], weights.W_K[second] @ weights.W_Q[second].T
    product, turned = left @ right, weights.W_Q[second].T @ left @ weights.W_K[second]
    return Erratum((product.trace() - turned.trace()).abs().item(), product.norm().item(), turned.norm().item())
