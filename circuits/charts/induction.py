"""Figures of induction: the stripe, losses along a text, who is what, the terms of the scores, the corner."""

from collections.abc import Sequence

import altair as alt
import numpy as np
import pandas as pd

from circuits.charts import base
from circuits.charts.heads import without_legend


def stripe(
    pattern: np.ndarray, targets: np.ndarray, labels: Sequence[str], *, title: str, height: int = 280
) -> alt.LayerChart:
    """Draw a pattern and outline the cells where an induction head would look."""
    heat = base.heatmap(pattern, labels, labels, title=title, unit="attention", limit=1.0, causal=True, height=height)
    heat = without_legend(heat)  # the caption says the scale; the picture needs the room
    rows, columns = np.nonzero(targets)
    cells = pd.DataFrame({"query": rows, "key": columns})
    # Large patterns are one picture on a continuous axis; there a cell reaches half a step to each side.
    if pattern.size > base.MAX_RECTS:
        cells = cells.assign(x=columns - 0.5, x2=columns + 0.5, y=rows - 0.5, y2=rows + 0.5)
        place = {"x": "x:Q", "x2": "x2:Q", "y": "y:Q", "y2": "y2:Q"}
    else:
        place = {"x": "key:O", "y": "query:O"}
    outline = alt.Chart(cells).mark_rect(filled=False, stroke=base.INDUCTION, strokeWidth=1.5, fillOpacity=0)
    return heat + outline.encode(**place)


def losses(
    series: dict[str, np.ndarray],
    colours: dict[str, str],
    *,
    title: str,
    labels: Sequence[str] | None = None,
    repeats_from: int | None = None,
    height: int = 280,
) -> alt.LayerChart:
    """Draw the loss of every predicted token, by position or under its label.

    A rule marks where the first token comes that copying predicts.
    """
    n = 1 + len(next(iter(series.values())))
    figure = base.curves(
        {name: loss.tolist() for name, loss in series.items()},
        np.arange(1.0, n).tolist(),
        title=title,
        x_title="" if labels else "position of the predicted token",
        y_title="loss (nats)",
        colours=colours,
        x_labels=labels,
        height=height,
    )
    if repeats_from is None:
        return figure
    start = pd.DataFrame({"x": [repeats_from], "text": ["repeats from here"]})
    rule = alt.Chart(start).encode(x="x:Q")
    return (
        figure
        + rule.mark_rule(color=base.INDUCTION, strokeDash=[2, 3])
        + rule.mark_text(color=base.INDUCTION, align="left", dx=4, y=6).encode(text="text:N")
    )


DETECTORS = {"previous": base.PREVIOUS, "duplicate": base.QK, "induction": base.INDUCTION}
"""One colour a detector."""


def scoreboard(scores: dict[str, np.ndarray], heads: Sequence[str], *, title: str) -> alt.LayerChart:
    """Draw each detector's score of every head in the detector's colour, with its number where it is not near zero."""
    data = base.grid_frame(np.stack(list(scores.values())), list(scores), heads)
    data["colour"] = [DETECTORS[name] for name in data["query_token"]]
    data["ink"] = np.where(data["value"] > 0.5, "white", base.DIRECT)  # white on a full cell, in either theme
    cells = alt.Chart(data, title=title, height=180).encode(
        x=base.positions(heads, "", alt.X, "key", labelAngle=-60),
        y=base.positions(list(scores), "", alt.Y, "query"),
        tooltip=["key_token:N", "query_token:N", alt.Tooltip("value:Q", title="attention", format=".3f")],
    )
    opacity = alt.Opacity("value:Q", scale=alt.Scale(domain=[0, 1], range=[0.05, 1]), legend=None)
    numbers = cells.mark_text(fontWeight="bold").encode(
        text=alt.Text("value:Q", format=".2f"), color=alt.Color("ink:N", scale=None)
    )
    return cells.mark_rect().encode(
        color=alt.Color("colour:N", scale=None), opacity=opacity
    ) + numbers.transform_filter("datum.value >= 0.1")


def component_table(
    values: np.ndarray, names: Sequence[str], *, title: str, unit: str, diverging: bool
) -> alt.LayerChart:
    """Draw the table (what wrote the query) × (what wrote the key); a click gives ``query``, ``key``."""
    heat = base.heatmap(
        values,
        names,
        names,
        title=title,
        unit=unit,
        diverging=diverging,
        row_title="wrote the query",
        column_title="wrote the key",
        height=370,
    )
    row, column = np.unravel_index(np.argmax(values), values.shape)
    brightest = pd.DataFrame({"query": [row], "key": [column]})
    frame = alt.Chart(brightest).mark_rect(filled=False, stroke=base.INDUCTION, strokeWidth=3)
    click = alt.selection_point(name="term", fields=["query", "key"], toggle=False)
    return heat.add_params(click) + frame.encode(x="key:O", y="query:O")


def corner(
    heads: Sequence[str],
    matching: np.ndarray,
    copying: np.ndarray,
    detected: Sequence[bool],
    bands: tuple[tuple[float, float], tuple[float, float]],
    *,
    title: str,
    height: int = 330,
) -> alt.LayerChart:
    """Draw heads at (matching, copying) eigenvalue scores; ``bands`` are the ±2 sd of chance on either axis.

    Violet triangles are heads that the behaviour detects as induction heads, grey discs the others.
    """
    colours = [base.INDUCTION if found else base.DIRECT for found in detected]
    shapes = ["triangle-up" if found else "circle" for found in detected]
    data = pd.DataFrame(
        {"head": heads, "matching": matching, "copying": copying, "colour": colours, "shape": shapes}
        | {"label": base.apart(matching, copying)}
    )
    (x0, x1), (y0, y1) = bands
    scale = alt.Scale(domain=[-1.15, 1.15], nice=False)
    chance = alt.Chart(pd.DataFrame({"x0": [x0], "x1": [x1], "y0": [y0], "y1": [y1]}), title=title, height=height)
    shade = {"color": base.DIRECT, "opacity": 0.18}
    heads_at = alt.Chart(data).encode(
        x=alt.X("matching:Q", title="matching (eigenvalues of the K-term)", scale=scale),
        color=alt.Color("colour:N", scale=None),
        tooltip=["head", alt.Tooltip("matching:Q", format=".3f"), alt.Tooltip("copying:Q", format=".3f")],
    )
    return alt.layer(
        chance.mark_rect(**shade).encode(x=alt.X("x0:Q", scale=scale), x2="x1:Q"),
        chance.mark_rect(**shade).encode(y=alt.Y("y0:Q", scale=scale), y2="y1:Q"),
        heads_at.mark_point(filled=True, size=110).encode(
            y=alt.Y("copying:Q", title="copying (eigenvalue score of OV)", scale=scale),
            shape=alt.Shape("shape:N", scale=None),
        ),
        heads_at.mark_text(align="right", dx=-10, fontWeight="bold").encode(y="label:Q", text="head:N"),
    )
