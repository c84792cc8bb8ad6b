"""The pair editor of page 13: the prompt above, against renamings of itself or against another text."""

import streamlit as st

from circuits import tokens
from pages.ui import controls
from pages.ui.cached import discovery as cached
from pages.ui.cached.discovery import Source
from pages.ui.prompt import View
from pages.ui.text import md

RENAMED, OTHER = "every token renamed", "another text"
PAIRS = {
    "A name changes": (
        "The captain gave the map to Jane. The captain gave the map to",
        "The captain gave the map to Tom. The captain gave the map to",
    ),
    "A surname in pieces": (
        "Mr. Micawber came in. Good morning, Mr. Micaw",
        "Mr. Pickwick came in. Good morning, Mr. Micaw",
    ),
    "The words before it change": (
        "The cat sat on the mat. The cat sat on the",
        "The dog lay by the mat. The cat sat on the",
    ),
}


def source(view: View) -> Source:
    """Draw the editor in a popover; return the pair, or renamings of the prompt where what was typed cannot be used."""
    chosen, problem = Source(clean=view.ids), None
    with st.popover("Clean and corrupt text", icon=":material/edit_note:", width="stretch"):
        if controls.choice("The text above, against", (RENAMED, OTHER), name="against") == OTHER:
            try:
                chosen = _other(view)
            except ValueError as error:
                problem = f":orange[{md(str(error))}]"
                st.caption(problem)
        for title, texts in PAIRS.items():
            st.button(title, on_click=_use, args=texts, width="stretch", key=f"pair {title}")
    if problem:
        st.caption(f"{problem} Shown instead: {RENAMED}.")
    return chosen


def _other(view: View) -> Source:
    default = PAIRS["A name changes"][1]
    key = controls.key("corrupt")
    typed = st.text_input("Corrupt text", default, key=key, live="300ms", persist_state="session")
    answer, wrong = _wanted("Answer", "answer", view), _wanted("Wrong answer", "wrong", view)
    corrupt = tokens.prompt(view.model, tokens.unescape(typed or ""))
    chosen = Source("", view.ids, corrupt.ids, answer, wrong)
    cached.pair(view.model_name, chosen)  # says what cannot be patched
    return chosen


def _wanted(label: str, name: str, view: View) -> int | None:
    """Ask for a token that may be left open."""
    box = {"placeholder": "the model's own", "persist_state": "session"}
    text = st.text_input(label, key=controls.key(name), **box)
    return tokens.single_token(view.model, tokens.unescape(text)) if text else None


def _use(clean: str, corrupt: str) -> None:
    """Put a ready-made pair into the boxes."""
    st.session_state["text"] = clean
    st.session_state[controls.key("corrupt")] = corrupt
    st.session_state[controls.key("against")] = OTHER
    for name in ("answer", "wrong"):
        st.session_state.pop(controls.key(name), None)
