"""The tick boxes of page 05: which terms of the sum are switched off, kept for the session and in the URL."""

from collections.abc import Iterable, Sequence

import pandas as pd
import streamlit as st

from circuits.paths import Path

KEY = "path_expansion.off"
ORDER_NAMES = ("Direct path", "One head", "Two heads in a row")


def code(path: Path) -> str:
    """Return a path as it stands in the URL: ``t-0.3-1.5`` starts at the token and takes L0H3 and L1H5."""
    return "-".join([path.source[0], *(f"{head.layer}.{head.head}" for head in path.heads)])


def off() -> set[str]:
    """Return the codes of the terms that are switched off."""
    if KEY not in st.session_state:
        st.session_state[KEY] = set(filter(None, st.query_params.get(KEY, "").split(" ")))
    return st.session_state[KEY]


def switch(paths: Iterable[Path], on: Iterable[bool]) -> None:
    """Switch the given terms on or off."""
    for path, ticked in zip(paths, on, strict=True):
        (off().discard if ticked else off().add)(code(path))
    if off():
        st.query_params[KEY] = " ".join(sorted(off()))
    else:
        st.query_params.pop(KEY, None)


def switch_order(paths: Sequence[Path], on: Sequence[bool], order: int) -> None:
    """Switch a whole group, and begin its table afresh so that no edit of before is applied again."""
    switch(paths, on)
    st.session_state[f"{KEY} fresh {order}"] = st.session_state.get(f"{KEY} fresh {order}", 0) + 1


def _edited(key: str, paths: Sequence[Path]) -> None:
    rows = st.session_state[key]["edited_rows"]
    switch([paths[row] for row in rows], [change.get("on", True) for change in rows.values()])


def table(order: int, paths: Sequence[Path], effects: Sequence[float], norms: Sequence[float]) -> None:
    """Show one order's terms as rows that can be ticked; the largest five may be kept with one click."""
    every, none, strongest, _ = st.columns([1, 1, 2, 4])
    every.button("All on", key=f"{KEY} all {order}", on_click=switch_order, args=(paths, [True] * len(paths), order))
    none.button("All off", key=f"{KEY} none {order}", on_click=switch_order, args=(paths, [False] * len(paths), order))
    bound = sorted(map(abs, effects), reverse=True)[:5][-1]
    keep = [abs(effect) >= bound for effect in effects]
    strongest.button(
        "Only the five largest", key=f"{KEY} top {order}", on_click=switch_order, args=(paths, keep, order)
    )
    key = f"{KEY} rows {order} {st.session_state.get(f'{KEY} fresh {order}', 0)}"
    st.data_editor(
        pd.DataFrame(
            {
                "on": [code(path) not in off() for path in paths],
                "path": list(map(str, paths)),
                "effect": effects,
                "norm": norms,
            }
        ),
        column_config={
            "on": st.column_config.CheckboxColumn("On", width="small"),
            "path": st.column_config.TextColumn("Path"),
            "effect": st.column_config.NumberColumn("Effect on the logit", format="%.3f"),
            "norm": st.column_config.NumberColumn("Length in the stream", format="%.3f"),
        },
        disabled=["path", "effect", "norm"],
        hide_index=True,
        height=min(400, 38 + 35 * len(paths)),
        key=key,
        on_change=_edited,
        args=(key, paths),
    )
