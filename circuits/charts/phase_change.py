"""Figures of training: curves over steps with the present step marked, and accuracy by period."""

from collections.abc import Mapping, Sequence

import altair as alt
import numpy as np
import pandas as pd

from circuits.charts import base

MAX_ROWS = 120
"""Points drawn of a long curve: a chart of many heads must stay small for the browser."""


def thinned(steps: np.ndarray, count: int = MAX_ROWS) -> np.ndarray:
    """Return the indices of at most ``count`` rows, even on the drawn axis (the square root of the step)."""
    wanted = np.linspace(0, np.sqrt(steps[-1]), count) ** 2
    return np.unique(np.abs(steps[None] - wanted[:, None]).argmin(1))


def _step_axis(last: float, root: bool = True) -> alt.X:
    scale = alt.Scale(type="sqrt" if root else "linear", domain=[0, last], nice=False)
    title = "training step (square-root scale)" if root else "training step"
    steps = {"values": [each for each in (0, 1_000, 2_500, 5_000, 10_000, 20_000) if each <= last]} if root else {}
    axis = alt.Axis(grid=False, format=",d", tickCount=6, labelFontSize=10, labelOverlap="greedy", **steps)
    return alt.X("step:Q", title=title, scale=scale, axis=axis)


def over_steps(
    series: Mapping[str, Sequence[float] | np.ndarray],
    steps: Sequence[int],
    at: int,
    *,
    title: str,
    unit: str,
    colours: Sequence[str],
    domain: tuple[float, float] | None = None,
    zero: bool = False,
    height: int = 270,
) -> alt.LayerChart:
    """Draw curves over the steps of one run, a rule at step ``at`` and the value of each curve there."""
    data = pd.DataFrame(
        [(name, step, value) for name, values in series.items() for step, value in zip(steps, values, strict=True)],
        columns=["curve", "step", "value"],
    )
    now = data[data["step"] == at]
    legend = alt.Legend(title=None, orient="top", columns=3, labelLimit=220, **base.STROKES)
    colour = alt.Color("curve:N", scale=alt.Scale(domain=list(series), range=list(colours)), legend=legend)
    scale = alt.Scale(domain=list(domain), nice=False) if domain else alt.Scale(zero=zero)
    y = alt.Y("value:Q", title=unit, scale=scale)
    lines = (
        alt.Chart(data, title=title, height=height)
        .mark_line()
        .encode(
            x=_step_axis(float(max(steps))),
            y=y,
            color=colour,
            strokeDash=alt.StrokeDash("curve:N", scale=alt.Scale(domain=list(series)), legend=legend),
            tooltip=["curve:N", "step:Q", alt.Tooltip("value:Q", title=unit, format=".3f")],
        )
    )
    rule = alt.Chart(pd.DataFrame({"step": [at]})).mark_rule(color=base.DIRECT).encode(x="step:Q")
    points = alt.Chart(now).mark_point(filled=True, size=70, opacity=1).encode(x="step:Q", y="value:Q", color=colour)
    layers = [rule, lines, points]
    return alt.layer(*([_zero_rule()] if zero else []), *layers)


def _zero_rule() -> alt.Chart:
    return alt.Chart(pd.DataFrame({"y": [0.0]})).mark_rule(color=base.DIRECT, strokeDash=[4, 4]).encode(y="y:Q")


def head_scores(
    scores: Mapping[str, np.ndarray],
    heads: Sequence[str],
    steps: np.ndarray,
    at: int,
    *,
    title: str,
    colours: Sequence[str],
    height: int = 300,
) -> alt.LayerChart:
    """Draw every head's scores over the run, one colour a kind; ``scores`` are arrays [row, head]."""
    data = pd.concat(
        pd.DataFrame(values, columns=list(heads), index=pd.Index(steps, name="step"))
        .melt(var_name="head", value_name="value", ignore_index=False)
        .reset_index()
        .assign(kind=kind, line=lambda frame, kind=kind: frame["head"] + kind)
        for kind, values in scores.items()
    )
    kinds = alt.Scale(domain=list(scores), range=list(colours))
    lines = (
        alt.Chart(data, title=title, height=height)
        .mark_line(opacity=0.75)
        .encode(
            x=_step_axis(float(steps[-1])),
            y=alt.Y("value:Q", title="mean attention", scale=alt.Scale(domain=[0, 1.1], nice=False)),
            color=alt.Color("kind:N", scale=kinds, legend=alt.Legend(title=None, orient="top", **base.STROKES)),
            detail="line:N",
            tooltip=["head:N", "kind:N", "step:Q", alt.Tooltip("value:Q", title="mean attention", format=".3f")],
        )
    )
    end = data[(data["step"] == steps[-1]) & (data["value"] > 0.3)].copy()
    end["label"] = base.apart(np.zeros(len(end)), end["value"].to_numpy() + 0.06, step=0.09)
    names = (
        alt.Chart(end)
        .mark_text(align="right", dx=-4, fontWeight="bold")
        .encode(x="step:Q", y="label:Q", text="head:N", color=alt.Color("kind:N", scale=kinds))
    )
    rule = alt.Chart(pd.DataFrame({"step": [at]})).mark_rule(color=base.DIRECT).encode(x="step:Q")
    return alt.layer(rule, lines, names)


def live_curves(
    runs: Mapping[str, tuple[Sequence[int], Sequence[float]]],
    last: int,
    *,
    title: str,
    unit: str,
    domain: tuple[float, float],
    marks: Mapping[str, float],
    height: int = 300,
) -> alt.LayerChart:
    """Draw one curve a run, which may be at different steps; ``marks`` are labelled horizontal rules."""
    data = pd.DataFrame(
        [(name, *point) for name, (steps, values) in runs.items() for point in zip(steps, values, strict=True)],
        columns=["run", "step", "value"],
    )
    names = list(runs)
    legend = alt.Legend(title=None, orient="top", columns=2, labelLimit=260, **base.STROKES)
    colours = alt.Scale(domain=names, range=[base.CYCLE[i % len(base.CYCLE)] for i in range(len(names))])
    lines = (
        alt.Chart(data, title=title, height=height)
        .mark_line(clip=True)
        .encode(
            x=_step_axis(last, root=False),
            y=alt.Y("value:Q", title=unit, scale=alt.Scale(domain=list(domain), nice=False)),
            color=alt.Color("run:N", scale=colours, legend=legend),
            strokeDash=alt.StrokeDash("run:N", scale=alt.Scale(domain=names), legend=legend),
            tooltip=["run:N", "step:Q", alt.Tooltip("value:Q", title=unit, format=".3f")],
        )
    )
    rules = pd.DataFrame({"value": list(marks.values()), "label": list(marks)})
    levels = alt.Chart(rules).encode(y="value:Q")
    text = levels.mark_text(align="right", dx=-4, dy=-6, color=base.DIRECT, x="width").encode(text="label:N")
    return alt.layer(levels.mark_rule(strokeDash=[4, 4], color=base.DIRECT), lines, text)


def accuracy_by_period(
    accuracy: Mapping[int, float], trained: Sequence[int], *, title: str, height: int = 260
) -> alt.Chart:
    """Draw second-copy accuracy at every probed period; trained periods are full bars, the others pale."""
    data = pd.DataFrame({"period": list(accuracy), "value": list(accuracy.values())})
    data["seen"] = ["trained" if period in trained else "never trained" for period in accuracy]
    kinds = alt.Scale(domain=["trained", "never trained"], range=[base.INDUCTION, base.DIRECT])
    return (
        alt.Chart(data, title=title, height=height)
        .mark_bar()
        .encode(
            x=alt.X("period:O", title="period of the repeat", axis=alt.Axis(labelAngle=0)),
            y=alt.Y("value:Q", title="accuracy", scale=alt.Scale(domain=[0, 1])),
            color=alt.Color("seen:N", scale=kinds, legend=alt.Legend(title=None, orient="top")),
            tooltip=["period:O", "seen:N", alt.Tooltip("value:Q", title="accuracy", format=".0%")],
        )
    )
