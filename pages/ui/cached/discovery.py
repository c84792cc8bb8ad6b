"""Cached calls of page 13."""

from typing import NamedTuple

import numpy as np
import streamlit as st
import torch
from torch import Tensor

from circuits import discovery, induction, sample_text
from circuits.discovery import Pair
from circuits.weights import Head
from pages.ui import cached

BUDGET = 256
"""Tokens a batch of prompts may have together, so that every answer on this page takes a fraction of a second."""

COUNTS = (0, 2, 4, 7, 11, 17, 27, 45, 80, 150, 306)
"""Circuit sizes on the faithfulness curve."""


class Source(NamedTuple):
    """Where a pair comes from, in plain values: random repeats (``corruption``), or a text (``clean``) against
    renamings of itself or against another text (``corrupt``), with the answers where the reader gave them.
    """

    corruption: str = ""
    clean: tuple[int, ...] = ()
    corrupt: tuple[int, ...] = ()
    answer: int | None = None
    wrong: int | None = None


@st.cache_resource(show_spinner=False, max_entries=32)
def pair(name: str, source: Source) -> Pair:
    weights = cached.weights(name)
    if source.corruption:
        return discovery.repeat_pair(source.corruption, period=16, batch=8, d_vocab=weights.d_vocab)
    clean = torch.tensor(source.clean)
    if source.corrupt:
        return Pair.of_prompts(weights, clean, torch.tensor(source.corrupt), source.answer, source.wrong)
    return Pair.of_renamings(weights, clean, count=max(1, min(8, BUDGET // len(clean))))


@st.cache_data(show_spinner=False, max_entries=64)
def metrics(name: str, source: Source) -> tuple[float, float]:
    return discovery.metrics(cached.weights(name), pair(name, source))


class Edges(NamedTuple):
    """Every edge's effect, exact and estimated, in logits."""

    exact: Tensor
    estimate: Tensor


@st.cache_resource(show_spinner=False, max_entries=32)
def edges(name: str, source: Source) -> Edges:
    weights, chosen = cached.weights(name), pair(name, source)
    return Edges(discovery.edge_effects(weights, chosen), discovery.edge_attribution(weights, chosen))


@st.cache_data(show_spinner=False, max_entries=32)
def curve(name: str, source: Source) -> list[float]:
    """Faithfulness of the strongest 0, 1, 2, … edges (``COUNTS``)."""
    circuits = [discovery.strongest(edges(name, source).exact, count) for count in COUNTS]
    return list(discovery.faithfulness(cached.weights(name), pair(name, source), circuits))


@st.cache_data(show_spinner=False, max_entries=64)
def faithfulness(name: str, source: Source, count: int) -> float:
    keep = discovery.strongest(edges(name, source).exact, count)
    return next(discovery.faithfulness(cached.weights(name), pair(name, source), [keep]))


class Patched(NamedTuple):
    """Effects of patching each kind of activation of each head, exact and estimated."""

    exact: dict[str, Tensor]
    estimate: dict[str, Tensor]

    def arrays(self) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """Both as the charts take them."""
        exact, estimate = ({kind: values.numpy() for kind, values in each.items()} for each in self)
        return exact, estimate


@st.cache_resource(show_spinner=False, max_entries=32)
def patched(name: str, source: Source, restoring: bool) -> Patched:
    """Corrupt activations into the clean run, or (``restoring``) clean ones into the corrupt run."""
    weights, chosen = cached.weights(name), pair(name, source)
    chosen = chosen.reversed if restoring else chosen
    shifts = discovery.differences(weights, chosen)
    return Patched(
        discovery.activation_patching(weights, chosen, shifts), discovery.attribution_patching(weights, chosen)
    )


class Ablated(NamedTuple):
    """The metric's change without each head, and what is left without none, the best, all of the induction heads."""

    each: Tensor
    left: tuple[discovery.Together, discovery.Together, discovery.Together]


@st.cache_resource(show_spinner=False, max_entries=64)
def ablated(name: str, source: Source, how: str) -> Ablated:
    """Remove heads in one sense of the word: ``zero``, ``mean`` or ``resample``."""
    weights, chosen, found = cached.weights(name), pair(name, source), heads(name).induction
    z = getattr(discovery.Ablation.of(weights, chosen, reference(name, source)), how)
    left = tuple(discovery.ablate_together(weights, chosen, z, removed) for removed in ((), found[:1], found))
    return Ablated(discovery.ablate_each(weights, chosen, z), left)


def reference(name: str, source: Source) -> Tensor:
    """Prompts for the mean: the other repeats, or the first tokens of windows of the sample text."""
    chosen = pair(name, source)
    if source.corruption:
        return chosen.clean
    n = chosen.clean.shape[1]
    return _sample_text(name)[: max(4, BUDGET // n), :n]


@st.cache_resource(show_spinner=False, max_entries=2)
def _sample_text(name: str) -> Tensor:
    return sample_text.windows(cached.model(name))


class Heads(NamedTuple):
    """The two roles of the induction circuit, found by their patterns on repeated random tokens."""

    previous: Head
    induction: tuple[Head, ...]


@st.cache_data(show_spinner=False, max_entries=8)
def heads(name: str) -> Heads:
    weights = cached.weights(name)
    probe = induction.repeat_probe(period=24, batch=4, d_vocab=weights.d_vocab)
    scores = induction.head_scores(discovery.activations(weights, probe).pattern, 24)
    found = induction.induction_heads(scores) or (induction.best_head(scores.induction, [1]),)
    return Heads(induction.best_head(scores.previous, [0]), found)
