"""Induction heads: measures, the behaviour on any tokens, and which head is what.

Measures used everywhere in the app, the tests and the training run are defined here, once.
A *repeat probe* is BOS, ``period`` random tokens, and the same tokens again; positions count from
BOS at 0, so that the second copy of token ``i`` sits at ``i + period``.

The behaviour, for any tokens: at ``… A B … A`` an induction head looks from the second A at B, the token
*after* the first A, and copies it.  Seen from the key: position j is looked at because of the token
*before* it, which j cannot know by itself; a previous-token head one layer below has told it
(:mod:`circuits.mechanism`).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from circuits.weights import Head, Run, Weights


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


def position_losses(
    logits: Float[Tensor, "*batch pos d_vocab"], tokens: Int[Tensor, "*batch pos"]
) -> Float[Tensor, "*batch predicted"]:
    """Return ``−log p`` of every token but the first, in nats: entry ``p`` is the loss of token ``p + 1``."""
    return -logits[..., :-1, :].log_softmax(-1).gather(-1, tokens[..., 1:, None])[..., 0]


# --- the behaviour, on any tokens ---------------------------------------------------------------------------


def distinct_tokens(count: int, d_vocab: int, seed: int = 0) -> Int[Tensor, "count"]:
    """Draw ``count`` different tokens, never BOS.

    Raises:
        ValueError: there are not that many.
    """
    if count >= d_vocab:
        raise ValueError(f"{count} different tokens cannot be drawn from {d_vocab - 1}")
    return 1 + torch.randperm(d_vocab - 1, generator=torch.Generator().manual_seed(seed))[:count]


def repeated(once: Int[Tensor, "period"], repeats: int = 2, bos: bool = True) -> Int[Tensor, "pos"]:
    """Return ``once``, ``repeats`` times over, after BOS unless that is left out."""
    return torch.cat([once.new_zeros(int(bos)), once.repeat(repeats)])


def with_stranger(tokens: Int[Tensor, "pos"], position: int, d_vocab: int) -> Int[Tensor, "pos"]:
    """Return ``tokens`` with the one at ``position`` replaced by a token that occurs nowhere among them."""
    strangers = torch.ones(d_vocab, dtype=torch.bool)
    strangers[0] = False
    strangers[tokens] = False
    changed = tokens.clone()
    changed[position] = strangers.nonzero()[0, 0]
    return changed


def induction_targets(tokens: Int[Tensor, "*batch pos"]) -> Bool[Tensor, "*batch query key"]:
    """Where an induction head would look: key j from query i if ``t[j−1] = t[i]`` and ``j ≤ i``.

    On a repeat probe this is the stripe ``j = i − period + 1``.
    """
    n = tokens.shape[-1]
    match = tokens.unsqueeze(-1) == tokens.roll(1, -1).unsqueeze(-2)
    match[..., 0] = False  # nothing stands before position 0; roll has put the last token there
    return match & torch.ones(n, n, dtype=torch.bool).tril()


def predictable(tokens: Int[Tensor, "*batch pos"]) -> Bool[Tensor, "*batch predicted"]:
    """Where copying the target predicts the next token: ``t[i+1]`` is among the tokens at i's targets.

    On a repeat probe: the second copy without its first token.
    """
    agrees = tokens[..., 1:, None] == tokens[..., None, :]
    return (agrees & induction_targets(tokens)[..., :-1, :]).any(-1)


def copying(logits: Float[Tensor, "*batch pos d_vocab"], tokens: Int[Tensor, "*batch pos"]) -> SecondCopy:
    """Return loss and top-1 accuracy where copying predicts; on a repeat probe the same as :func:`second_copy`.

    Raises:
        ValueError: no token follows a token that it has followed before.
    """
    where = predictable(tokens)
    if not where.any():
        raise ValueError("nothing repeats in these tokens: no token follows one that it has followed before")
    hits = logits[..., :-1, :].argmax(-1) == tokens[..., 1:]
    return SecondCopy(position_losses(logits, tokens)[where].mean().item(), hits[where].float().mean().item())


def target_score(
    pattern: Float[Tensor, "*heads query key"], targets: Bool[Tensor, "query key"]
) -> Float[Tensor, "*heads"]:
    """Mean attention on the targets over the queries that have one; on a repeat probe the induction score."""
    has_target = targets.any(-1)
    if not has_target.any():
        raise ValueError("nothing repeats in these tokens: an induction head has no place to look")
    return (pattern * targets).sum(-1)[..., has_target].mean(-1)


def uniform_floor(period: int) -> float:
    """Return the induction score of a head that looks everywhere alike: the mean of ``1/(i+1)``, about ln 2 / L."""
    return (1 / torch.arange(period + 2, 2 * period + 2)).mean().item()


def ideal_previous_pattern(n: int) -> Float[Tensor, "query key"]:
    """Return the pattern of a perfect previous-token head; position 0 has only itself."""
    return torch.eye(n).roll(-1, -1).tril() + torch.eye(n) * (torch.arange(n) == 0)


def ideal_induction_pattern(tokens: Int[Tensor, "pos"]) -> Float[Tensor, "query key"]:
    """Return the pattern of a perfect induction head: all targets alike, position 0 where there is none."""
    targets = induction_targets(tokens).float()
    targets[:, 0] = (targets.sum(-1) == 0).float()
    return targets / targets.sum(-1, keepdim=True)


@dataclass(frozen=True)
class Readout:
    """What one head does at every position of a prompt, beside what an induction head would do."""

    on_target: Float[Tensor, "pos"]
    """Attention on the targets (0 where there is none)."""
    has_target: Bool[Tensor, "pos"]
    looks_at: Int[Tensor, "pos"]
    """The key with the most attention."""
    boosts: Int[Tensor, "pos"]
    """The token whose logit the head's output raises most."""
    copies: Bool[Tensor, "pos"]
    """Whether that is the token looked at."""


@torch.inference_mode()
def readout(weights: Weights, run: Run, head: Head) -> Readout:
    """Read off where ``head`` looks on a prompt, ``argmax_j A[i, j]``, and what it writes, ``argmax head_out W_U``."""
    pattern, targets = run.pattern[head], induction_targets(run.tokens)
    looks_at = pattern.argmax(-1)
    boosts = (run.head_out[head] @ weights.W_U).argmax(-1)
    return Readout(
        on_target=(pattern * targets).sum(-1),
        has_target=targets.any(-1),
        looks_at=looks_at,
        boosts=boosts,
        copies=boosts == run.tokens[looks_at],
    )


# --- which head is what: found, never assumed ---------------------------------------------------------------

INDUCTION_THRESHOLD = 0.4
"""From this induction score on a head is called an induction head: thirty times the uniform floor at period 50."""


@dataclass(frozen=True)
class HeadScores:
    """The three detectors for every head, each a mean attention in [0, 1]."""

    previous: Float[Tensor, "layer head"]
    duplicate: Float[Tensor, "layer head"]
    induction: Float[Tensor, "layer head"]


def head_scores(pattern: Float[Tensor, "*batch layer head query key"], period: int) -> HeadScores:
    """Return all three scores of every head on repeat probes, averaged over the batch."""
    pattern = pattern.reshape(-1, *pattern.shape[-4:]).mean(0)
    return HeadScores(
        previous=previous_token_score(pattern),
        duplicate=duplicate_token_score(pattern, period),
        induction=induction_score(pattern, period),
    )


def best_head(score: Float[Tensor, "layer head"], layers: Iterable[int]) -> Head:
    """Return the head with the highest score among ``layers``."""
    candidates = [Head(layer, head) for layer in layers for head in range(score.shape[1])]
    if not candidates:
        raise ValueError("there is no head to choose from: the model has no such layer")
    return max(candidates, key=lambda head: score[head].item())


def induction_heads(scores: HeadScores, threshold: float = INDUCTION_THRESHOLD) -> tuple[Head, ...]:
    """Return the heads above layer 0 whose induction score reaches ``threshold``, the best first."""
    found = [Head(*index) for index in (scores.induction >= threshold).nonzero().tolist() if index[0] > 0]
    return tuple(sorted(found, key=lambda head: -scores.induction[head].item()))
