"""Train one live, on page 09: short slices in the reader's own script run, in turn with other readers.

Nothing runs between two slices.  A reader who closes the tab or goes to another page asks for no further
slice, and his ticket expires; Stop gives it back at once.
"""

from dataclasses import dataclass, field

import streamlit as st
import torch

from circuits import live_training as live
from circuits.charts import base
from circuits.charts import phase_change as charts
from circuits.live_training import LiveRun, Row, Setup
from pages.ui.cached import phase_change as cached
from pages.ui.cached import queue
from pages.ui.controls import choice, slider, toggle
from pages.ui.frame import chart, measure
from pages.ui.live import SLICE, TICK

KEPT = 5
"""Earlier runs whose curves stay for comparison."""


@dataclass
class Bench:
    """One reader's training: the run in hand, a place in the queue while it trains, curves of earlier runs."""

    run: LiveRun | None = None
    ticket: int | None = None
    earlier: dict[Setup, list[Row]] = field(default_factory=dict)

    def begin(self, setup: Setup) -> None:
        """Join the queue with a new run, or with the one in hand where it was stopped."""
        if self.run is None or self.run.setup != setup or self.run.done:
            self.put_away()
            self.run = LiveRun(setup)
        self.ticket = queue().join()

    def stop(self) -> None:
        if self.ticket is not None:
            queue().leave(self.ticket)
            self.ticket = None

    def put_away(self) -> None:
        """Keep the curves of the run in hand and let its weights go."""
        if self.run is not None:
            self.earlier.pop(self.run.setup, None)
            self.earlier[self.run.setup] = self.run.rows
            while len(self.earlier) > KEPT:
                del self.earlier[next(iter(self.earlier))]
        self.run = None

    def forget(self) -> None:
        self.stop()
        self.run = None
        self.earlier.clear()

    def train(self) -> int:
        """Train for one slice if it is this reader's turn; return how many are before him."""
        self.ticket, before = queue().work(self.ticket, self._advance, SLICE)
        return before

    def _advance(self) -> bool:
        self.run.advance(live.MEASURE_EVERY)
        return not self.run.done


def describe(setup: Setup) -> str:
    """Name a setup for a legend: ``1 layer, smeared keys, period 12, seed 3``."""
    layers = "2 layers" if setup.n_layers == 2 else "1 layer"
    smeared = ", smeared keys" if setup.smeared else ""
    period = f", always period {setup.period}" if setup.period else ""
    return f"{layers}{smeared}{period}, seed {setup.seed}"


def live_training() -> None:
    """Draw the switches, and the bench that trains while it is drawn again and again."""
    bench = st.session_state.setdefault("phase_change.bench", Bench())
    st.markdown("#### Train one live")
    st.markdown(
        f"A model of {live.D_MODEL} dimensions and {live.N_HEADS} heads a layer, on random tokens that repeat: "
        f"{live.D_VOCAB - 1} tokens and BOS, {live.ROWS} rows of {live.N_CTX} a step. Only the repeated part counts. "
        "Try *two layers* first; then see what *one layer* can do, and what helps it."
    )
    knobs, figure = st.columns([1, 3], gap="medium")
    with knobs:
        n_layers = 2 if choice("Layers", ["Two", "One"], name="layers") == "Two" else 1
        random = choice("Period", ["Random", "Fixed"], name="periods") == "Random"
        period = None if random else slider("The period", live.TRAINED[0], live.TRAINED[-1], 12, name="period")
        smeared = toggle(
            "Smeared keys",
            name="smeared",
            help="Each key is a mixture of its own and the one before; the share is learnt.",
        )
        seed = slider("Seed", 0, 9, 0, name="seed")
    setup = Setup(n_layers, smeared, period, seed)
    if bench.run is not None and bench.run.setup != setup:
        bench.stop()
        bench.put_away()
    timed = bench.ticket is not None
    with figure:
        st.fragment(run_every=TICK if timed else None)(_bench)(bench, setup, timed)


def _bench(bench: Bench, setup: Setup, timed: bool) -> None:
    if timed != (bench.ticket is not None):  # a click in here began or ended it: only the whole page sets the timer
        st.rerun()
    wide, narrow, _ = st.columns([2, 1, 1], vertical_alignment="center")
    if bench.ticket is not None:
        narrow.button("Stop", icon=":material/stop:", on_click=bench.stop, key="live stop", width="stretch")
        before = bench.train()
        if bench.run.done:
            bench.stop()
            st.rerun()
        words = f"Waiting for a processor: {before} before you" if before else "Training"
        wide.progress(bench.run.step / live.STEPS, f"{words}: step {bench.run.step:,} of {live.STEPS:,}")
    else:
        paused = bench.run is not None and not bench.run.done
        label = f"Go on from step {bench.run.step:,}" if paused else "Train again" if bench.run else "Train"
        icon = ":material/play_arrow:"
        wide.button(label, icon=icon, type="primary", on_click=bench.begin, args=(setup,), key="live go")
        narrow.button("Forget all", on_click=bench.forget, key="live forget", width="stretch", type="tertiary")
    _figures(bench, setup)


def _figures(bench: Bench, setup: Setup) -> None:
    runs = dict(bench.earlier) | ({bench.run.setup: bench.run.rows} if bench.run else {})
    losses = {describe(each): ([row.step for row in rows], [row.loss for row in rows]) for each, rows in runs.items()}
    level = cached.seen_level(setup.period)
    marks = {"knowing nothing: ln V": torch.tensor(live.D_VOCAB).log().item(), "picking some token seen": level}
    chart(
        charts.live_curves(
            losses, live.STEPS, title="Loss on the second copy", unit="nats", domain=(0, 5), marks=marks, height=300
        ),
        "Dashed: what two simple answers cost. A shelf near the lower one, and then a drop, is the phase change.",
        "Curves: loss on the second copy by training step, one a run",
        key="live loss",
    )
    if bench.run is None:
        return
    row, run = bench.run.rows[-1], bench.run
    left, right = st.columns(2)
    with left:
        chart(
            charts.accuracy_by_period(row.accuracy, setup.periods, title=f"Second copy at step {row.step:,}"),
            "Every period is tested, also those never trained.",
            "Bars: second-copy accuracy by period",
            key="live accuracy",
        )
    with right:
        _heads(run, row)
    _verdict(run, row)


def _heads(run: LiveRun, row: Row) -> None:
    """Show the patterns of the best induction head and, in two layers, of the previous-token head below it."""
    patterns = run.patterns()
    best = [("induction", row.induction[-1], base.INDUCTION, -1)]
    if run.setup.n_layers > 1:
        best.insert(0, ("previous-token", row.previous[0], base.PREVIOUS, 0))
    for column, (kind, scores, colour, layer) in zip(st.columns(2), best, strict=False):
        head = max(range(live.N_HEADS), key=scores.__getitem__)
        column.image(base.png(base.tint(patterns[layer, head].numpy(), colour, top=1.0), 220), width="stretch")
        name = f"L{layer % run.setup.n_layers}H{head}"
        column.caption(f"{name}, best {kind} score: {scores[head]:.2f}. Rows: query; columns: key.")


def _verdict(run: LiveRun, row: Row) -> None:
    """Say what this run did, from its numbers."""
    accuracy = row.mean_accuracy(run.setup.periods)
    at = run.learnt_at()
    if at is not None:
        measure(
            "second-copy accuracy, trained periods", f"{accuracy:.0%}", f"above {live.LEARNT:.0%} since step {at:,}"
        )
    elif run.done:
        measure("second-copy accuracy, trained periods", f"{accuracy:.0%}", "not learnt in this run")
    if run.setup.period is not None:
        others = [period for period in live.PROBED if period != run.setup.period]
        worst, best = min(row.accuracy[p] for p in others), max(row.accuracy[p] for p in others)
        measure("at all other periods", f"{row.mean_accuracy(tuple(others)):.0%}", f"from {worst:.0%} to {best:.0%}")
    if share := run.own_share():
        text = ", ".join(f"{own:.2f}" for own in share)
        measure("σ(α), a key's own share, by head", text, "at the start 0.50; the rest is the key before")
