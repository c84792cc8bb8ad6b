"""Training in front of the reader: a progress bar, a stop, one run at a time, results shared.

A training is a generator of progress reports (with ``step`` and ``steps``).  Its last report is kept for all
readers under a plain key, so that the usual settings are trained once a server.  The reader's own last report is
kept in the session, so that "Stop" keeps what there is.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from typing import NamedTuple

import streamlit as st

KEPT = 48
"""Finished trainings that are remembered; the oldest goes first."""

WAIT = 0.3
"""Seconds between looks at whether the processor is free; each is a chance for "Stop" to be heard."""


class Trained(NamedTuple):
    """The last report of a training, and whether it ran to the end."""

    last: object
    finished: bool


@st.cache_resource(show_spinner=False)
def _shared() -> tuple[threading.Lock, OrderedDict]:
    return threading.Lock(), OrderedDict()


def train(name: str, key: Hashable, start: Callable[[], Iterator], words: str = "Training") -> Trained | None:
    """Return the training of ``key``, running it here if nobody has yet; None if it was stopped before any report.

    ``name`` is the place on the page (one training at a time there).  While it runs, the caller's place shows a
    bar and a stop; a moved control ends it too, as every rerun does.
    """
    lock, results = _shared()
    stopped, partial = f"{name} stopped", f"{name} partial"
    if (name, key) in results:
        return Trained(results[name, key], True)
    if st.session_state.get(stopped) == key:
        again, note = st.columns([1, 2], vertical_alignment="center")
        again.button("Train again", key=f"{name} again", on_click=st.session_state.pop, args=(stopped, None))
        mine, last = st.session_state.get(partial, (None, None))
        if mine != key:
            note.caption("Stopped before there was anything to show.")
            return None
        note.caption(f"Stopped at step {last.step:,} of {last.steps:,}.")
        return Trained(last, False)
    place = st.empty()
    with place.container():
        row, button = st.columns([4, 1], vertical_alignment="center")
        bar = row.progress(0.0, f"{words} …")
        button.button("Stop", key=f"{name} stop", on_click=st.session_state.__setitem__, args=(stopped, key))
    while not lock.acquire(timeout=WAIT):
        bar.progress(0.0, "Waiting: another reader's training is running …")
    try:
        # A rerun (Stop, a moved control) is raised inside bar.progress: the lock is given back all the same.
        for now in start() if (name, key) not in results else ():
            st.session_state[partial] = (key, now)
            bar.progress(now.step / now.steps, f"{words}: step {now.step:,} of {now.steps:,}")
            if now.step == now.steps:
                results[name, key] = now
        while len(results) > KEPT:
            results.popitem(last=False)
    finally:
        lock.release()
    place.empty()
    return Trained(results[name, key], True)
