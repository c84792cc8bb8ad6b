"""Split-token copying: a word that is one token after a space, and two without it.

With a space in front a word may be one token, ``[ab]``; at the start of a line or after a quote the same word
falls into ``[a][b]``.  A one-layer model can then learn ``[ab] … [a] → [b]``: a crude copy of a word it has
seen before, and as near as one layer comes to induction.  Elhage et al. 2021, "Copying / primitive in-context
learning".
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformer_lens.model_bridge import TransformerBridge

from circuits.tokens import encode, token_bytes
from circuits.weights import Weights, forward

CONTROLS = 4
"""Other words put in the place of ``[ab]``, to see what ``[a]`` alone would predict."""


class SplitPair(NamedTuple):
    """``joined`` is one token with a leading space; without it the word is ``first`` + ``second``."""

    word: str
    joined: int
    first: int
    second: int


def split_pairs(model: TransformerBridge) -> list[SplitPair]:
    """Search the whole tokenizer for capitalised words that are one token after a space and two without it."""
    pairs = []
    for token in range(1, model.cfg.d_vocab):
        text = token_bytes(model, token).decode("utf-8", "replace")
        if text[:1] == " " and text[1:].isalpha() and text[1:].istitle():
            pieces = encode(model, text[1:])[1:]
            if len(pieces) == 2:
                pairs.append(SplitPair(text[1:], token, *pieces))
    return pairs


class SplitGain(NamedTuple):
    """What it does to ``second`` after ``first`` that ``joined`` stood earlier in the text."""

    pairs: list[SplitPair]
    gain: Float[Tensor, "pair"]
    """ln p(second | … joined … first) minus its mean with another word in joined's place, in nats."""


@torch.inference_mode()
def split_gains(weights: Weights, pairs: list[SplitPair], filler: list[int], seed: int = 0) -> SplitGain:
    """Try every pair on the model: ``BOS [ab] filler [a]``, then ask for ``[b]``; best first.

    The controls are the same prompts with the words shuffled among the pairs, so that only the link between
    ``[ab]`` and ``[b]`` is broken.
    """
    if not pairs:
        return SplitGain([], torch.zeros(0))
    joined, first, second = (torch.tensor([pair[i] for pair in pairs]) for i in (1, 2, 3))
    generator = torch.Generator().manual_seed(seed)
    with_word = _log_prob(weights, joined, filler, first, second)
    shifts = (torch.randperm(len(pairs) - 1, generator=generator)[:CONTROLS] + 1).tolist() or [0]
    without = torch.stack([_log_prob(weights, joined.roll(shift), filler, first, second) for shift in shifts])
    gain = with_word - without.mean(0)
    order = gain.argsort(descending=True)
    return SplitGain([pairs[i] for i in order.tolist()], gain[order])


def _log_prob(
    weights: Weights,
    joined: Int[Tensor, "pair"],
    filler: list[int],
    first: Int[Tensor, "pair"],
    second: Int[Tensor, "pair"],
) -> Float[Tensor, "pair"]:
    """Return ln p(second) after ``BOS joined filler first``."""
    middle = torch.tensor(filler, dtype=torch.long).expand(len(joined), -1)
    prompts = torch.cat([torch.zeros_like(joined)[:, None], joined[:, None], middle, first[:, None]], dim=1)
    log_probs = forward(weights, prompts).logits[:, -1].log_softmax(-1)
    return log_probs.gather(1, second[:, None])[:, 0]


def relation(model: TransformerBridge, source: int, destination: int, out: int) -> str:
    """Name what a skip-trigram does with its source: ``copies``, ``completes`` (a split word), or nothing."""
    if source == out:
        return "copies"
    whole = token_bytes(model, source).lstrip(b" ")
    joined = (token_bytes(model, destination) + token_bytes(model, out)).lstrip(b" ")
    return "completes" if joined == whole else ""
