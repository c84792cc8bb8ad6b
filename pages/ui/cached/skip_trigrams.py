"""Cached calls of page 06."""

import streamlit as st
import torch

from circuits import ablation, bugs, heads, sample_text, split_tokens, tokens
from circuits.ablation import Costs
from circuits.bugs import Bug
from circuits.skip_trigrams import ByHead, Tables, by_head, rank
from circuits.split_tokens import SplitGain
from circuits.weights import Head, forward
from pages.ui import cached

WINDOWS = 4
"""Windows of the sample text on which losses and offsets are measured."""

FILLER = " said nothing. "
"""What stands between a name and its first piece in the split-token trial."""


@st.cache_resource(show_spinner=False, max_entries=4)
def seen(least: int = bugs.GOOD_COUNT) -> torch.Tensor:
    """The tokens that the training text has at least so often; by default, often enough to be in a good pair."""
    return (cached.counts().unigrams >= least).nonzero().flatten()


@st.cache_data(show_spinner=False, max_entries=1)
def strongest_head(name: str) -> tuple[int, int]:
    """The head of layer 0 with the strongest skip-trigram among tokens that the training text has."""
    heads_of_layer = [head for head in cached.weights(name).heads if head.layer == 0]
    best = {head: rank(tables(name, *head), k=1, among=seen()) for head in heads_of_layer}
    return tuple(max(best, key=lambda head: float(best[head].qk * best[head].ov)))


@st.cache_resource(show_spinner=False, max_entries=24)
def tables(name: str, layer: int, head: int, all_heads: bool = False) -> Tables:
    weights = cached.weights(name)
    together = [other for other in weights.heads if other.layer == layer] if all_heads else None
    return Tables.of(weights, Head(layer, head), together)


@st.cache_data(show_spinner=False, max_entries=1)
def typable(name: str) -> list[int]:
    """Tokens a reader can type: their text is that one token again."""
    model = cached.model(name)
    texts = {token: text_of(name, token) for token in range(1, model.cfg.d_vocab)}
    return [token for token, text in texts.items() if tokens.encode(model, tokens.unescape(text))[1:] == [token]]


def text_of(name: str, token: int) -> str:
    return tokens.token_bytes(cached.model(name), token).decode("utf-8", "replace")


@st.cache_resource(show_spinner="Searching this head for its worst bugs …", max_entries=16)
def worst_bugs(name: str, layer: int, head: int) -> list[Bug]:
    """The worst bugs among the head's 300 strongest sources that can be typed."""
    found = tables(name, layer, head)
    can = set(typable(name))
    sources = [token for token in bugs.strongest_sources(found, 400).tolist() if token in can][:300]
    return bugs.worst_bugs(found, cached.counts(), torch.tensor(sources))[:12]


PAPER_PHRASES = ("back and forth", "day and night", "keep in mind", "keep at bay", "eat and drink")
"""Skip-trigrams the paper names, one word each for source, destination and out."""


@st.cache_resource(show_spinner=False, max_entries=4)
def paper_phrases(name: str) -> dict[str, ByHead]:
    """Those of the paper's phrases whose words are single tokens here, in every head."""
    model, found = cached.model(name), {}
    for phrase in PAPER_PHRASES:
        pieces = [tokens.encode(model, f" {word}")[1:] for word in phrase.split()]
        if all(len(word) == 1 for word in pieces):
            source, middle, out = phrase.split()
            found[f"{source} … {middle} → {out}"] = by_head(cached.weights(name), *(word[0] for word in pieces))
    return found


@st.cache_resource(show_spinner="Trying every name that splits …", max_entries=4)
def split_gains(name: str) -> SplitGain:
    model = cached.model(name)
    filler = tokens.encode(model, FILLER.rstrip())[1:]
    return split_tokens.split_gains(cached.weights(name), split_tokens.split_pairs(model), filler)


@st.cache_resource(show_spinner="Measuring where heads look …", max_entries=4)
def offsets(name: str) -> torch.Tensor:
    """Mean attention by offset on the sample text: [layer, head, offset]."""
    windows = sample_text.windows(cached.model(name))[:WINDOWS]
    with torch.inference_mode():
        return heads.attention_by_offset(forward(cached.weights(name), windows).pattern).mean(0)


@st.cache_resource(show_spinner="Silencing one head after the other …", max_entries=4)
def costs(name: str) -> Costs:
    return ablation.ablation_costs(cached.weights(name), sample_text.windows(cached.model(name))[:WINDOWS])
