"""Often said, not quite right: common mistakes about the paper, each with a demonstration that computes.

A demonstration is a function of a :class:`Scene` (a model and a prompt) that returns a few :class:`Fact`\\ s; the
decorator beside it says what it corrects.  Nothing here is an opinion: if a computation came out differently,
the sentence above it would have to change, and a test would fail.
"""

from circuits.misconceptions import algebra, attention, behaviour, stream  # noqa: F401  (they register themselves)
from circuits.misconceptions.base import ALL, Fact, Misconception, Scene

__all__ = ["ALL", "Fact", "Misconception", "Scene", "find"]


def find(name: str) -> Misconception:
    """Return one by the name of its demonstration.

    Raises:
        ValueError: there is none of that name.
    """
    for misconception in ALL:
        if misconception.name == name:
            return misconception
    raise ValueError(f"{name!r} is none of {', '.join(misconception.name for misconception in ALL)}")
