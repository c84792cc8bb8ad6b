"""What two composed heads do on a prompt: composed scores, composed patterns, virtual heads.

:mod:`circuits.composition` compares matrices and never sees a text.  Here the same three ways of composing
are followed on a run: which part of a later head's scores comes through an earlier head (Q, K), and the
pattern and the matrix of the virtual head that the two form (V).  The whole table of a head's scores, by what
wrote the query and what wrote the key, is :func:`circuits.mechanism.score_components`.

The weights may be those of the run, or the same with one head's writing turned
(:func:`circuits.composition.turn_writer`); the run stays the real one, so that only one road is changed.
Source: Elhage et al. 2021, "Path expansion of attention scores QK circuit" and "Virtual attention heads".
"""

from dataclasses import dataclass
from math import comb

import torch
from jaxtyping import Float
from torch import Tensor
from transformer_lens import FactoredMatrix

from circuits import heads
from circuits.composition import check_pair
from circuits.weights import Head, Run, Weights, causal_mask


def centre_rows(scores: Float[Tensor, "*many query key"]) -> Float[Tensor, "*many query key"]:
    """Subtract from every row its mean over the visible keys; 0 above the diagonal.

    Adding a number to a whole row of scores leaves the pattern as it is, so only this part of scores means something.
    """
    n = scores.shape[-1]
    hidden = causal_mask(n)
    visible = scores.masked_fill(hidden, 0.0)
    mean = visible.sum(-1, keepdim=True) / torch.arange(1, n + 1)[:, None]
    return (visible - mean).masked_fill(hidden, 0.0)


@torch.inference_mode()
def written(weights: Weights, run: Run, head: Head) -> Float[Tensor, "pos d_model"]:
    """Return ``A x W_V W_O``: what ``head`` writes with these weights, looking where it looked in the run."""
    return run.pattern[head] @ (run.resid_pre[head.layer] @ weights.W_V[head]) @ weights.W_O[head]


@torch.inference_mode()
def composed_scores(weights: Weights, run: Run, first: Head, second: Head, kind: str) -> Float[Tensor, "query key"]:
    """Return the part of ``second``'s scores that comes through ``first`` on the query (Q) or the key side (K).

    The other side is the whole stream: ``(x W_Q)(written_first W_K)ᵀ/√d_head`` for K.  Rows are centred.

    Raises:
        ValueError: the pair is in the wrong order, or ``kind`` moves no scores.
    """
    check_pair(weights, first, second)
    if kind not in ("Q", "K"):
        raise ValueError(f"{kind}-composition changes what is moved, not the scores")
    x, out = run.resid_pre[second.layer], written(weights, run, first)
    return centre_rows(_scores(weights, second, *((out, x) if kind == "Q" else (x, out))))


@torch.inference_mode()
def composed_pattern(weights: Weights, run: Run, first: Head, second: Head, kind: str) -> Float[Tensor, "query key"]:
    """Return ``second``'s pattern when its queries (Q) or keys (K) see what ``first`` writes with these weights.

    Everything else it reads is as in the run; V-composition leaves the pattern as it is.
    """
    check_pair(weights, first, second)
    x = run.resid_pre[second.layer]
    other = x - run.head_out[first] + written(weights, run, first)
    scores = _scores(weights, second, other if kind == "Q" else x, other if kind == "K" else x)
    return scores.masked_fill(causal_mask(len(x)), -torch.inf).softmax(-1)


def _scores(weights: Weights, head: Head, query: Tensor, key: Tensor) -> Float[Tensor, "query key"]:
    return (query @ weights.W_Q[head]) @ (key @ weights.W_K[head]).mT / weights.d_head**0.5


@dataclass(frozen=True)
class VirtualHead:
    """Two heads as one: it attends with ``A² A¹`` and moves with ``W_OV¹ W_OV²`` (row order)."""

    first: Head
    second: Head
    pattern: Float[Tensor, "query key"]
    W_OV: FactoredMatrix

    def __str__(self) -> str:
        return f"{self.first} → {self.second}"


@torch.inference_mode()
def virtual_head(weights: Weights, run: Run, first: Head, second: Head) -> VirtualHead:
    """Compose two heads' patterns and matrices on a run.

    The pattern is one again: no entry is negative, rows sum to 1, nothing above the diagonal.
    """
    check_pair(weights, first, second)
    W_OV = heads.W_OV(weights, first) @ heads.W_OV(weights, second)
    return VirtualHead(first, second, run.pattern[second] @ run.pattern[first], W_OV)


@torch.inference_mode()
def virtual_output(weights: Weights, run: Run, first: Head, second: Head) -> Float[Tensor, "query key"]:
    """Return how much a virtual head moves: ``(A² A¹)[i, j] · ‖x_j W_OV¹ W_OV²‖``, Euclidean, in the stream."""
    head = virtual_head(weights, run, first, second)
    moved = run.resid_pre[first.layer] @ head.W_OV.A @ head.W_OV.B
    return head.pattern * moved.norm(dim=-1)


def handed(weights: Weights, run: Run, first: Head, second: Head, kind: str) -> Float[Tensor, "query key"]:
    """Return what ``first`` hands to ``second`` on a run: a part of its scores (Q, K), or of what it moves (V)."""
    if kind == "V":
        return virtual_output(weights, run, first, second)
    return composed_scores(weights, run, first, second, kind)


def n_virtual_heads(n_layers: int, n_heads: int, order: int = 2) -> int:
    """Return how many chains of ``order`` heads there are: choose the layers, then a head in each."""
    return comb(n_layers, order) * n_heads**order


def effective_keys(pattern: Float[Tensor, "query key"]) -> float:
    """Return over how many tokens a row's attention is spread, ``exp(entropy)``, in the mean over rows."""
    return torch.special.entr(pattern).sum(-1).exp().mean().item()
