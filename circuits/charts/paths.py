"""Figures of the path expansion."""

from collections.abc import Sequence

import altair as alt
import numpy as np
import pandas as pd

from circuits.charts import base

UNIT = "logit"


def path_board(
    effects: np.ndarray,
    cells: Sequence[tuple[int, int]],
    names: Sequence[str],
    on: Sequence[bool],
    rows: Sequence[str],
    columns: Sequence[str],
    title: str,
) -> alt.Chart:
    """Draw every path as one cell: its row is the layer-0 head it takes, its column the start and the layer-1 head.

    ``cells[path] = (row, column)``; an empty column name is the gap between token and position paths.
    A path that is switched off loses its colour.
    """
    row, column = zip(*cells, strict=True)
    data = pd.DataFrame({"query": row, "key": column, "value": np.asarray(effects, float), "path": names, "on": on})
    top = float(np.abs(effects).max(initial=0.0)) or 1.0
    colour = alt.Color(
        "value:Q",
        scale=alt.Scale(domain=[-top, top], range="diverging"),
        legend=alt.Legend(title=UNIT, gradientLength=100),
    )
    every = alt.Scale(domain=list(range(len(columns))))
    return (
        alt.Chart(data, title=title, height=110 + 19 * len(rows))
        .mark_rect(stroke=base.DIRECT, strokeWidth=0.3)
        .encode(
            x=alt.X("key:O", sort=None, scale=every, axis=base.token_axis(columns, "then, in layer 1", labelAngle=-90)),
            y=base.positions(rows, "first, in layer 0", alt.Y, "query"),
            color=alt.condition("datum.on", colour, alt.value("transparent")),
            tooltip=["path:N", alt.Tooltip("value:Q", title=UNIT, format=".3f"), alt.Tooltip("on:N", title="ticked")],
        )
    )


def next_tokens(names: Sequence[str], whole: np.ndarray, ticked: np.ndarray, title: str) -> alt.LayerChart:
    """Draw next-token probabilities: bars from the ticked terms, a line where the whole model is."""
    data = pd.DataFrame({"row": range(len(names)), "token": list(names), "model": whole, "ticked": ticked})
    top = max(1e-3, float(np.max(whole)), float(np.max(ticked)))
    plain = alt.Chart(data).encode(
        y=alt.Y("row:O", sort=None, axis=base.token_axis(names, "")),
        tooltip=[
            alt.Tooltip("token:N"),
            alt.Tooltip("ticked:Q", title="ticked terms", format=".3f"),
            alt.Tooltip("model:Q", title="whole model", format=".3f"),
        ],
    )
    x = alt.X("ticked:Q", title="probability", scale=alt.Scale(domain=[0, top]), axis=alt.Axis(tickCount=3))
    bars = plain.mark_bar(color=base.OV).encode(x=x)
    lines = plain.mark_tick(thickness=3, color=base.DIRECT).encode(x="model:Q")
    return alt.layer(bars, lines, title=title, height=270)


def term_map(values: np.ndarray, positions: Sequence[str], tokens: Sequence[str], title: str) -> alt.Chart:
    """Draw one term of the sum: a row a position, a column an output token."""
    return base.heatmap(
        values,
        positions,
        tokens,
        title=title,
        unit="logit − row mean",
        diverging=True,
        row_title="position",
        column_title="output token",
    )


def linearity(apart: np.ndarray, mixed: np.ndarray, names: Sequence[str], title: str) -> alt.LayerChart:
    """Draw every logit of the mix against the mix of the logits; a linear map puts all on the diagonal."""
    data = pd.DataFrame({"apart": np.asarray(apart, float), "mixed": np.asarray(mixed, float), "token": list(names)})
    ends = [float(min(np.min(apart), np.min(mixed))), float(max(np.max(apart), np.max(mixed)))]
    scale = alt.Scale(domain=ends, nice=False)
    x = alt.X("apart:Q", title="α f(t₁) + β f(t₂), logit", scale=scale)
    y = alt.Y("mixed:Q", title="f(α t₁ + β t₂), logit", scale=scale)
    points = (
        alt.Chart(data)
        .mark_circle(size=18, color=base.QK, opacity=0.5)
        .encode(
            x=x, y=y, tooltip=["token:N", alt.Tooltip("apart:Q", format=".3f"), alt.Tooltip("mixed:Q", format=".3f")]
        )
    )
    diagonal = alt.Chart(pd.DataFrame({"apart": ends, "mixed": ends})).mark_line(color=base.DIRECT, strokeDash=[4, 4])
    return alt.layer(diagonal.encode(x=x, y=y), points, title=title, height=320)
