"""The words of the app: what each means, what shape it has, and the page on which it can be seen.

The texts are data (``terms.toml``, ``faq.toml``); this module reads and searches them.
"""

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Term:
    """One entry; ``page`` is the ``url_path`` of the page that shows it."""

    name: str
    definition: str
    shape: str
    page: str
    also: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name, *self.also)


@dataclass(frozen=True)
class Question:
    """One question that readers ask, answered in a few sentences of Markdown."""

    question: str
    answer: str
    page: str


@cache
def terms() -> tuple[Term, ...]:
    """Return all terms in alphabetical order."""
    entries = tomllib.loads((FOLDER / "terms.toml").read_text(encoding="utf-8"))["term"]
    made = (Term(**entry | {"also": tuple(entry.get("also", ()))}) for entry in entries)
    return tuple(sorted(made, key=lambda term: term.name.lower()))


@cache
def questions() -> tuple[Question, ...]:
    """Return the questions in the order of the file."""
    return tuple(Question(**entry) for entry in tomllib.loads((FOLDER / "faq.toml").read_text("utf-8"))["question"])


def search(query: str) -> tuple[Term, ...]:
    """Return the terms in which every word of ``query`` occurs, those whose name has it first.

    Case does not matter; an empty query returns all terms.
    """
    words = query.lower().split()
    found = [term for term in terms() if _holds(" ".join((*term.names, term.definition, term.shape)), words)]
    return tuple(sorted(found, key=lambda term: not _holds(" ".join(term.names), words)))


def _holds(text: str, words: list[str]) -> bool:
    return all(word in text.lower() for word in words)
