"""Does a head copy?  Eigenvalues of its OV circuit, their null, and three plainer counts.

If ``x M = λ x`` with λ > 0, a mixture of tokens raises the logits of that same mixture.  The paper's
summary, Σλ / Σ|λ|, lies in [−1, 1]; a random head scores near 0, but not *at* 0, so the null matters.
Positive eigenvalues are a clue and no proof: [[3, 4], [−1, −1]] has eigenvalues 1 and 1, and its second
token lowers itself.  Elhage et al. 2021, "Detecting copying heads".
"""

from typing import NamedTuple

import torch
from jaxtyping import Complex, Float
from torch import Tensor
from transformer_lens import FactoredMatrix

from circuits.heads import ov_circuit
from circuits.weights import Head, Weights

BLOCK = 512
"""Rows of a vocabulary circuit that are held at once: 512 × 4,096 floats are 8 MB."""


@torch.inference_mode()
def ov_eigenvalues(weights: Weights, head: Head) -> Complex[Tensor, "d_head"]:
    """Return the eigenvalues of ``W_E W_OV W_U`` that can be other than zero.

    The non-zero eigenvalues of AB are those of BA, so the ``[d_head, d_head]`` matrix ``W_O W_U W_E W_V``
    has them all; the remaining ``d_vocab − d_head`` are exactly zero.
    """
    circuit = ov_circuit(weights, head)
    return torch.linalg.eigvals(circuit.BA)


def copying_score(eigenvalues: Complex[Tensor, "*heads d_head"]) -> Float[Tensor, "*heads"]:
    """Return Σλ / Σ|λ|, in [−1, 1]; real, because complex eigenvalues come in conjugate pairs.

    No eigenvalues other than zero: nothing is copied, and the score is 0.
    """
    total = eigenvalues.abs().sum(-1)
    return eigenvalues.real.sum(-1) / total.where(total > 0, 1)


@torch.inference_mode()
def null_eigenvalues(weights: Weights, draws: int = 200, seed: int = 0) -> Complex[Tensor, "draws d_head"]:
    """Return OV eigenvalues of random heads between *this* model's embeddings.

    ``W_V`` and ``W_O`` are Gaussian, each of Frobenius norm 1: multiply by ‖W_V‖‖W_O‖ for a head of a given
    size.  The copying score does not depend on the size, so one null serves all heads of a model.  Between
    trained embeddings its spread is larger than the 1.5/d_head of a plain Gaussian matrix.
    """
    generator = torch.Generator().manual_seed(seed)
    shape, like = (draws, weights.d_model, weights.d_head), {"dtype": weights.W_E.dtype, "generator": generator}
    W_V, W_O = (_unit(torch.randn(shape, **like)) for _ in "VO")
    return torch.linalg.eigvals(W_O.mT @ (weights.W_U @ weights.W_E) @ W_V)


def _unit(matrices: Float[Tensor, "draws d_model d_head"]) -> Float[Tensor, "draws d_model d_head"]:
    return matrices / torch.linalg.matrix_norm(matrices, keepdim=True)


def head_size(weights: Weights, head: Head) -> float:
    """Return ‖W_V‖_F ‖W_O‖_F, the factor that makes :func:`null_eigenvalues` comparable with this head's."""
    return (weights.W_V[head].norm() * weights.W_O[head].norm()).item()


class Null(NamedTuple):
    """Copying scores of random heads: their mean and standard deviation."""

    mean: float
    sd: float

    def z(self, score: float) -> float:
        """How many standard deviations a score lies above the null's mean."""
        return (score - self.mean) / self.sd


def copying_null(weights: Weights, draws: int = 200, seed: int = 0) -> Null:
    """Return mean and sd of the copying score of ``draws`` random heads between this model's embeddings."""
    scores = copying_score(null_eigenvalues(weights, draws, seed))
    return Null(scores.mean().item(), scores.std().item())


GAUSSIAN_SD = 1.5
"""sd of the score of an r×r Gaussian matrix is about 1.5/r: the trace has sd √r σ, Σ|λ| is near (2/3) r^1.5 σ."""


class SelfCounts(NamedTuple):
    """Shares of the vocabulary for which a token, attended to, raises itself."""

    positive: float
    """… raises its own logit at all: diagonal of the OV circuit above zero."""
    top1: float
    """… raises its own logit most of all."""
    top5: float
    """… has its own logit among the five it raises most."""


@torch.inference_mode()
def self_counts(circuit: FactoredMatrix) -> SelfCounts:
    """Count, over the whole vocabulary and in blocks of rows, how a token's own logit ranks in its row."""
    diagonal, above = [], []
    for start in range(0, circuit.A.shape[0], BLOCK):
        logits = circuit.A[start : start + BLOCK] @ circuit.B
        own = logits.diagonal(start)  # from the same product: rounding must not beat a token by itself
        diagonal.append(own)
        above.append((logits > own.unsqueeze(-1)).sum(-1))
    diagonal, above = torch.cat(diagonal), torch.cat(above)
    return SelfCounts(*(hit.double().mean().item() for hit in (diagonal > 0, above < 1, above < 5)))


def chance_counts(d_vocab: int) -> SelfCounts:
    """Return what a circuit of independent random entries would reach: 1/2, 1/V, 5/V."""
    return SelfCounts(0.5, 1 / d_vocab, min(1.0, 5 / d_vocab))
