"""Cached calls of page 10."""

from typing import NamedTuple

import streamlit as st
from torch import Tensor

from circuits import contexts, mlp, models
from circuits.contexts import Contexts
from pages.ui import cached


@st.cache_resource(show_spinner=False, max_entries=32)
def kept(name: str, ids: tuple[int, ...], position: int) -> mlp.Kept:
    """Error, KL and prediction for every number of memories kept, from none to all that answer (``probs`` dropped)."""
    weights, run = cached.weights(name), cached.run(name, ids)
    active = int((mlp.activations(weights, mlp.inputs(run)[position]) > 0).sum())
    kept = mlp.keep_strongest(weights, run, position, range(active + 1))
    return kept._replace(probs=kept.probs[:0])


@st.cache_resource(show_spinner=False, max_entries=32)
def ablated(name: str, ids: tuple[int, ...], position: int) -> mlp.Ablated:
    """The prediction without each memory that answers, strongest write first (``probs`` dropped)."""
    weights, run = cached.weights(name), cached.run(name, ids)
    activation = mlp.activations(weights, mlp.inputs(run)[position])
    order = mlp.strength(weights, activation).argsort(descending=True)
    ablated = mlp.ablate(weights, run, position, order[: int((activation > 0).sum())].tolist())
    return ablated._replace(probs=ablated.probs[:0])


@st.cache_data(show_spinner=False, max_entries=64)
def agreement(name: str, ids: tuple[int, ...]) -> mlp.Agreement:
    return mlp.agreement(cached.weights(name), cached.run(name, ids))


class Text(NamedTuple):
    """The passages contexts come from, the strongest of each neuron, and whether the index had to be made anew."""

    windows: Tensor
    contexts: Contexts
    note: str


@st.cache_resource(show_spinner=False, max_entries=2)
def text(name: str) -> Text:
    """Read the shipped index; where it belongs to other weights or another text, look through the text now."""
    model, windows = cached.model(name), contexts.windows(cached.model(name))
    sha256 = models.read_config(models.ASSETS / "models" / name, name)["sha256"]
    try:
        return Text(windows, contexts.load(models.ASSETS / contexts.INDEX, sha256, contexts.digest(windows)), "")
    except ValueError as error:
        return Text(windows, contexts.neuron_contexts(model), str(error))


class Passage(NamedTuple):
    """One context: the tokens around the peak and the neuron's activation on each."""

    ids: tuple[int, ...]
    activation: tuple[float, ...]


BEFORE, AFTER = 24, 8


@st.cache_data(show_spinner=False, max_entries=256)
def passages(name: str, neuron: int) -> list[Passage]:
    """The neuron's top contexts: the tokens before and a few after the peak."""
    found = text(name)
    window, position = found.contexts.window[neuron], found.contexts.position[neuron]
    tokens = found.windows[window, : int(position.max()) + AFTER + 1]
    activation = mlp.activations_on(cached.weights(name), tokens)[..., neuron]
    cuts = [slice(max(1, at - BEFORE), at + AFTER + 1) for at in position.tolist()]
    return [
        Passage(tuple(ids[cut].tolist()), tuple(values[cut].tolist()))
        for ids, values, cut in zip(tokens, activation, cuts, strict=True)
    ]
