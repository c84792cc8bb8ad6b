"""Controls that survive a visit elsewhere, live in the URL and never hold a value out of range.

A page's own key is ``<slug>.<name>``: "reset this page" forgets exactly those.
"""

from collections.abc import Sequence

import streamlit as st
from transformer_lens.model_bridge import TransformerBridge

from circuits import tokens
from circuits.weights import Head
from pages.ui.prompt import current_view
from pages.ui.text import md


def key(name: str) -> str:
    return f"{current_view().page.slug}.{name}"


def slider(label: str, low, high, value, *, name: str, step=None, help: str | None = None, format: str | None = None):
    """Show a slider bound to the URL; a value from a link outside its range is moved to the nearest end."""
    full = key(name)
    if high <= low:
        st.caption(f"{label}: {low}")
        return low
    if full in st.session_state:
        stored = st.session_state[full]
        st.session_state[full] = min(max(stored, low), high) if isinstance(stored, (int, float)) else value
        value_args = {}
    else:
        value_args = {"value": min(max(value, low), high)}
    return st.slider(
        label,
        low,
        high,
        key=full,
        step=step,
        help=help,
        format=format,
        bind="query-params",
        persist_state="session",
        **value_args,
    )


def toggle(label: str, value: bool = False, *, name: str, help: str | None = None) -> bool:
    return st.toggle(label, value, key=key(name), help=help, bind="query-params", persist_state="session")


def choice(
    label: str, options: Sequence[str], *, name: str, default: str | None = None, help: str | None = None
) -> str:
    """Show two to five short alternatives, of which exactly one holds."""
    full = key(name)
    if st.session_state.get(full) not in options:
        st.session_state[full] = default or options[0]
    return st.segmented_control(
        label, options, key=full, help=help, required=True, bind="query-params", persist_state="session"
    )


def select(
    label: str, options: Sequence[str], *, name: str, default: str | None = None, help: str | None = None
) -> str:
    """Show a longer list; its entries must be distinct (token labels carry their position)."""
    full = key(name)
    if st.session_state.get(full) not in options:
        st.session_state[full] = default or options[0]
    return st.selectbox(label, options, key=full, help=help, persist_state="session")


def head(label: str, heads: Sequence[Head], *, name: str, default: Head | None = None) -> Head:
    """Choose one head by its name, ``L1H4``."""
    names = {str(head): head for head in heads}
    return names[select(label, list(names), name=name, default=str(default or heads[0]))]


def token(label: str, model: TransformerBridge, default: str, *, name: str, help: str | None = None) -> int:
    """Ask for one token of the vocabulary as text.

    What is no single token is explained, and the last good one kept.  A ``default`` that cannot be typed
    (a lone byte the model happens to predict) is replaced by a plain word.
    """
    full = key(name)
    default = default if _is_token(model, default) else " the"
    text = st.text_input(label, default, key=full, help=help, live="300ms", persist_state="session")
    good = f"{full} good"
    try:
        st.session_state[good] = tokens.single_token(model, tokens.unescape(text or ""))
    except ValueError as error:
        st.caption(f":orange[{md(str(error))}]")
        st.session_state.setdefault(good, tokens.single_token(model, default))
    return st.session_state[good]


def _is_token(model: TransformerBridge, text: str) -> bool:
    return len(tokens.encode(model, tokens.unescape(text))) == 2
