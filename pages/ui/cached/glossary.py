"""Cached calls of page 14."""

import streamlit as st
import torch

from circuits import misconceptions, notation
from circuits.misconceptions import Fact, Scene
from circuits.weights import Head
from pages.ui import cached


@st.cache_data(show_spinner="Computing", max_entries=256)
def facts(misconception: str, model: str, ids: tuple[int, ...]) -> tuple[Fact, ...]:
    """Run one demonstration on a model and a prompt."""
    return misconceptions.find(misconception).demonstrate(Scene(cached.weights(model), torch.tensor(ids)))


@st.cache_data(show_spinner=False, max_entries=64)
def disagreement(model: str, ids: tuple[int, ...]) -> float:
    """The largest difference between the two conventions, over the whole table, for L0H0 on the prompt."""
    named = notation.matrices(cached.weights(model), cached.run(model, ids), Head(0, 0))
    return max(notation.disagreement(row, named) for row in notation.TABLE)
