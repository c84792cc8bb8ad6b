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
    corrupt: Int[Tensor, "batch pos"]
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
        corrupt: Int[Tensor, "pos"],
        answer: int | None = None,
        wrong: int | None = None,
    ) -> "Pair":
        """Make a pair of one prompt each; what is not given is the model's own top choice on that prompt."""
        if clean.shape != corrupt.shape:
            return cls(clean[None], corrupt[None], torch.tensor([0]), torch.tensor([1]))  # refuses, with the reason
        logits = forward(weights, torch.stack([clean, corrupt])).logits[:, -1]
        answer = int(logits[0].argmax()) if answer is None else answer
        wrong = next(int(t) for t in logits[1].topk(2).indices if t != answer) if wrong is None else wrong
        return cls(clean[None], corrupt[None], torch.tensor([answer]), torch.tensor([wrong]))

    @property
    def reversed(self) -> "Pair":
        """The same metric with the roles of the prompts exchanged: patch the clean into the corrupt run."""
        return replace(self, clean=self.corrupt, corrupt=self.clean)

    def direction(self, weights: Weights) -> Float[Tensor, "batch d_model"]:
        """Return ``W_U[:, answer] − W_U[:, wrong]``: the metric is the last stream row along it."""
        return (weights.W_U[:, self.answer] - weights.W_U[:, self.wrong]).T


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
