"""A head small enough to follow by hand: two words, two numbers a word, two 2×2 matrices.

The two words are the unit vectors a = (1, 0) and b = (0, 1), so W_QK *is* the table of scores between
words and W_OV *is* the table of what each word sends.  No √d_head: it would only change the units.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from circuits.heads import masked

WORDS = "ab"


@dataclass(frozen=True)
class HandHead:
    """Every step of one head on a text of a's and b's."""

    x: Float[Tensor, "pos word"]
    scores: Float[Tensor, "query key"]
    pattern: Float[Tensor, "query key"]
    out: Float[Tensor, "pos word"]


def hand_head(text: str, W_QK: Float[Tensor, "word word"], W_OV: Float[Tensor, "word word"]) -> HandHead:
    """Compute scores = x W_QK xᵀ, A = softmax(mask(scores)), out = A x W_OV.

    Raises:
        ValueError: the text is empty or has a letter other than a and b.
    """
    if not text or set(text) - set(WORDS):
        raise ValueError(f"{text!r} must be made of the words a and b, at least one")
    x = torch.eye(2, dtype=W_QK.dtype)[[WORDS.index(letter) for letter in text]]
    scores = x @ W_QK @ x.T
    pattern = masked(scores).softmax(-1)
    return HandHead(x, scores, pattern, pattern @ x @ W_OV)
