"""Cached calls of page 03."""

import math
from typing import NamedTuple

import streamlit as st
import torch

from circuits import ablation, bigrams, chains, counts, models, sample_text
from pages.ui import cached

FAMILY = {int(name.rpartition("-d")[2]): name for name in models.RANK_FAMILY} | {256: "zero-layer"}
"""d_model to model: the sizes of the rank slider."""


@st.cache_data(show_spinner=False, max_entries=256)
def row(name: str, present: int) -> bigrams.RowComparison:
    return bigrams.compare_row(cached.weights(name), cached.counts(), present)


@st.cache_data(show_spinner=False, max_entries=12)
def fit(name: str) -> bigrams.Fit:
    return bigrams.fit(cached.weights(name), cached.counts())


@st.cache_data(show_spinner=False, max_entries=1)
def unigram_fit() -> bigrams.Fit:
    return bigrams.unigram_fit(cached.counts())


@st.cache_data(show_spinner=False, max_entries=12)
def rank(name: str) -> int:
    return bigrams.rank(cached.weights(name))


class Order(NamedTuple):
    """How much the order of two tokens counts: in the corpus, and in a model's table."""

    corpus: float
    table: float


@st.cache_data(show_spinner=False, max_entries=12)
def order(name: str) -> Order:
    return Order(bigrams.order_matters(cached.counts()), bigrams.antisymmetric_share(cached.weights(name)))


@st.cache_resource(show_spinner=False, max_entries=1)
def windows() -> torch.Tensor:
    return sample_text.windows(cached.model("zero-layer"))


@st.cache_data(show_spinner=False, max_entries=12)
def text_loss(name: str) -> float:
    """Loss of a whole model on the sample text, nats per predicted token."""
    return ablation.text_loss(cached.weights(name), windows())


class Rung(NamedTuple):
    """One step of the ladder of losses; ``kind`` is "counts", "zero layers" or "deeper"."""

    name: str
    loss: float
    kind: str


@st.cache_data(show_spinner="Measuring losses on the sample text", max_entries=1)
def ladder() -> list[Rung]:
    """Losses on the sample text, from the worst to the best."""
    rungs = [
        Rung("uniform, ln V", math.log(cached.counts().d_vocab), "counts"),
        Rung("unigram counts", counts.unigram_loss(cached.counts(), windows()), "counts"),
        Rung("bigram counts, discounted", counts.absolute_discount_loss(cached.counts(), windows()), "counts"),
        *(Rung(f"zero layers, d = {d}", text_loss(name), "zero layers") for d, name in FAMILY.items()),
        *(Rung(name, text_loss(name), "deeper") for name in ("one-layer", "two-layer")),
    ]
    return sorted(rungs, key=lambda rung: -rung.loss)


@st.cache_data(show_spinner=False, max_entries=1)
def held_out() -> dict[str, float]:
    """Losses on the held-out novels, as the training command measured and stored them."""
    stored = {name: losses for name in models.SHIPPED[:3] if (losses := cached.held_out(name))}
    counted = {f"{kind} counts": loss[kind] for loss in stored.values() for kind in ("unigram", "bigram")}
    return counted | {name: loss["loss"] for name, loss in stored.items()}


WORLDS = ("fork", "random", "your letters")
SIZES = (1, 2, 3, 4, 8, 16)


@st.cache_data(show_spinner=False, max_entries=32)
def world(kind: str, text: str) -> chains.Chain:
    """The small world a reader chose; ``text`` matters to the letters alone."""
    if kind == "fork":
        return chains.fork()
    return chains.random_chain(20) if kind == "random" else chains.letters(text)


@st.cache_data(show_spinner="Training six models", max_entries=32)
def trained(kind: str, text: str) -> chains.ChainFit:
    return chains.train(world(kind, text), SIZES)
