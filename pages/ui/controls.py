"""Controls that survive a visit elsewhere, live in the URL and never hold a value out of range.

A page's own key is ``<slug>.<name>``: "reset this page" forgets exactly those.
"""

from collections.abc import Sequence
from typing import Literal

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
    value = min(max(value, low), high)
    if full in st.session_state:
        stored = st.session_state[full]
        st.session_state[full] = min(max(stored, low), high) if isinstance(stored, (int, float)) else value
    return st.slider(
        label,
        low,
        high,
        value,
        key=full,
        step=step,
        help=help,
        format=format,
        bind="query-params",
        persist_state="session",
    )


def toggle(label: str, value: bool = False, *, name: str, help: str | None = None) -> bool:
    return st.toggle(label, value, key=key(name), help=help, bind="query-params", persist_state="session")


def choice(
    label: str, options: Sequence[str], *, name: str, default: str | None = None, help: str | None = None
) -> str:
    """Show two to five short alternatives, of which exactly one holds."""
    full, default = _among(options, name, default)
    return st.segmented_control(
        label,
        options,
        default=default,
        key=full,
        help=help,
        required=True,
        bind="query-params",
        persist_state="session",
    )


def select(
    label: str,
    options: Sequence[str],
    *,
    name: str,
    default: str | None = None,
    help: str | None = None,
    bind: Literal["query-params"] | None = None,
) -> str:
    """Show a longer list; its entries must be distinct (token labels carry their position).

    Only lists that do not depend on the text belong in the URL (``bind``).
    """
    full, default = _among(options, name, default)
    return st.selectbox(
        label, options, list(options).index(default), key=full, help=help, bind=bind, persist_state="session"
    )


def _among(options: Sequence[str], name: str, default: str | None) -> tuple[str, str]:
    """Return a control's key and its default; a stored value that is no option any more gives way to the default.

    The default goes to the widget too, not only to the session: a bound widget leaves its default out of the URL,
    and if it held the first option for its default, a link could not say that one.
    """
    full, default = key(name), options[0] if default is None else default
    if full in st.session_state and st.session_state[full] not in options:
        st.session_state[full] = default
    return full, default


def head(label: str, heads: Sequence[Head], *, name: str, default: Head | None = None) -> Head:
    """Choose one head by its name, ``L1H4``."""
    names = {str(head): head for head in heads}
    return names[select(label, list(names), name=name, default=str(default or heads[0]), bind="query-params")]


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
