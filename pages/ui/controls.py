"""Controls that survive a visit elsewhere, live in the URL and never hold a value out of range.

A page's own key is ``<slug>.<name>``: "reset this page" forgets exactly those.
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal

import streamlit as st
from transformer_lens.model_bridge import TransformerBridge

from circuits import tokens
from circuits.weights import Head
from pages.ui.prompt import current_view
from pages.ui.text import md


def key(name: str) -> str:
    return f"{current_view().page.slug}.{name}"


def begun(full: str, default):
    """Note the default of a control, so that "reset this page" can put it back, and return it."""
    st.session_state.setdefault("_defaults", {})[full] = default
    return default


def reset(slug: str) -> None:
    """Put a page's own controls (their keys begin with its slug) back, and nothing else.

    A control that the URL holds is set to its default, which takes it out of the URL; it may not be taken out by hand.
    """
    defaults = st.session_state.get("_defaults", {})
    for full in [name for name in st.session_state if str(name).startswith(f"{slug}.")]:
        if full in defaults:
            st.session_state[full] = defaults[full]
        else:
            del st.session_state[full]


def slider(label: str, low, high, value, *, name: str, step=None, help: str | None = None, format: str | None = None):
    """Show a slider bound to the URL; a value from a link outside its range is moved to the nearest end."""
    full = key(name)
    if high <= low:
        st.caption(f"{label}: {low}")
        return low
    value = begun(full, min(max(value, low), high))
    stored = st.session_state.get(full, value)
    if not isinstance(stored, (int, float)):
        st.session_state[full] = value
    elif not low <= stored <= high:  # only then: what is set here overrules what the reader has moved on to meanwhile
        st.session_state[full] = min(max(stored, low), high)
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
    full = key(name)
    return st.toggle(label, begun(full, value), key=full, help=help, bind="query-params", persist_state="session")


def select_slider(
    label: str, options: Sequence, value, *, name: str, help: str | None = None, format_func: Callable = str
):
    """Show a slider with named stops, bound to the URL."""
    full, value = _among(options, name, value)
    return st.select_slider(
        label,
        options,
        value,
        key=full,
        help=help,
        format_func=format_func,
        bind="query-params",
        persist_state="session",
    )


def number(label: str, low: int, high: int, value: int, *, name: str, help: str | None = None) -> int:
    """Show a box for a whole number, bound to the URL."""
    full = key(name)
    if not low <= st.session_state.get(full, value) <= high:
        st.session_state[full] = value
    return st.number_input(
        label, low, high, begun(full, value), key=full, help=help, bind="query-params", persist_state="session"
    )


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


def _among(options: Sequence, name: str, default) -> tuple[str, Any]:
    """Return a control's key and its default; a stored value that is no option any more gives way to the default.

    The default goes to the widget too, not only to the session: a bound widget leaves its default out of the URL,
    and if it held the first option for its default, a link could not say that one.
    """
    full, default = key(name), options[0] if default is None else default
    if full in st.session_state and st.session_state[full] not in options:
        st.session_state[full] = default
    return full, begun(full, default)


def head(label: str, heads: Sequence[Head], *, name: str, default: Head | None = None) -> Head:
    """Choose one head by its name, ``L1H4``."""
    names = {str(head): head for head in heads}
    return names[select(label, list(names), name=name, default=str(default or heads[0]), bind="query-params")]


def token(label: str, model: TransformerBridge, default: str, *, name: str, help: str | None = None) -> int:
    """Ask for one token of the vocabulary as text; ``default`` stands in the box until the reader types another."""
    full = key(name)
    text = st.text_input(
        label, begun(full, default), key=full, help=help, live="300ms", bind="query-params", persist_state="session"
    )
    return _last_good(model, text or "", full, tokens.single_token(model, default))


def token_or_guess(label: str, model: TransformerBridge, guess: int, *, name: str, help: str | None = None) -> int:
    """Ask for one token as text; an empty box, as it is at first, means the model's guess and follows it."""
    full = key(name)
    text = st.text_input(
        label,
        begun(full, ""),
        key=full,
        placeholder=f"{tokens.label(model, guess)} (the model's guess)",
        help=help,
        live="300ms",
        bind="query-params",
        persist_state="session",
    )
    if text:
        return _last_good(model, text, full, guess)
    st.session_state.pop(f"{full} good", None)
    return guess


def _last_good(model: TransformerBridge, text: str, full: str, default: int) -> int:
    """Return the one token that ``text`` is; what is no single token is explained, and the last good one kept."""
    good = f"{full} good"
    try:
        st.session_state[good] = tokens.single_token(model, tokens.unescape(text))
    except ValueError as error:
        st.caption(f":orange[{md(str(error))}]")
    return st.session_state.get(good, default)
