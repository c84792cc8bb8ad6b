"""Claim: every term has one meaning and one shape, and the mistakes that are easy to make can be computed.

Elhage et al. 2021, "Notation"; the names are TransformerLens'.
"""

import pandas as pd
import streamlit as st

from circuits import glossary, misconceptions, notation
from pages import ui
from pages.ui import registry
from pages.ui.cached import glossary as cached

EXAMPLES = ("W_Q.T @ W_K", "W_Q @ W_K.T", "W_O @ W_V", "W_K @ W_Q.T", "W_E @ W_K.T", "W_E @ W_QK @ W_E.T")
BUILT = {page.slug: page for page in registry.built()}

view = ui.begin("glossary")


def link(slug: str, label: str = "") -> None:
    """Link to the page that shows something, once that page exists."""
    if slug in BUILT and slug != view.page.slug:
        page = BUILT[slug]
        st.page_link(registry.streamlit_page(page), label=label or page.title, icon=":material/arrow_outward:")


def size(column, letter: str, meaning: str, value: int) -> int:
    """Ask for one size; it starts from the model and the prompt in view."""
    key = f"glossary.{letter} {value}"
    return int(column.number_input(f"{letter}, {meaning}", 1, 10**6, value, key=key, persist_state="session"))


control, figure = st.columns([1, 2], gap="medium")
with control:
    first, second = st.columns(2)
    sizes = notation.Sizes(
        d=size(first, "d", "d_model", view.weights.d_model),
        r=size(second, "r", "d_head", view.weights.d_head),
        V=size(first, "V", "tokens", view.weights.d_vocab),
        n=size(second, "n", "positions", len(view.ids)),
    )
    rows = ui.choice("Convention", ("rows, x @ W", "columns, W @ x"), name="convention") == "rows, x @ W"
    convention = "ours" if rows else "paper"
    typed = st.text_input(
        "Is this product allowed?",
        EXAMPLES[0],
        key="glossary.product",
        live="300ms",
        persist_state="session",
        max_chars=200,
        help=f"{', '.join((*notation.MATRICES, *notation.SHORT))}; .T transposes, @ multiplies.",
    )
    st.caption("Try " + ", ".join(map(ui.code, EXAMPLES[1:])) + ".")
with figure:
    ready = ui.predict(
        ui.Prediction(
            "Here W_Q and W_K are both [d, r]. What does W_Q.T @ W_K give?",
            ("An error", "W_QK", "Another matrix"),
            "Another matrix",
            "[r, d] times [d, r] fits, so nothing warns you, and the result is [r, r].",
        )
    )
    with ui.readable_errors():
        product = notation.check(typed, convention, sizes)
        if ready:
            if product.axes is None:
                st.error(ui.md(product.verdict), icon=":material/block:")
            else:
                shape = " × ".join(f"{letter} = {getattr(sizes, letter):,}" for letter in product.axes)
                box, words = (st.warning, "Fails silently, without an error. ") if product.silent else (st.success, "")
                box(f"**[{shape}]** {words}{ui.md(product.verdict)}", icon=":material/grid_on:")
        axes = [(str(factor), ", ".join(notation.axes(factor, convention))) for factor in product.factors]
        st.markdown(" @ ".join(f"{ui.code(name)} [{letters}]" for name, letters in axes))
    table = pd.DataFrame(
        [
            (row.name, row.ours, "{:,} × {:,}".format(*ours), row.paper, "{:,} × {:,}".format(*paper), row.relation)
            for row, ours, paper in notation.shapes(sizes)
        ],
        columns=["object", "here", "shape here", "in the paper", "shape there", "relation"],
    )
    st.dataframe(table, hide_index=True, width="stretch", height=215)
    ui.check(
        "max |ours − the paper's, turned where the table says so|",
        cached.disagreement(view.model_name, view.ids),
        1e-9,
        "over the table, for L0H0 on your prompt",
    )

ui.idea(
    "The paper writes a position as a column and lets matrices act from the left. TransformerLens and this app write "
    "a row and act from the right. Turn a product round and every factor is transposed, and their order with it.\n\n"
    "So one rule converts everything: **QK is the same, OV is transposed.** $W_{QK}$ sits between two positions, query "
    "left and key right, in both worlds. $W_{OV}$ leads from one vector to another, so it turns round.\n\n"
    "Shapes catch some slips and not others. What they cannot catch, the list of common mistakes below computes.",
    r"(x\,W)^\top = W^\top x^\top",
    {"x": "[n, d] here, [d, n] in the paper", "W": "[d, r] here, [r, d] in the paper"},
    paper=r"W_{QK} = W_Q^\top W_K \qquad W_{OV} = W_O W_V",
)

st.markdown("#### Often said, not quite right")
sayings, answer = st.columns([2, 3], gap="medium")
with sayings, st.container(height=430):
    said = {misconception.name: misconception.said for misconception in misconceptions.ALL}
    chosen = st.radio(
        "Often said",
        list(said),
        format_func=lambda name: ui.md(said[name]),
        key="glossary.said",
        persist_state="session",
        label_visibility="collapsed",
    )
with answer, ui.readable_errors():
    misconception = misconceptions.find(chosen)
    st.markdown(f"**Better.** {ui.md(misconception.better)}")
    facts = cached.facts(chosen, view.model_name, view.ids)
    shown = [(label, f"{value:.4g}" if isinstance(value, float) else f"{value}") for label, value in facts]
    st.dataframe(pd.DataFrame(shown, columns=["computed now", "value"]), hide_index=True, width="stretch")
    st.caption(f"Computed by `{view.model_name}`, on your prompt or on random tokens, as the sentence says.")
    link(misconception.page)
    ui.show_code(misconception.demonstrate)

st.markdown("#### Terms")
query = st.text_input(
    "Search",
    key="glossary.search",
    live="300ms",
    persist_state="session",
    max_chars=80,
    placeholder="for example: head, norm, SAE",
    icon=":material/search:",
)
found = glossary.search(query or "")
st.caption(f"{len(found)} of {len(glossary.terms())} terms" if found else f"No term has {ui.code(query)} in it.")
with st.container(height=520):
    for term in found:
        words, more = st.columns([5, 1.6], vertical_alignment="center")
        also = f" :gray[({ui.md(', '.join(term.also))})]" if term.also else ""
        words.markdown(f"**{ui.md(term.name)}**{also} · :gray[{ui.md(term.shape)}]  \n{term.definition}")
        with more:
            link(term.page)

st.markdown("#### Questions")
for question in glossary.questions():
    with st.expander(question.question):
        st.markdown(question.answer)
        link(question.page)

ui.by_hand(
    "two dimensions, one head dimension",
    "$W_Q$ is the column (1, 2), $W_K$ the column (3, 1), so $d = 2$ and $r = 1$.\n\n"
    "$W_Q W_K^\\top$ is 2 × 2: rows (3, 1) and (6, 2). $W_Q^\\top W_K$ is one number: 1 · 3 + 2 · 1 = 5.\n\n"
    "Eigenvalues: 5 and 0 for the first, 5 for the second. Frobenius norms: √(9 + 1 + 36 + 4) = 7.07 and 5. A test on "
    "eigenvalues would let the mistake pass. One on norms would not.",
)
ui.exercises(
    ui.Exercise(
        "W_Q and W_K are stored as [64, 8]. What shape has W_Q.T @ W_K?",
        ui.Sizes((8, 8)),
        ("Transpose first: [8, 64].", "[8, 64] times [64, 8]: the outer sizes stay."),
        "8 × 8, with no error. It is the wrong object: W_QK is [64, 64].",
    ),
    ui.Exercise(
        "Going from the paper to this app, which matrix has to be transposed?",
        ui.Choice(("W_QK", "W_OV", "Both", "Neither"), "W_OV"),
        ("Which of the two maps a vector to a vector?", "W_QK is placed between two positions, query first, in both."),
        "QK is the same, OV is transposed.",
    ),
    ui.Exercise(
        f"In `{view.model_name}`, how many numbers would the full OV circuit of one head have?",
        ui.Number(view.weights.d_vocab**2, relative=0.01),
        ("From source token to output token.", "V × V."),
        "V² entries, of rank r at most. Its two factors have 2 · V · r numbers: that is why no page ever builds it.",
    ),
    ui.Exercise(
        "For square matrices, which of these always holds?",
        ui.Choice(("‖A B‖ = ‖B A‖", "trace(A B) = trace(B A)", "both"), "trace(A B) = trace(B A)"),
        ("Try A = [[0, 1], [0, 0]] and B = [[1, 0], [0, 0]].", "There A B = 0 and B A is not."),
        "Traces and eigenvalues go round the cycle, Frobenius norms do not. The paper's erratum is about this.",
    ),
)
ui.show_code(notation.check, notation.axes, notation.disagreement, glossary.search)
ui.limits(
    "Words are used differently elsewhere: “circuit” most of all. The definitions here are those of this app and, "
    "where it has one, of the 2021 paper."
)
ui.takeaways(
    "Rows here, columns in the paper: QK is the same, OV is transposed.",
    "A product that raises no error can still be the wrong one: check names and norms, not shapes alone.",
    "Many things often said of the paper can be put to a test, and some fail it.",
)
ui.end(view)
