"""Cached calls of page 09: the run's history, and three checkpoints at a time."""

from typing import NamedTuple

import streamlit as st
import torch
from jaxtyping import Float
from torch import Tensor

from circuits import history, induction, live_training, mechanism
from circuits.history import Metrics
from circuits.mechanism import Mechanism
from circuits.weights import Head, Weights, forward

PERIOD = 50
"""The period of the probe that the training run was measured on."""


@st.cache_data(show_spinner=False, max_entries=1)
def metrics() -> Metrics:
    return history.metrics()


@st.cache_resource(show_spinner="Loading a checkpoint", max_entries=3)
def weights(step: int) -> Weights:
    """The weights of one moment; three stay in memory (about 13 MB each)."""
    return history.weights(step)


class Roles(NamedTuple):
    """The two heads of the story, found by the last row of the metrics."""

    previous: Head
    induction: Head


@st.cache_data(show_spinner=False, max_entries=1)
def roles() -> Roles:
    previous, looking = (torch.from_numpy(scores[-1]) for scores in (metrics().previous, metrics().induction))
    last = len(looking) - 1
    return Roles(induction.best_head(previous, range(max(1, last))), induction.best_head(looking, [last]))


@st.cache_resource(show_spinner=False, max_entries=48)
@torch.inference_mode()
def patterns(step: int, ids: tuple[int, ...]) -> Float[Tensor, "layer head query key"]:
    return forward(weights(step), torch.tensor(ids)).pattern


class Measured(NamedTuple):
    """What a checkpoint does on the probe of the training run."""

    scores: induction.HeadScores
    copy: induction.SecondCopy


@st.cache_resource(show_spinner=False, max_entries=16)
@torch.inference_mode()
def measured(step: int) -> Measured:
    tokens = induction.repeat_probe(PERIOD, d_vocab=weights(step).d_vocab)
    run = forward(weights(step), tokens)
    return Measured(induction.head_scores(run.pattern, PERIOD), induction.second_copy(run.logits, tokens, PERIOD))


@st.cache_resource(show_spinner=False, max_entries=16)
def corner(step: int) -> Mechanism:
    return mechanism.mechanism(weights(step), roles().previous)


@st.cache_data(show_spinner=False, max_entries=32)
def seen_level(period: int | None) -> float:
    return live_training.seen_level(live_training.Setup(period=period))
