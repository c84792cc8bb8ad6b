"""Cached calls of page 12."""

from collections.abc import Iterator
from typing import NamedTuple

import streamlit as st
import torch

from circuits import contexts, mlp, sample_text
from circuits.contexts import Contexts
from circuits.dictionary import features, measures, search, shipped
from circuits.dictionary.search import Question, Search
from circuits.dictionary.shipped import Dictionary
from circuits.superposition.toy import Toy
from pages.ui import cached
from pages.ui.cached.mlp import AFTER, BEFORE, Passage


@st.cache_resource(show_spinner=False, max_entries=1)
def default_search() -> Search:
    """What the page opens with."""
    return search.load()


@st.cache_resource(show_spinner=False, max_entries=len(search.TOYS))
def known(name: str) -> Toy:
    """The toy whose features are to be found again: the shipped one, or about a second of training."""
    return default_search().known if name == search.DEFAULT.toy else search.known(name)


def train(question: Question) -> Iterator[Search]:
    """Train all λ at once (not cached here: :func:`pages.ui.live.train` keeps the end)."""
    yield from search.train(question, known(question.toy))


@st.cache_resource(show_spinner=False, max_entries=1)
def dictionary() -> Dictionary:
    return shipped.load()


class Text(NamedTuple):
    """The passages contexts come from, the strongest of each feature, and how alike their peaks are."""

    windows: torch.Tensor
    contexts: Contexts
    purity: torch.Tensor


@st.cache_resource(show_spinner=False, max_entries=1)
def text() -> Text:
    windows = contexts.windows(cached.model(shipped.MODEL))
    found = shipped.load_contexts(windows)
    return Text(windows, found, features.peak_purity(found, windows))


@st.cache_data(show_spinner=False, max_entries=256)
def passages(feature: int) -> list[Passage]:
    """The feature's top contexts: the tokens before and a few after the peak; silent ones are left out."""
    found = text()
    active = found.contexts.activation[feature] > 0
    window, position = found.contexts.window[feature][active], found.contexts.position[feature][active]
    if not len(window):
        return []
    tokens = found.windows[window, : int(position.max()) + AFTER + 1]
    hidden = mlp.activations_on(cached.weights(shipped.MODEL), tokens)
    f = dictionary().model.encode(hidden)[..., feature]
    cuts = [slice(max(1, at - BEFORE), at + AFTER + 1) for at in position.tolist()]
    return [
        Passage(tuple(ids[cut].tolist()), tuple(row[cut].tolist()))
        for ids, row, cut in zip(tokens, f, cuts, strict=True)
    ]


PROSE_WINDOWS = 16
"""Windows of the sample prose on which the dictionary is measured while the reader waits."""


@st.cache_data(show_spinner=False, max_entries=1)
def on_prose() -> dict:
    """What the training command measured on held-out novels, measured here on the sample prose."""
    windows = sample_text.windows(cached.model(shipped.MODEL))[:PROSE_WINDOWS]
    return shipped.measure(cached.weights(shipped.MODEL), dictionary().model, windows)[1]


class Neurons(NamedTuple):
    """How sparse the layer is without any dictionary: neurons active at once, and those never active."""

    l0: float
    silent: int


@st.cache_data(show_spinner=False, max_entries=1)
def neurons_on_prose() -> Neurons:
    windows = sample_text.windows(cached.model(shipped.MODEL))[:PROSE_WINDOWS]
    activation = mlp.activations_on(cached.weights(shipped.MODEL), windows).flatten(0, 1)
    return Neurons(measures.l0(activation).item(), int(measures.dead(activation).sum()))
