"""One problem at ten densities, trained together: what the density slider of page 11 moves over."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from circuits.superposition import toy
from circuits.superposition.toy import Setting, Toy, Toys

DENSITIES = (1.0, 0.7, 0.5, 0.3, 0.2, 0.1, 0.05, 0.03, 0.02, 0.01)
"""All are trained at once, so that moving over them waits for nothing."""

STEPS, REPORTS, FEW = 1500, 30, 8


class Problem(NamedTuple):
    """What the models of a sweep have in common."""

    n_features: int = 5
    d_hidden: int = 2
    decay: float = 0.9
    activation: str = "relu"
    pairs: str = "independent"

    @property
    def settings(self) -> tuple[Setting, ...]:
        """The problem at every density."""
        n, m, *rest = self
        return tuple(Setting(n, m, density, *rest) for density in DENSITIES)


DEFAULT = Problem()
"""The problem that page 11 opens with; its sweep is shipped."""


@dataclass(frozen=True)
class Sweep:
    """Where a sweep is: ``step`` of ``steps`` done, and all starts of all densities as they are now."""

    step: int
    steps: int
    trained: Toys

    @cached_property
    def toys(self) -> list[Toy]:
        """The best start at every density."""
        return toy.best(self.trained)


def train(problem: Problem, steps: int = STEPS) -> Iterator[Sweep]:
    """Train ``problem`` at all densities, from eight starts each (four where there are many features).

    Few features end in poor minima more often, and cost less.
    """
    seeds = 8 if problem.n_features <= FEW else 4
    for now in toy.train(problem.settings, seeds=seeds, steps=steps, every=max(1, steps // REPORTS)):
        yield Sweep(now.step, now.steps, now.toys)
