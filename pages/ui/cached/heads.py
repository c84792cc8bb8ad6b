"""Cached calls of page 04, and what page 06 shares with it."""

import streamlit as st
import torch
from jaxtyping import Complex, Float
from torch import Tensor

from circuits import copying, heads
from circuits.copying import Null, SelfCounts
from circuits.heads import Direction
from circuits.induction import previous_token_score
from circuits.weights import Head, Run, forward
from pages.ui import cached

DRAWS = 200
RANDOM_HEADS = 8
"""Random heads whose diagonals are counted: each costs a pass over the vocabulary's square."""


@st.cache_resource(show_spinner=False, max_entries=24)
def value_weighted(name: str, ids: tuple[int, ...]) -> Float[Tensor, "layer head query key"]:
    return heads.value_weighted_pattern(cached.weights(name), cached.run(name, ids))


@st.cache_resource(show_spinner=False, max_entries=8)
def null_eigenvalues(name: str) -> Complex[Tensor, "draws d_head"]:
    return copying.null_eigenvalues(cached.weights(name), DRAWS)


@st.cache_data(show_spinner=False, max_entries=8)
def null(name: str) -> Null:
    return copying.copying_null(cached.weights(name), DRAWS)


@st.cache_data(show_spinner=False, max_entries=8)
def copying_scores(name: str) -> dict[Head, float]:
    weights = cached.weights(name)
    return {head: copying.copying_score(copying.ov_eigenvalues(weights, head)).item() for head in weights.heads}


@st.cache_data(show_spinner="Counting who copies …", max_entries=8)
def self_counts(name: str) -> dict[Head, SelfCounts]:
    weights = cached.weights(name)
    return {head: copying.self_counts(heads.ov_circuit(weights, head)) for head in weights.heads}


@st.cache_data(show_spinner=False, max_entries=64)
def directions(name: str, circuit: str, layer: int, head: int) -> list[Direction]:
    of = {"OV": heads.ov_directions, "QK": heads.qk_directions}[circuit]
    return of(cached.weights(name), Head(layer, head))


@st.cache_resource(show_spinner=False, max_entries=8)
def regauged(name: str, ids: tuple[int, ...], seed: int) -> Run:
    """The model with other queries, keys and values that make the same products, run on the prompt."""
    weights = cached.weights(name)
    with torch.inference_mode():
        R = heads.random_gauge(weights.d_head, seed)
        return forward(heads.reparametrise(weights, R), torch.tensor(ids))


@st.cache_data(show_spinner=False, max_entries=8)
def positional_previous(name: str) -> dict[Head, float]:
    """Mean attention to the token before, if a head saw positions only."""
    weights = cached.weights(name)
    patterns = {head: heads.masked(heads.positional_circuit(weights, head)).softmax(-1) for head in weights.heads}
    return {head: previous_token_score(pattern).item() for head, pattern in patterns.items()}
