"""A slider over the shipped moments of a training run, and a button that walks through them."""

from collections.abc import Sequence

import streamlit as st

from pages.ui.controls import key, select_slider

SECONDS_A_MOMENT = 1.2


def moment_of(steps: Sequence[int], default: int) -> int:
    """Return the chosen step; while playing, the page runs again for every moment and stops at the last."""
    slider, playing = key("step"), key("playing")
    if (target := st.session_state.pop("_next_moment", None)) is not None:
        st.session_state[slider] = target
    step = select_slider("Training step", steps, default, name="step", format_func=lambda step: f"{step:,}")
    if step == steps[-1]:
        st.session_state[playing] = False
    on = st.session_state.get(playing, False)
    st.button(
        "Pause" if on else "Play",
        icon=":material/pause:" if on else ":material/play_arrow:",
        on_click=_press,
        args=(steps, step),
        width="stretch",
        key=f"play {slider}",
    )
    if on:
        # The whole page draws a moment; the timer's own rerun, which comes after it, asks for the next.
        st.session_state["_moment_drawn"] = False
        st.fragment(run_every=SECONDS_A_MOMENT)(_tick)(steps, step)
    return step


def _press(steps: Sequence[int], step: int) -> None:
    """Start or stop; from the last moment, start over."""
    st.session_state[key("playing")] = not st.session_state.get(key("playing"), False)
    if st.session_state[key("playing")] and step == steps[-1]:
        st.session_state["_next_moment"] = steps[0]


def _tick(steps: Sequence[int], step: int) -> None:
    if not st.session_state["_moment_drawn"]:
        st.session_state["_moment_drawn"] = True
        return
    st.session_state["_next_moment"] = steps[min(steps.index(step) + 1, len(steps) - 1)]
    st.rerun()
