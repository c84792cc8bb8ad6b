"""Cached calls of page 12."""

from collections.abc import Iterator
from typing import NamedTuple

import streamlit as st
import torch

from circuits import contexts, mlp, sample_text
from circuits.contexts import Contexts
from circuits.dictionary import autoencoder, features, measures, shipped, truth
from circuits.dictionary.autoencoder import Autoencoder
from circuits.dictionary.shipped import Dictionary
from circuits.dictionary.truth import Report
from circuits.superposition import toy
from circuits.superposition.toy import Toy
from pages.ui import cached
from pages.ui.cached.mlp import AFTER, BEFORE, Passage

L1S = (0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 0.8)
"""The stops of the λ slider: all are trained together, so that moving it waits for nothing."""

TOYS = {
    "20 in 6": toy.Setting(20, 6, density=0.03),
    "20 in 10": toy.Setting(20, 10, density=0.05),
    "5 in 2": toy.Setting(5, 2, density=0.05),
}
EXPANSIONS = {"half": 0.5, "as many": 1.0, "twice": 2.0, "four times": 4.0}
STEPS, RESAMPLE_AT = 1200, (300, 600)


@st.cache_resource(show_spinner=False, max_entries=len(TOYS))
def known(name: str) -> Toy:
    """The toy whose features are to be found again (about a second of training)."""
    return toy.fit(TOYS[name], seeds=4, steps=1000)


class Found(NamedTuple):
    """Autoencoders of every λ so far, and how good they are."""

    step: int
    steps: int
    model: Autoencoder
    report: Report


def search(name: str, expansion: str, resample: bool) -> Iterator[Found]:
    """Train all λ at once (not cached here: :func:`pages.ui.live.train` keeps the end)."""
    model = known(name)
    n_features = max(1, round(EXPANSIONS[expansion] * model.setting.n_features))
    steps = autoencoder.train(
        truth.batches(model, 512), n_features, torch.tensor(L1S), STEPS,
        lr=0.01, resample_at=RESAMPLE_AT if resample else (), every=STEPS // 10,
    )  # fmt: skip
    for now in steps:
        yield Found(now.step, now.steps, now.model, truth.report(now.model, model))


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
