"""Cached calls of page 11."""

from collections.abc import Iterator
from typing import NamedTuple

import streamlit as st
from torch import Tensor

from circuits.superposition import geometry, phase, shipped, toy
from circuits.superposition.shipped import PhaseDiagram, Solutions
from circuits.superposition.sweep import Sweep
from pages.ui import cached


@st.cache_resource(show_spinner=False, max_entries=1)
def diagram() -> PhaseDiagram:
    return shipped.phase_diagram()


@st.cache_resource(show_spinner=False, max_entries=1)
def solutions() -> Solutions:
    return shipped.solutions()


class Many(NamedTuple):
    """The precomputed models of 400 features: D* and every ``D_i`` of the stored ones, by density."""

    densities: tuple[float, ...]
    dimensions_per_feature: list[float]
    shares: list[list[float]]


@st.cache_data(show_spinner=False, max_entries=1)
def many() -> Many:
    found = shipped.uniform()
    kept = geometry.norms(found.W) > geometry.STORED_NORM
    shares = [D[mask].tolist() for D, mask in zip(geometry.dimensionality(found.W), kept, strict=True)]
    return Many(found.densities, geometry.dimensions_per_feature(found.W).tolist(), shares)


@st.cache_resource(show_spinner=False, max_entries=8)
def embedding_shares(name: str) -> Tensor:
    """``D_i`` of every token's embedding in a shipped model."""
    return geometry.dimensionality(cached.weights(name).W_E.float())


@st.cache_resource(show_spinner=False, max_entries=1)
def default_sweep() -> Sweep:
    """What the page opens with."""
    return shipped.default_sweep()


class Grid(NamedTuple):
    """A grid of models over the phase diagram, as they are now: ``w0, w1, b0, b1`` of the best start of each."""

    step: int
    steps: int
    theta: Tensor


def grid() -> Iterator[Grid]:
    """Train the grid of the phase diagram, five starts a point instead of the ten of the shipped one."""
    settings = phase.grid(shipped.GRID_DENSITIES, shipped.GRID_IMPORTANCES)
    for now in toy.train(settings, seeds=5, steps=800, every=40, seed=1):
        yield Grid(now.step, now.steps, phase.choose(now.toys).theta)
