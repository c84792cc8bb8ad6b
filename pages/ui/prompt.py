"""The strip above every page: the text, its tokens as chips, the model, the examples."""

import random
from dataclasses import dataclass
from functools import cached_property
from urllib.parse import quote

import streamlit as st
from transformer_lens.model_bridge import TransformerBridge

from circuits import models, tokens
from circuits.weights import Run, Weights
from pages.ui import cached, registry
from pages.ui.text import md

DEFAULT_TEXT = "Harry Potter met Mr Dursley. Harry Potter met Mr"
EXAMPLES = {
    "A sentence that begins again": DEFAULT_TEXT,
    "The cat sat on the mat, twice": "The cat sat on the mat. The cat sat on the",
    "The Dursleys (the paper's own test text begins so)": "Mr. and Mrs. Dursley, of number four, Privet Drive, "
    "were proud to say that they were perfectly normal, thank you very much.",
    "Names in pieces": "Hermione met Rasputin in Timbuktu. Hermione told Rasputin that Timbuktu was warm, and Rasputin",
    "An exchange that recurs": '"Good morning, Mr. Quill," said Ismene. "Good morning," said Mr. Quill. '
    '"Good evening, Mr. Quill," said',
}


@dataclass(frozen=True)
class View:
    """What the reader is looking at: one page, one model, one prompt, one position in focus."""

    page: registry.Page
    model_name: str
    prompt: tokens.Prompt
    focus: int

    @property
    def ids(self) -> tuple[int, ...]:
        """Token ids, BOS first, cut to the model's limit."""
        return self.prompt.ids

    @property
    def model(self) -> TransformerBridge:
        return cached.model(self.model_name)

    @property
    def weights(self) -> Weights:
        return cached.weights(self.model_name)

    @property
    def run(self) -> Run:
        """The model's forward pass on the prompt, shared and never changed."""
        return cached.run(self.model_name, self.ids)

    @cached_property
    def labels(self) -> list[str]:
        """Visible token labels; equal tokens have equal labels.  For charts, whose axes count positions."""
        return tokens.labels(self.model, self.ids)

    @cached_property
    def unique_labels(self) -> list[str]:
        """Labels that carry their position (``3 ·the``), for pickers and tables."""
        return tokens.unique_labels(self.model, self.ids)


def prompt_bar(page: registry.Page) -> None:
    """Draw the strip and put what was chosen into the session as the current :class:`View`."""
    if "text" not in st.session_state:
        st.session_state["text"] = st.query_params.get("text", DEFAULT_TEXT)
    text_column, model_column, example_column = st.columns([6, 2, 1.6], vertical_alignment="bottom")
    with model_column:
        model_name = _model_picker(page)
    model = cached.model(model_name)
    prompt = tokens.prompt(model, tokens.unescape(st.session_state["text"] or ""))
    with text_column:
        st.text_input(
            f"Your text · {_length(prompt)}",
            DEFAULT_TEXT,
            key="text",
            live="300ms",
            bind="query-params" if fits_an_address(st.session_state["text"] or "") else None,
            persist_state="session",
            help="Any text. Type \\n for a new line and \\t for a tab. Click a token below to put it in focus. "
            f"The vocabulary is {model.cfg.d_vocab:,} pieces of old novels' words: modern words fall apart.",
        )
    with example_column, st.popover("Examples", icon=":material/list:", width="stretch"):
        _examples()
    st.session_state["_view"] = View(page, model_name, prompt, _chips(model, prompt))


ADDRESS_LIMIT = 8_000
"""Characters of an address that the text may take: servers refuse addresses of some tens of thousands."""


def fits_an_address(text: str) -> bool:
    return len(text) <= ADDRESS_LIMIT and len(quote(text, errors="replace")) <= ADDRESS_LIMIT


def _length(prompt: tokens.Prompt) -> str:
    """Say how long the text is, and what is used where it is longer than the model reads."""
    if prompt.cut:
        return f"{prompt.n_tokens:,} tokens, limit {prompt.limit}: the first {prompt.limit} are used"
    if prompt.n_tokens == 1:
        return "empty: the model sees only the token that begins every text"
    return f"{prompt.n_tokens} tokens with the beginning-of-text token"


def _model_picker(page: registry.Page) -> str:
    """Return the model to show: the reader's choice where the page can show it, else the page's own."""
    if len(page.models) == 1:
        st.selectbox("Model", page.models, disabled=True, key="_only_model", help="This page needs this model.")
        return page.models[0]
    chosen = st.session_state.get("model")
    if chosen not in models.SHIPPED:
        asked = st.query_params.get("model")
        st.session_state["model"] = asked if asked in models.SHIPPED else page.models[0]
    usual = models.SHIPPED.index(page.models[0])
    chosen = st.selectbox("Model", models.SHIPPED, usual, key="model", bind="query-params", persist_state="session")
    if chosen in page.models:
        return chosen
    st.caption(f"This page shows `{page.models[0]}`.")
    return page.models[0]


def _examples() -> None:
    for name, text in EXAMPLES.items():
        st.button(name, width="stretch", on_click=_set_text, args=(text,), key=f"example {name}")
    period = st.slider("Random tokens, repeated: period", 4, 60, 12, key="random_period")
    copies = st.segmented_control("Copies", [2, 3], default=2, key="random_copies") or 2
    st.button(
        "Repeat random tokens",
        width="stretch",
        icon=":material/casino:",
        on_click=lambda: _set_text(random_repeat(cached.model("two-layer"), period, copies)),
    )


def _set_text(text: str) -> None:
    st.session_state["text"] = text


@st.cache_data(show_spinner=False, max_entries=1)
def _words() -> list[str]:
    """Every token that is one whole word with its space: text made of these tokenises back to itself."""
    model = cached.model("two-layer")
    words = [tokens.token_bytes(model, token).decode("utf-8", "replace") for token in range(1, model.cfg.d_vocab)]
    words = [word for word in words if word.startswith(" ") and word[1:].isalpha() and len(word) > 2]
    return [word for word in words if len(tokens.encode(model, word)) == 2]


def random_repeat(model: TransformerBridge, period: int, copies: int = 2, seed: int | None = None) -> str:
    """Return ``copies`` copies of ``period`` words drawn at random from the vocabulary."""
    words = random.Random(seed).sample(_words(), period)
    return "".join(words) * copies


def _chips(model: TransformerBridge, prompt: tokens.Prompt) -> int:
    """Draw the tokens as chips and return the position in focus: the last until one is clicked."""
    unseen = cached.never_trained()
    labels = zip(tokens.unique_labels(model, prompt.ids), prompt.ids, strict=True)
    names = [f"{label} (never in training)" if token in unseen else label for label, token in labels]
    last = len(prompt.ids) - 1
    # A new text is a new widget: focus goes back to the end, where the next token is predicted.
    key = f"chips {hash((prompt.ids, model.cfg.d_vocab))}"
    if key not in st.session_state:
        asked = "" if st.session_state.get("_focused") else st.query_params.get("pos", "")  # of the link, once
        st.session_state["_focused"] = True
        st.session_state[key] = min(int(asked), last) if asked.isdecimal() and len(asked) < 6 else last
    focus = st.pills(
        "Tokens",
        range(len(prompt.ids)),
        format_func=lambda position: md(names[position]),
        key=key,
        required=True,
        wrap=False,
        label_visibility="collapsed",
    )
    focus = last if focus is None else focus
    if focus != last:
        st.query_params["pos"] = str(focus)
    else:
        st.query_params.pop("pos", None)
    return focus


def current_view() -> View:
    return st.session_state["_view"]
