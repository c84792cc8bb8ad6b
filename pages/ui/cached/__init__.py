"""Every cached call of the pages, keyed by plain values: a model's name, a tuple of ids, a head.

Models and runs are shared (``cache_resource``) and never changed; small results are copied
(``cache_data``).  Each is bounded, so that forty readers cannot fill the memory.  A topic's own calls
stand in a module beside this one.
"""

import os

import streamlit as st
import torch
from transformer_lens.model_bridge import TransformerBridge

from circuits import models
from circuits.counts import BigramCounts
from circuits.training_queue import TrainingQueue
from circuits.weights import Run, Weights


@st.cache_resource(show_spinner=False, max_entries=12)
def model(name: str) -> TransformerBridge:
    return models.load(name)


@st.cache_resource(show_spinner=False, max_entries=12)
def weights(name: str) -> Weights:
    return Weights.of(model(name))


@st.cache_resource(show_spinner=False, max_entries=48)
def run(name: str, ids: tuple[int, ...]) -> Run:
    """The served model on one prompt, everything kept (about 15 MB at 256 tokens)."""
    return models.run(model(name), torch.tensor(ids))


@st.cache_resource(show_spinner=False, max_entries=1)
def counts() -> BigramCounts:
    """The pair counts of the training text (about 15 MB), never changed."""
    return BigramCounts.load()


def held_out(name: str) -> dict[str, float]:
    """Losses and scores on the held-out novels, as a model's training command stored them; empty if it did not yet."""
    return models.read_config(models.ASSETS / "models" / name, name).get("measured", {}).get("held_out", {})


@st.cache_resource(show_spinner=False)
def queue() -> TrainingQueue:
    """One queue a server: half of the cores train, the other half serve pages."""
    return TrainingQueue(runners=max(1, (os.cpu_count() or 1) // 2))


@st.cache_data(show_spinner=False, max_entries=2)
def rare(times: int = 5) -> frozenset[int]:
    """Tokens that occur less than so many times in the training text: what a model says of them, little taught it."""
    return frozenset((counts().unigrams < times).nonzero()[:, 0].tolist()) - {0}


def never_trained() -> frozenset[int]:
    return rare(1)
