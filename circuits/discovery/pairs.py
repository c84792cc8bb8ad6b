"""Clean and corrupt prompts, and the number that tells them apart."""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from circuits.weights import Weights, forward

CORRUPTIONS = {"AB": (0, 1), "BA": (1, 0), "BB": (1, 1), "BC": (1, 2)}
"""What the two halves of a corrupted repeat hold, as indices into three random stretches A, B, C."""


@dataclass(frozen=True)
class Pair:
    """A batch of clean prompts, their corrupt twins, and for each the answer and a wrong answer.

    The metric of a run is ``mean over prompts of logit[answer] − logit[wrong]`` at the last position.

    Raises:
        ValueError: the two batches differ in shape, or an answer equals its wrong answer.
    """

    clean: Int[Tensor, "batch pos"]
    corrupt: Int[Tensor, "batch corrupt_pos"]
    answer: Int[Tensor, "batch"]
    wrong: Int[Tensor, "batch"]

    def __post_init__(self) -> None:
        if self.clean.shape != self.corrupt.shape:
            raise ValueError(
                f"the clean prompt has {self.clean.shape[-1]} tokens and the corrupt one {self.corrupt.shape[-1]}: "
                "a patch moves an activation between equal positions, so the two must be equally long"
            )
        if (self.answer == self.wrong).any():
            token = int(self.answer[self.answer == self.wrong][0])
            raise ValueError(f"answer and wrong answer are the same token ({token}): the metric would always be 0")

    @classmethod
    def of_prompts(
        cls,
        weights: Weights,
        clean: Int[Tensor, "pos"],
        corrupt: Int[Tensor, "corrupt_pos"],
        answer: int | None = None,
        wrong: int | None = None,
    ) -> "Pair":
        """Pair one prompt with another; an answer that is not given is :func:`expected` of its own prompt."""
        if answer is None:
            answer = next(token for token in expected(weights, clean) if token != wrong)
        if wrong is None:
            wrong = next(token for token in expected(weights, corrupt) if token != answer)
        return cls(clean[None], corrupt[None], torch.tensor([answer]), torch.tensor([wrong]))

    @classmethod
    def of_renamings(cls, weights: Weights, prompt: Int[Tensor, "pos"], count: int = 8) -> "Pair":
        """Pair a prompt with ``count`` renamings of itself: other tokens, the same pattern of repeats.

        The answer is the first :func:`expected` token, the wrong answer what that is renamed to.
        """
        names = torch.stack([renaming(weights.d_vocab, seed) for seed in range(count)])
        answer = expected(weights, prompt)[0]
        return cls(prompt.expand(count, -1), names[:, prompt], torch.full((count,), answer), names[:, answer])

    @property
    def reversed(self) -> "Pair":
        """The same metric with the roles of the prompts exchanged: patch the clean into the corrupt run."""
        return replace(self, clean=self.corrupt, corrupt=self.clean)

    def direction(self, weights: Weights) -> Float[Tensor, "batch d_model"]:
        """Return ``W_U[:, answer] − W_U[:, wrong]``: the metric is the last stream row along it."""
        return (weights.W_U[:, self.answer] - weights.W_U[:, self.wrong]).T


def expected(weights: Weights, prompt: Int[Tensor, "pos"]) -> list[int]:
    """Return what might come next: the token after the latest earlier copy of the last one (induction's guess,
    where there is such a copy), then the model's own two first choices.  Never BOS, which only begins texts.
    """
    copies = (prompt[:-1] == prompt[-1]).nonzero().flatten()
    guess = [int(prompt[copies[-1] + 1])] if len(copies) else []
    return guess + (forward(weights, prompt).logits[-1, 1:].topk(2).indices + 1).tolist()


def renaming(d_vocab: int, seed: int = 0) -> Int[Tensor, "d_vocab"]:
    """Return a permutation of the vocabulary that leaves BOS alone and moves every other token.

    One random cycle through all tokens: equal tokens stay equal, and nothing is its own new name.
    """
    order = torch.randperm(d_vocab - 1, generator=torch.Generator().manual_seed(seed)) + 1
    names = torch.zeros(d_vocab, dtype=torch.long)
    names[order] = order.roll(1)
    return names


def repeat_pair(corruption: str = "BB", period: int = 32, batch: int = 16, d_vocab: int = 4096, seed: int = 0) -> Pair:
    """Return repeats of random tokens cut just before their end, and a corruption of them.

    Clean is BOS + A + A without its last token, which is the answer (``2 · period`` tokens in all).  Corrupt is
    BOS + X + Y without its last, where ``corruption`` names X and Y: ``"AB"`` spoils the second copy (queries),
    ``"BA"`` the first (keys and values), ``"BB"`` repeats another stretch, ``"BC"`` repeats nothing.  The wrong
    answer is the last token of B.  All tokens of a row differ, so that only the repeat can predict.

    Raises:
        ValueError: the corruption is unknown or the vocabulary too small for three distinct stretches.
    """
    if corruption not in CORRUPTIONS:
        raise ValueError(f"unknown corruption {corruption!r}; there are {', '.join(CORRUPTIONS)}")
    if 3 * period > d_vocab - 1:
        raise ValueError(f"{3 * period} different tokens are wanted, the vocabulary has {d_vocab - 1} beside BOS")
    generator = torch.Generator().manual_seed(seed)
    shuffled = torch.rand(batch, d_vocab - 1, generator=generator).argsort(-1)[:, : 3 * period] + 1
    stretches = shuffled.unflatten(1, (3, period))
    bos = torch.zeros(batch, 1, dtype=torch.long)

    def prompts(first: int, second: int) -> Tensor:
        return torch.cat([bos, stretches[:, first], stretches[:, second, :-1]], dim=1)

    return Pair(prompts(0, 0), prompts(*CORRUPTIONS[corruption]), stretches[:, 0, -1], stretches[:, 1, -1])
