"""How abrupt a change in a training run is, and what came first.

A curve that rises (a score, an accuracy) is followed from its value at the first step to its highest one;
``share`` of the way is the first logged step at which that much of the rise has been done.
"""

from typing import NamedTuple

from jaxtyping import Float, Int
from numpy import ndarray

EARLY, LATE = 0.1, 0.9


def reached(step: Int[ndarray, "row"], curve: Float[ndarray, "row"], share: float) -> int:
    """Return the first logged step at which ``curve`` has done ``share`` of its rise from first to highest.

    Raises:
        ValueError: the share is not within (0, 1], or the curve never rises above its first value.
    """
    if not 0 < share <= 1:
        raise ValueError(f"share {share} is not between 0 and 1")
    rise = curve - curve[0]
    if rise.max() <= 0:
        raise ValueError("the curve never rises above its first value")
    return int(step[(rise >= share * rise.max()).argmax()])


class Transition(NamedTuple):
    """The steps between which a curve does 80 % of its rise."""

    start: int
    end: int
    steps: int
    """Length of the whole run."""

    @property
    def share(self) -> float:
        """The part of the run that the transition takes, 0 … 1; a straight line would take 0.8."""
        return (self.end - self.start) / self.steps


def transition(step: Int[ndarray, "row"], curve: Float[ndarray, "row"]) -> Transition:
    """Return from where to where ``curve`` goes from 10 % to 90 % of its rise."""
    return Transition(reached(step, curve, EARLY), reached(step, curve, LATE), int(step[-1] - step[0]))
