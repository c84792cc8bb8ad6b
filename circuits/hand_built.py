"""Heads written down by hand, with no training: each weight is 0 or a gain.

The stream has three blocks, ``[token V | earlier token V | position n]``, so that every matrix below is an
identity between two of them.  :func:`induction_head` is the whole two-layer mechanism; moving its key by
one position shows that *the shift by one is the induction head*.  :func:`positional_head` is the one-layer
shortcut that a fixed period invites.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from circuits.weights import Weights

KEY_SOURCES = {0: "a duplicate-token head", 1: "an induction head", 2: "one that copies two ahead"}
"""How far back the layer-0 head looks, and what that makes of the layer-1 head."""


def induction_head(
    d_vocab: int = 61, n_ctx: int = 64, beta_0: float = 8.0, beta_1: float = 8.0, gamma: float = 20.0, offset: int = 1
) -> Weights:
    """Return the exact induction head: two layers of one head each.

    * L0: the query at i is ``beta_0 · e[i − offset]`` in the position block, the key at j is ``e[j]``; the head
      copies the token block into the *earlier token* block.
    * L1: query = ``beta_1 ·`` token block, key = *earlier token* block; OV writes ``gamma ·`` token block.
    * ``W_U`` reads the token block, so the direct path gives the present token a logit of 1, which copying
      must outbid.

    Gains are in nats of attention score.  With a sharp layer 0, a match among ``i`` other keys gets
    ``e^β / (e^β + i)`` of the attention.  Token 0 is BOS: without it position 0, which can only look at itself,
    claims to be its own predecessor.
    Source: the mechanism of Elhage et al. 2021, "Induction heads"; the construction is ours.

    Raises:
        ValueError: the key source is not 0, 1 or 2 positions back.
    """
    if offset not in KEY_SOURCES:
        raise ValueError(f"the key source must be 0, 1 or 2 positions back, not {offset}")
    token, earlier, position = _blocks(d_vocab, n_ctx)
    weights = _empty(d_vocab, n_ctx, n_layers=2)
    scale = weights.d_head**0.5  # scores are divided by √d_head
    weights.W_Q[0, 0, position, :n_ctx] = beta_0 * scale * _shift(n_ctx, offset)
    weights.W_K[0, 0, position, :n_ctx] = _eye(n_ctx)
    weights.W_V[0, 0, token, :d_vocab] = _eye(d_vocab)
    weights.W_O[0, 0, :d_vocab, earlier] = _eye(d_vocab)
    weights.W_Q[1, 0, token, :d_vocab] = beta_1 * scale * _eye(d_vocab)
    weights.W_K[1, 0, earlier, :d_vocab] = _eye(d_vocab)
    weights.W_V[1, 0, token, :d_vocab] = _eye(d_vocab)
    weights.W_O[1, 0, :d_vocab, token] = gamma * _eye(d_vocab)
    return weights


def positional_head(
    period: int, d_vocab: int = 61, n_ctx: int = 64, beta: float = 12.0, gamma: float = 20.0
) -> Weights:
    """Return one layer of one head that looks ``period − 1`` positions back, whatever stands there, and copies it.

    It predicts every repeat of that period, and of a shorter one that divides it once enough copies lie behind:
    the shortcut that random periods close.
    """
    token, _, position = _blocks(d_vocab, n_ctx)
    weights = _empty(d_vocab, n_ctx, n_layers=1)
    weights.W_Q[0, 0, position, :n_ctx] = beta * weights.d_head**0.5 * _shift(n_ctx, period - 1)
    weights.W_K[0, 0, position, :n_ctx] = _eye(n_ctx)
    weights.W_V[0, 0, token, :d_vocab] = _eye(d_vocab)
    weights.W_O[0, 0, :d_vocab, token] = gamma * _eye(d_vocab)
    return weights


def _blocks(d_vocab: int, n_ctx: int) -> tuple[slice, slice, slice]:
    return slice(0, d_vocab), slice(d_vocab, 2 * d_vocab), slice(2 * d_vocab, 2 * d_vocab + n_ctx)


def _eye(n: int) -> Float[Tensor, "n n"]:
    return torch.eye(n, dtype=torch.float64)  # exact is the point


def _shift(n: int, offset: int) -> Float[Tensor, "n n"]:
    """Return the matrix whose row i is ``e[i − offset]``; where that would be before 0, ``e[0]``."""
    return _eye(n)[(torch.arange(n) - offset).clamp(min=0)]


def _empty(d_vocab: int, n_ctx: int, n_layers: int) -> Weights:
    """Return one head a layer, all zero, between one-hot embeddings of tokens and positions."""
    token, _, position = _blocks(d_vocab, n_ctx)
    d_model, d_head = 2 * d_vocab + n_ctx, max(d_vocab, n_ctx)
    one_hot = _eye(d_model)
    reads = torch.zeros(3, n_layers, 1, d_model, d_head, dtype=torch.float64)
    writes = torch.zeros(n_layers, 1, d_head, d_model, dtype=torch.float64)
    return Weights(one_hot[token], one_hot[position], *reads, writes, one_hot[:, token])
