"""Cached calls of page 07."""

import threading
from collections.abc import Callable

import numpy as np
import streamlit as st
import torch

from circuits import composition, heads, induction, models, sample_text, term_importance
from circuits.composition import KINDS
from circuits.weights import Head
from pages.ui import cached


@st.cache_data(show_spinner=False, max_entries=8)
def boards(name: str, erratum: bool) -> dict[str, np.ndarray]:
    """Scores of every pair for Q, K and V, in units of their own chance level."""
    weights = cached.weights(name)
    if erratum:
        return {
            kind: _board(composition.cyclic_scores(weights, kind)) / composition.cyclic_chance(weights)
            for kind in KINDS
        }
    return {kind: _board(composition.composition_scores(weights, kind)) / composition.chance(weights) for kind in KINDS}


def _board(scores: torch.Tensor) -> np.ndarray:
    return scores[0, :, 1].numpy()


@st.cache_data(show_spinner=False, max_entries=4)
def dense_gap(name: str) -> float:
    """max |low-rank score − score by the definition|, over all pairs and kinds."""
    weights = cached.weights(name)
    return max(
        (composition.composition_scores(weights, kind) - composition.dense_scores(weights, kind)).abs().max().item()
        for kind in KINDS
    )


@st.cache_data(show_spinner=False, max_entries=8)
def null(name: str, kind: str) -> tuple[float, float]:
    """Mean and standard deviation of the scores of this model's matrices turned at random, × chance."""
    weights = cached.weights(name)
    scores = composition.chance_scores(weights, kind, composition.composition_scores)[:, 0, :, 1] / composition.chance(
        weights
    )
    return scores.mean().item(), scores.std().item()


@st.cache_data(show_spinner=False, max_entries=4)
def gauge_moves(name: str) -> tuple[float, float]:
    """By how much a re-parametrised model's right and cyclic K-scores differ from its own, × their chance."""
    weights = cached.weights(name)
    same = heads.reparametrise(weights, heads.random_gauge(weights.d_head))
    right, cyclic = (
        (score(same, "K") - score(weights, "K")).abs().max().item()
        for score in (composition.composition_scores, composition.cyclic_scores)
    )
    return right / composition.chance(weights), cyclic / composition.cyclic_chance(weights)


@st.cache_data(show_spinner=False, max_entries=4)
def pair_of_interest(name: str) -> tuple[Head, Head]:
    """The best induction head, and the head below that composes most with its keys; found, never assumed."""
    model = cached.model(name)
    probe = induction.repeat_probe(period=50, batch=4, d_vocab=model.cfg.d_vocab)
    scores = induction.head_scores(models.run(model, probe).pattern, 50)
    second = induction.best_head(scores.induction, [1])
    return Head(0, int(boards(name, False)["K"][:, second.head].argmax())), second


@st.cache_resource(show_spinner=False)
def _kept() -> tuple[threading.Lock, dict]:
    """Term importance worked out so far: one model, four sizes, three questions, so it cannot grow.

    Not ``cache_data``: a cached call may not move a progress bar.  One reader works at a time; the others
    wait, and find the result.
    """
    return threading.Lock(), {}


EACH = ("order", "layer", "head")
SIZES = ("4", "8", "16", "32")


def known(name: str, n_windows: int, each: str) -> bool:
    return (name, n_windows, each) in _kept()[1]


def importance(
    name: str, n_windows: int, each: str, report: Callable[[float], object]
) -> term_importance.OrderLosses | list[term_importance.Importance]:
    """Return what each order, layer or head is worth on the first ``n_windows`` windows of the sample text."""
    lock, results = _kept()
    with lock:
        if (name, n_windows, each) not in results:
            results[name, n_windows, each] = _importance(name, n_windows, each, report)
        return results[name, n_windows, each]


def _importance(name: str, n_windows: int, each: str, report: Callable[[float], object]):
    weights = cached.weights(name)
    windows = sample_text.windows(cached.model(name))[:n_windows]
    if each == "order":
        return term_importance.losses_by_order(weights, windows, report)
    groups = term_importance.by_layer(weights) if each == "layer" else term_importance.by_head(weights)
    return term_importance.group_importance(weights, windows, groups, report)
