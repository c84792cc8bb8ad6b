"""What a misconception is here: something often said, what is better said, and a computation that decides."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor

from circuits import induction
from circuits.weights import Head, Run, Weights, forward

PERIOD = 25
"""Length of the repeated part of the random probe: short, so that a demonstration is quick."""


@dataclass(frozen=True)
class Scene:
    """What a demonstration may look at: a model with attention, and the reader's prompt."""

    weights: Weights
    tokens: Int[Tensor, "pos"]

    def prompt(self) -> Run:
        return forward(self.weights, self.tokens)

    def probe(self) -> Int[Tensor, "batch pos"]:
        """BOS + 25 random tokens + the same again, eight rows."""
        return induction.repeat_probe(PERIOD, batch=8, d_vocab=self.weights.d_vocab)

    def best_head(self, scores: Tensor) -> Head:
        """Return the head with the highest of ``scores`` [layer, head]."""
        return self.weights.heads[int(scores.argmax())]


class Fact(NamedTuple):
    """One computed line of a demonstration."""

    label: str
    value: float | int | str


Demonstration = Callable[[Scene], tuple[Fact, ...]]


@dataclass(frozen=True)
class Misconception:
    """``page`` is the ``url_path`` of the page that shows more."""

    said: str
    better: str
    page: str
    demonstrate: Demonstration

    @property
    def name(self) -> str:
        """The name of the demonstrating function: stable, for keys and links."""
        return self.demonstrate.__name__


ALL: list[Misconception] = []


def often_said(said: str, better: str, page: str) -> Callable[[Demonstration], Demonstration]:
    """Register a demonstration under what it corrects; it runs on a :class:`Scene` without gradients."""

    def register(demonstrate: Demonstration) -> Demonstration:
        ALL.append(Misconception(said, better, page, torch.inference_mode()(demonstrate)))
        return demonstrate

    return register
