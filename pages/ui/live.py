"""Training in front of the reader, on pages 11 and 12: a bar and a stop, while the page stays whole.

A training is a generator of progress reports (with ``step`` and ``steps``).  It belongs to the server, not to the
reader who began it: all who look at the same key look at the same run.  Nobody's script waits for it.  A timer of
the page asks for one short slice after another, in turn with other runs; a run that nobody asks for rests where it
is, and goes on from there when somebody does.  Until it is done the page shows what it had: the reader's last
finished training at this place, or the shipped one.
"""

import itertools
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import streamlit as st

from circuits.training_queue import TrainingQueue
from pages.ui.cached import queue

SLICE, TICK = 0.6, 0.8
"""Seconds of training before bar or curves are drawn again, and between two such slices; page 09 keeps them too."""

KEPT = 128
"""Runs that are remembered on a server; the one that was looked at longest ago goes first."""


class Trained(NamedTuple):
    """What there is to show: the last report of the training of ``key``, and whether it ran to the end.

    ``key`` is not the key that was asked for while that one has nothing to show yet.
    """

    key: Hashable
    last: object
    finished: bool = True


@dataclass
class Run:
    """One training, shared by all who look at it."""

    reports: Iterator
    last: object = None
    ticket: int | None = None
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @property
    def finished(self) -> bool:
        return self.last is not None and self.last.step == self.last.steps

    def advance(self, queue: TrainingQueue) -> int:
        """Train for one slice if it is this run's turn, and return how many runs are before it.

        Where another reader's slice of this same run is under way there is nothing to do.
        """
        if self.finished or not self.lock.acquire(blocking=False):
            return 0
        try:
            self.ticket, before = queue.work(self.ticket, self._next, SLICE)
        finally:
            self.lock.release()
        if self.finished:
            self.rest(queue)
        return before

    def _next(self) -> bool:
        self.last = next(self.reports)
        return not self.finished

    def rest(self, queue: TrainingQueue) -> None:
        """Give the turn to another run; whoever still looks at this one asks for a new place."""
        if self.ticket is not None:
            queue.leave(self.ticket)


@st.cache_resource(show_spinner=False)
def _runs() -> tuple[threading.Lock, OrderedDict[tuple[str, Hashable], Run]]:
    return threading.Lock(), OrderedDict()


def run_of(name: str, key: Hashable, start: Callable[[], Iterator]) -> Run:
    """Return the server's run of ``key`` at ``name``; a new one has not begun."""
    lock, runs = _runs()
    with lock:
        run = runs.setdefault((name, key), Run(start()))  # a generator does nothing until it is asked
        runs.move_to_end((name, key))
        while len(runs) > KEPT:
            runs.popitem(last=False)
    return run


def train(
    name: str, key: Hashable, start: Callable[[], Iterator], shipped: Trained, words: str = "Training"
) -> Trained:
    """Return what is to be shown for ``key``, and see to it that it is trained if it is not the shipped one.

    ``name`` is the place on a page and begins with the page's slug, so that "reset this page" forgets it: one
    training at a time there.  ``shipped`` was trained beforehand; its own key is trained only when asked for.
    The caller's place shows where it came from, or a bar and a stop.
    """
    state, asked, stopped, shown = st.session_state, f"{name}.asked", f"{name}.stopped", f"{name}.shown"
    run = run_of(name, key, start)
    _leave_the_last(f"{name}.run", run)
    now = state.get(shown, shipped)
    if run.finished:
        now = Trained(key, run.last)
        st.caption(f":material/check: Trained on this server, {run.last.steps:,} steps.")
    elif key == shipped.key and state.get(asked) != key:
        now = shipped
        st.caption("Trained beforehand, by the same code.")
        st.button("Train it here", icon=":material/play_arrow:", key=f"{name}.go", on_click=_ask, args=(name, key))
    elif state.get(stopped) == key:
        if run.last is not None:
            now = Trained(key, run.last, False)
        step = "before its first report" if run.last is None else f"at step {run.last.step:,} of {run.last.steps:,}"
        st.caption(f"Stopped {step}.")
        st.button("Go on", icon=":material/play_arrow:", key=f"{name}.go", on_click=_ask, args=(name, key))
    else:
        st.fragment(run_every=TICK)(_watch)(name, key, run, words, itertools.count())
    if now.finished:
        state[shown] = now
    return now


def earlier(trained: Trained, key: Hashable, words: str) -> None:
    """Say above a figure that it shows an earlier training, described by ``words``, and not yet that of ``key``."""
    if trained.key != key:
        st.markdown(f":orange-badge[:material/history: Still shown] {words}, until yours is trained.")


def _ask(name: str, key: Hashable) -> None:
    st.session_state[f"{name}.asked"] = key
    st.session_state.pop(f"{name}.stopped", None)


def _leave_the_last(name: str, run: Run) -> None:
    """Let the run rest that this reader looked at before he moved a control: it must not keep his next one waiting."""
    last = st.session_state.get(name)
    if last is not None and last is not run:
        last.rest(queue())
    st.session_state[name] = run


def _watch(name: str, key: Hashable, run: Run, words: str, calls: Iterator[int]) -> None:
    """Draw bar and stop; ask for a slice each time but the first, which leaves the page to be drawn."""
    stopped = f"{name}.stopped"
    if st.session_state.get(stopped) == key:  # pressed in here: the timer is the whole page's to end
        run.rest(queue())
        st.rerun()
    bar = st.empty()
    _bar(bar, run, words)
    press = st.session_state.__setitem__
    st.button("Stop", icon=":material/stop:", key=f"{name}.stop", on_click=press, args=(stopped, key))
    if next(calls) == 0:
        return
    before = run.advance(queue())
    if run.finished:
        st.rerun()
    _bar(bar, run, f"Waiting: {before} before you" if before else words)


def _bar(place, run: Run, words: str) -> None:
    done, text = (0.0, " …") if run.last is None else (run.last.step / run.last.steps, f": step {run.last.step:,}")
    place.progress(done, words + text)
