"""Cached calls of page 05."""

import streamlit as st

from circuits import paths
from pages.ui import cached


@st.cache_resource(show_spinner=False, max_entries=8)
def expansion(name: str, ids: tuple[int, ...]) -> paths.Expansion:
    """All paths of a prompt (162 streams: about 40 MB at 256 tokens)."""
    return paths.expand(cached.weights(name), cached.run(name, ids))
