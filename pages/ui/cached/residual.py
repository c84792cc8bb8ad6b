"""Cached calls of page 02."""

import streamlit as st
import torch

from circuits import residual
from circuits.residual import Components
from circuits.weights import Run, forward
from pages.ui import cached


@st.cache_resource(show_spinner=False, max_entries=48)
def components(name: str, ids: tuple[int, ...]) -> Components:
    return residual.components(cached.run(name, ids))


@st.cache_resource(show_spinner=False, max_entries=24)
def rotated(name: str, ids: tuple[int, ...], angle: int) -> Run:
    """The model with its whole stream turned, run on the prompt."""
    weights = cached.weights(name)
    with torch.inference_mode():
        return forward(residual.rotate(weights, residual.rotation(weights.d_model, angle)), torch.tensor(ids))


@st.cache_resource(show_spinner=False, max_entries=8)
def virtual_weights(name: str):
    """Names of writers, names of readers, and their alignment."""
    return residual.virtual_weights(cached.weights(name))


@st.cache_resource(show_spinner=False, max_entries=8)
def spectra(name: str) -> dict[str, torch.Tensor]:
    """Share of variance by principal component, of what writes and reads at the two ends."""
    weights = cached.weights(name)
    return {
        "W_E": residual.variance_spectrum(weights.W_E),
        "W_U": residual.variance_spectrum(weights.W_U.T),
        "both": residual.variance_spectrum(torch.cat([weights.W_E, weights.W_U.T])),
    }
