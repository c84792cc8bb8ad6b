"""Every cached call of the pages, keyed by plain values: a model's name, a tuple of ids, a head.

Models and runs are shared (``cache_resource``) and never changed; small results are copied
(``cache_data``).  Each is bounded, so that forty readers cannot fill the memory.  A topic's own calls
stand in a module beside this one.
"""

import streamlit as st
import torch
from transformer_lens.model_bridge import TransformerBridge

from circuits import models
from circuits.counts import BigramCounts
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


@st.cache_data(show_spinner=False, max_entries=2)
def rare(times: int = 5) -> frozenset[int]:
    """Tokens that occur less than so many times in the training text: what a model says of them, little taught it."""
    return frozenset((BigramCounts.load().unigrams < times).nonzero()[:, 0].tolist()) - {0}


def never_trained() -> frozenset[int]:
    return rare(1)
