"""Cached calls of page 11."""

from collections.abc import Iterator
from typing import NamedTuple

import streamlit as st
import torch
from torch import Tensor

from circuits.superposition import geometry, phase, shipped, toy
from circuits.superposition.phase import Solution
from circuits.superposition.shipped import PhaseDiagram
from circuits.superposition.toy import Toy
from pages.ui import cached


@st.cache_resource(show_spinner=False, max_entries=1)
def diagram() -> PhaseDiagram:
    return shipped.phase_diagram()


@st.cache_resource(show_spinner=False, max_entries=64)
def solution(density: float, importance: float) -> Solution:
    """The best of the small family at one point of the phase diagram."""
    return phase.solve(torch.tensor([density]), torch.tensor([importance]))


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


DENSITIES = (1.0, 0.7, 0.5, 0.3, 0.2, 0.1, 0.05, 0.03, 0.02, 0.01)
"""The stops of the density slider: all are trained together, so that moving it waits for nothing."""

REPORTS, FEW = 10, 8


class Sweep(NamedTuple):
    """The best model at every density so far."""

    step: int
    steps: int
    toys: list[Toy]


def sweep(n: int, m: int, decay: float, activation: str, pairs: str) -> Iterator[Sweep]:
    """Train all densities at once (not cached here: :func:`pages.ui.live.train` keeps the end)."""
    settings = [toy.Setting(n, m, density, decay, activation, pairs) for density in DENSITIES]
    steps = 1500
    # Few features end in poor minima more often, and cost less: more starts for them.
    for now in toy.train(settings, seeds=8 if n <= FEW else 4, steps=steps, every=steps // REPORTS):
        yield Sweep(now.step, now.steps, toy.best(now.toys))


class Grid(NamedTuple):
    """A grid of trained models over the phase diagram."""

    step: int
    steps: int
    solution: Solution


def grid() -> Iterator[Grid]:
    """Train the grid of the phase diagram, five starts a point instead of the ten of the shipped one."""
    settings = phase.grid(shipped.GRID_DENSITIES, shipped.GRID_IMPORTANCES)
    for now in toy.train(settings, seeds=5, steps=800, every=40, seed=1):
        yield Grid(now.step, now.steps, phase.choose(now.toys))
