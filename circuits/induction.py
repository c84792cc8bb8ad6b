"""Induction heads: behaviour, detectors, mechanism.

Measures used everywhere in the app, the tests and the training run are defined here, once.
A *repeat probe* is BOS, ``period`` random tokens, and the same tokens again; positions count from
BOS at 0, so that the second copy of token ``i`` sits at ``i + period``.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor


class SecondCopy(NamedTuple):
    """How well a model predicts the second copy of a repeat probe."""

    loss: float
    accuracy: float


def repeat_probe(period: int = 50, batch: int = 16, d_vocab: int = 4096, seed: int = 0) -> Int[Tensor, "batch pos"]:
    """Return ``batch`` rows of BOS + ``period`` uniformly random tokens + the same tokens again."""
    generator = torch.Generator().manual_seed(seed)
    once = torch.randint(1, d_vocab, (batch, period), generator=generator)
    return torch.cat([torch.zeros(batch, 1, dtype=torch.long), once, once], dim=1)


def induction_score(pattern: Float[Tensor, "*heads query key"], period: int) -> Float[Tensor, "*heads"]:
    """Mean attention to the token *after* the earlier copy: A[i, i−L+1], i = L+1 … 2L."""
    return pattern.diagonal(1 - period, -2, -1)[..., 2:].mean(-1)


def previous_token_score(pattern: Float[Tensor, "*heads query key"]) -> Float[Tensor, "*heads"]:
    """Mean attention to the token before: A[i, i−1], i ≥ 2 (at i = 1 that token is BOS)."""
    return pattern.diagonal(-1, -2, -1)[..., 1:].mean(-1)


def duplicate_token_score(pattern: Float[Tensor, "*heads query key"], period: int) -> Float[Tensor, "*heads"]:
    """Mean attention to the earlier copy itself: A[i, i−L], i ≥ L+1."""
    return pattern.diagonal(-period, -2, -1)[..., 1:].mean(-1)


def second_copy(
    logits: Float[Tensor, "batch pos d_vocab"], tokens: Int[Tensor, "batch pos"], period: int
) -> SecondCopy:
    """Loss (nats) and top-1 accuracy on the second copy, its first token left out: nothing predicts it."""
    predicted, target = logits[:, period + 1 : -1].flatten(0, 1), tokens[:, period + 2 :].flatten()
    loss = torch.nn.functional.cross_entropy(predicted, target)
    return SecondCopy(loss.item(), (predicted.argmax(-1) == target).float().mean().item())


IN_CONTEXT_EARLY, IN_CONTEXT_LATE = slice(40, 60), slice(230, 250)
"""Token positions averaged for the in-context score: around the 50th and around the 240th."""


def in_context_score(losses: Float[Tensor, "window pos"]) -> float:
    """Mean loss late in the context minus mean loss early: **negative = the model uses its context**.

    Sign as in Olsson et al. (2022), "loss at the 500th token minus loss at the 50th"; twenty positions
    around each of our two indices are averaged, since windows are 256 tokens long and few.
    ``losses[w, p]`` is the loss of predicting token ``p + 1``.
    """
    return (losses[:, IN_CONTEXT_LATE].mean() - losses[:, IN_CONTEXT_EARLY].mean()).item()
