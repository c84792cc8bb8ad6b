"""Two benches with matrices small enough to edit: a head of 2 × 2 tables, and an eigenvalue score that misleads."""

import pandas as pd
import streamlit as st
import torch
from transformer_lens import FactoredMatrix

from circuits import copying, hand_head
from pages.ui.controls import key
from pages.ui.frame import measure, readable_errors

NUMBER = st.column_config.NumberColumn(min_value=-1e6, max_value=1e6)
"""A cell of a matrix to edit; products of larger ones would leave the range of numbers."""


def _editor(column, title: str, note: str, start: list[list[float]], names: list[str]) -> torch.Tensor:
    column.caption(f"**{title}** {note}")
    frame = pd.DataFrame(start, index=names, columns=names)
    edited = column.data_editor(frame, key=key(title), width="stretch", column_config=dict.fromkeys(names, NUMBER))
    return torch.tensor(edited.fillna(0).to_numpy(float))


def head_bench() -> None:
    """Let the reader edit W_QK and W_OV of a head over two words, and see its attention and output."""
    st.markdown("#### A head small enough to follow by hand")
    one, two, three, four = st.columns([0.8, 0.9, 0.9, 2], gap="medium")
    text = one.text_input("A text of a and b", "aba", key=key("hand"), max_chars=8)
    one.caption("a = (1, 0) and b = (0, 1), so both matrices are tables over words. No √d_head.")
    words = list(hand_head.WORDS)
    W_QK = _editor(two, "W_QK:", "rows look, columns are looked at.", [[0.0, 1.1], [0.0, 0.0]], words)
    W_OV = _editor(three, "W_OV:", "rows are looked at, columns come out.", [[1.0, 0.0], [0.0, 2.0]], words)
    with four, readable_errors():
        hand = hand_head.hand_head(text, W_QK, W_OV)
        rows = [f"{position} {letter}" for position, letter in enumerate(text)]
        steps = pd.DataFrame(hand.pattern.numpy(), index=rows, columns=[f"A on {row}" for row in rows])
        steps["out a"], steps["out b"] = hand.out.numpy().T
        st.dataframe(steps.round(3), width="stretch")
        st.caption("Each row: the attention of one word, then what the head adds there.")


def counter_example() -> None:
    """Let the reader edit a 2 × 2 circuit whose eigenvalues say *copying* while its diagonal does not."""
    left, right = st.columns([1, 2], gap="medium")
    names = ["token 1", "token 2"]
    M = _editor(left, "Circuit:", "rows are sources, columns outs.", [[3.0, 4.0], [-1.0, -1.0]], names)
    eigenvalues = torch.linalg.eigvals(M)
    with right:
        real = eigenvalues.imag.abs().max() < 1e-6
        measure("eigenvalues", ", ".join(f"{v.real:.3f}" if real else f"{v:.3f}" for v in eigenvalues.tolist()))
        measure("copying score", f"{copying.copying_score(eigenvalues).item():+.3f}")
        raised = copying.self_counts(FactoredMatrix(M, torch.eye(2, dtype=M.dtype))).positive
        measure("tokens that raise themselves", f"{raised:.0%}")
        st.markdown(
            "With [[3, 4], [−1, −1]] both eigenvalues are 1: a perfect score. And yet token 2 lowers itself, for the "
            "diagonal is 3 and −1. Eigenvalues only fix the diagonal's *sum*."
        )
