"""Cached calls of page 05."""

import streamlit as st

from circuits import paths, tokens
from pages.ui import cached


@st.cache_resource(show_spinner=False, max_entries=8)
def expansion(name: str, ids: tuple[int, ...]) -> paths.Expansion:
    """All paths of a prompt (162 streams: about 40 MB at 256 tokens)."""
    return paths.expand(cached.weights(name), cached.run(name, ids))


@st.cache_data(show_spinner=False, max_entries=256)
def suggestion(name: str, ids: tuple[int, ...], focus: int) -> str:
    """Return the most probable next token that can be typed (a lone byte of a character cannot)."""
    model = cached.model(name)
    for token in cached.run(name, ids).logits[focus].topk(50).indices.tolist():
        typed = tokens.text(model, token)
        if typed.strip() and tokens.encode(model, typed)[1:] == [token]:
            return typed
    return " the"
