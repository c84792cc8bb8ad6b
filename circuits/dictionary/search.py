"""The search for known features at eight penalties, trained together: what the λ slider of page 12 moves over.

The search of the default setting is shipped, with the toy whose features it looks for:
``python -m circuits.dictionary search`` makes ``assets/toy_models/search.safetensors`` again (about ten seconds).
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors.torch import save

from circuits.dictionary import autoencoder, truth
from circuits.dictionary.autoencoder import Autoencoder
from circuits.dictionary.truth import Report
from circuits.superposition import toy
from circuits.superposition.shipped import ASSETS, read_tensors
from circuits.superposition.toy import Toy

L1S = (0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 0.8)
"""All are trained at once, so that moving over them waits for nothing."""

TOYS = {
    "20 in 6": toy.Setting(20, 6, density=0.03),
    "20 in 10": toy.Setting(20, 10, density=0.05),
    "5 in 2": toy.Setting(5, 2, density=0.05),
}
EXPANSIONS = {"half": 0.5, "as many": 1.0, "twice": 2.0, "four times": 4.0}
STEPS, REPORTS, RESAMPLE_AT = 1200, 30, (300, 600)
BATCH, LR = 512, 0.01
REMAKE = "python -m circuits.dictionary search"


class Question(NamedTuple):
    """Which features are looked for, with how many rows for each, and whether silent rows begin anew."""

    toy: str = "20 in 6"
    expansion: str = "as many"
    resample: bool = True


DEFAULT = Question()
"""The search that page 12 opens with."""


@dataclass(frozen=True)
class Search:
    """Where a search is: autoencoders of every λ as they are now, and the toy they are to find again."""

    step: int
    steps: int
    model: Autoencoder
    known: Toy

    @cached_property
    def report(self) -> Report:
        """How good they are."""
        return truth.report(self.model, self.known)


def known(name: str) -> Toy:
    """Train the toy whose features are to be found again (about a second)."""
    return toy.fit(TOYS[name], seeds=4, steps=1000)


def train(question: Question, known: Toy, steps: int = STEPS) -> Iterator[Search]:
    """Train an autoencoder of every λ on the hidden vectors of ``known``."""
    n_features = max(1, round(EXPANSIONS[question.expansion] * known.setting.n_features))
    progress = autoencoder.train(
        truth.batches(known, BATCH), n_features, torch.tensor(L1S), steps,
        lr=LR, resample_at=RESAMPLE_AT if question.resample else (), every=max(1, steps // REPORTS),
    )  # fmt: skip
    for now in progress:
        yield Search(now.step, now.steps, now.model, known)


def write(assets: Path = ASSETS) -> None:
    """Train the default search and its toy, write ``search.safetensors``."""
    assets.mkdir(parents=True, exist_ok=True)
    *_, last = train(DEFAULT, known(DEFAULT.toy))
    tensors = {field.name: getattr(last.model, field.name).contiguous() for field in fields(last.model)}
    toy_tensors = {"known.W": last.known.W, "known.b": last.known.b, "known.losses": last.known.losses}
    (assets / "search.safetensors").write_bytes(save(tensors | toy_tensors))


def load(assets: Path = ASSETS) -> Search:
    """Read the default search.

    Raises:
        ValueError: the file cannot be read; the message names the command that makes it again.
    """
    state = read_tensors(assets / "search.safetensors", REMAKE)
    known = Toy(TOYS[DEFAULT.toy], *(state.pop(f"known.{name}") for name in ("W", "b", "losses")))
    return Search(STEPS, STEPS, Autoencoder(**state), known)
