"""Shared marks: token axes, heat maps, bars, curves, and one colour per role.

Axes over tokens are *integer positions*; the label is looked up when it is drawn, so equal tokens stay
apart and in order.  Scales name a range (``heatmap``, ``diverging``) and leave its colours to the theme,
so that one specification serves light and dark.
"""

import json
from collections.abc import Sequence

import altair as alt
import numpy as np
import pandas as pd

from circuits.charts.colours import CYCLE, DIRECT, INDUCTION, OV, POSITION, PREVIOUS, QK, REMOVED, ROLES
from circuits.charts.pictures import png, tint

__all__ = [
    "CYCLE",
    "DIRECT",
    "INDUCTION",
    "OV",
    "POSITION",
    "PREVIOUS",
    "QK",
    "REMOVED",
    "ROLES",
    "bars",
    "curves",
    "grid_frame",
    "heatmap",
    "paired_bars",
    "png",
    "positions",
    "tint",
    "token_axis",
]

MAX_RECTS = 64 * 64
"""Above this many cells a heat map is drawn as one picture: rectangles would keep the browser busy for a second."""


def token_axis(labels: Sequence[str], title: str, **options) -> alt.Axis:
    """Return an axis over integer positions that shows ``labels``; long prompts drop labels, never merge them."""
    return alt.Axis(
        title=title,
        labelExpr=_label_at(labels),
        labelFont="monospace",
        labelOverlap=True,
        labelFlush=False,
        labelLimit=110,
        ticks=False,
        grid=False,
        domain=False,
        **options,
    )


def _label_at(labels: Sequence[str]) -> str:
    """Return Vega's expression for the label of an integer position.

    One string, taken apart again: Vega gives up on an expression that holds a word of its own, such as "if", as a
    string of its own.
    """
    return f"split({json.dumps(SEPARATOR.join(['', *labels]))}, {json.dumps(SEPARATOR)})[datum.value + 1]"


SEPARATOR = "\x1f"
"""In no label: tokens show control characters as visible signs."""

AXIS_AND_TITLE = 110
"""Pixels of a bar chart's height that are not bars."""


def bar_axis(names: Sequence[str], height: int) -> alt.Axis:
    """Return the axis of a list of bars: every bar is named, unless a name would cover the next."""
    axis = token_axis(names, "")
    axis["labelOverlap"] = (height - AXIS_AND_TITLE) / max(1, len(names)) < 12
    return axis


def apart(x: np.ndarray, y: np.ndarray, width: float = 0.35, step: float = 0.15) -> list[float]:
    """Return heights for labels at ``x``, near ``y``, that do not lie on one another."""
    placed: list[tuple[float, float]] = []
    heights = np.zeros(len(y))
    for index in np.argsort(-np.asarray(y)):
        at = float(y[index])
        while near := [h for other, h in placed if abs(x[index] - other) < width and abs(at - h) < step - 1e-9]:
            at = min(near) - step
        placed.append((float(x[index]), at))
        heights[index] = at
    return heights.tolist()


def positions(labels: Sequence[str], title: str, channel: type = alt.Y, field: str = "query", **axis):
    """Return an ordinal encoding of integer positions labelled by tokens."""
    return channel(f"{field}:O", sort=None, axis=token_axis(labels, title, **axis))


def grid_frame(values: np.ndarray, rows: Sequence[str], columns: Sequence[str]) -> pd.DataFrame:
    """Return a matrix as a long table: ``query, key, value, query_token, key_token``."""
    row, column = np.indices(values.shape)
    return pd.DataFrame(
        {
            "query": row.ravel(),
            "key": column.ravel(),
            "value": np.asarray(values, dtype=float).ravel(),
            "query_token": np.asarray(rows, dtype=object)[row.ravel()],
            "key_token": np.asarray(columns, dtype=object)[column.ravel()],
        }
    )


def heatmap(
    values: np.ndarray,
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    title: str,
    unit: str,
    diverging: bool = False,
    limit: float | None = None,
    row_title: str = "query (destination)",
    column_title: str = "key (source)",
    causal: bool = False,
    height: int = 380,
) -> alt.Chart:
    """Draw a matrix: rows are destinations, columns sources; ``unit`` is written on the colour legend.

    Sequential from zero, or centred on zero when ``diverging``; ``limit`` fixes the end of the scale.
    ``causal`` leaves the cells above the diagonal empty (they are no zeros: they do not exist).
    """
    values = np.asarray(values, dtype=float)
    top = limit or float(np.nanmax(np.abs(values), initial=0.0)) or 1.0
    if values.size > MAX_RECTS:
        return _picture(values, rows, columns, title, unit, diverging, top, row_title, column_title, height)
    data = grid_frame(values, rows, columns)
    if causal:
        data = data[data["key"] <= data["query"]]
    domain, colours = ([-top, top], "diverging") if diverging else ([0, top], "heatmap")
    legend = alt.Legend(title=unit, gradientLength=min(160, height - 60))
    return (
        alt.Chart(data, title=title, height=height)
        .mark_rect()
        .encode(
            x=positions(columns, column_title, alt.X, "key", labelAngle=-60),
            y=positions(rows, row_title, alt.Y, "query"),
            color=alt.Color("value:Q", scale=alt.Scale(domain=domain, range=colours), legend=legend),
            tooltip=_cell_tooltip(row_title, column_title, unit),
        )
    )


def _cell_tooltip(row_title: str, column_title: str, unit: str) -> list[alt.Tooltip]:
    return [
        alt.Tooltip("query_token:N", title=row_title),
        alt.Tooltip("query:Q", title="row"),
        alt.Tooltip("key_token:N", title=column_title),
        alt.Tooltip("key:Q", title="column"),
        alt.Tooltip("value:Q", title=unit, format=".3f"),
    ]


def _picture(values, rows, columns, title, unit, diverging, top, row_title, column_title, height) -> alt.Chart:
    """Draw a large matrix as one image under ordinary token axes."""
    n, m = values.shape
    pixels = tint(values, OV if diverging else QK, QK if diverging else None, top)
    frame = pd.DataFrame({"x": [-0.5], "x2": [m - 0.5], "y": [-0.5], "y2": [n - 0.5], "url": [png(pixels, 512)]})
    ticks_x, ticks_y = (list(range(0, size, max(1, size // 24))) for size in (m, n))
    x = alt.X(
        "x:Q",
        scale=alt.Scale(domain=[-0.5, m - 0.5], nice=False),
        axis=token_axis(columns, column_title, values=ticks_x, labelAngle=-60),
    )
    y = alt.Y(
        "y:Q",
        scale=alt.Scale(domain=[n - 0.5, -0.5], nice=False),
        axis=token_axis(rows, row_title, values=ticks_y),
    )
    subtitle = f"{unit}, full colour = {top:.3g}" + (" (orange above zero, blue below)" if diverging else "")
    return (
        alt.Chart(frame, title=alt.Title(title, subtitle=subtitle, subtitleColor=DIRECT), height=height)
        .mark_image(aspect=False)
        .encode(x=x, x2="x2:Q", y=y, y2="y2:Q", url="url:N")
    )


def bars(
    names: Sequence[str],
    values: Sequence[float] | np.ndarray,
    *,
    title: str,
    unit: str,
    colours: Sequence[str] | None = None,
    faded: Sequence[bool] | None = None,
    height: int | None = None,
    limit: tuple[float, float] | None = None,
) -> alt.Chart:
    """Draw horizontal bars in the order given; names may repeat.  ``faded`` bars are drawn as switched off."""
    count = len(names)
    data = pd.DataFrame(
        {
            "row": range(count),
            "name": list(names),
            "value": np.asarray(values, dtype=float),
            "colour": list(colours) if colours is not None else [QK] * count,
            "opacity": [0.25 if off else 1.0 for off in (faded if faded is not None else [False] * count)],
        }
    )
    scale = alt.Scale(domain=list(limit)) if limit else alt.Undefined
    height = height or max(120, AXIS_AND_TITLE + 20 * count)
    return (
        alt.Chart(data, title=title, height=height)
        .mark_bar()
        .encode(
            x=alt.X("value:Q", title=unit, scale=scale),
            y=alt.Y("row:O", sort=None, axis=bar_axis(names, height)),
            color=alt.Color("colour:N", scale=None),
            opacity=alt.Opacity("opacity:Q", scale=None),
            tooltip=[alt.Tooltip("name:N", title="name"), alt.Tooltip("value:Q", title=unit, format=".4f")],
        )
    )


def paired_bars(
    names: Sequence[str],
    series: dict[str, Sequence[float] | np.ndarray],
    *,
    title: str,
    unit: str,
    colours: Sequence[str],
    height: int = 220,
) -> alt.Chart:
    """Draw two bars a row, one a series; rows keep their order and may share a name."""
    data = pd.DataFrame(
        [
            (row, name, label, value)
            for label, values in series.items()
            for row, (name, value) in enumerate(zip(names, values, strict=True))
        ],
        columns=["row", "name", "series", "value"],
    )
    domain = list(series)
    palette = list(colours) if colours else list(CYCLE[: len(domain)])
    return (
        alt.Chart(data, title=title, height=height)
        .mark_bar()
        .encode(
            x=alt.X("value:Q", title=unit),
            y=alt.Y("row:O", sort=None, axis=bar_axis(names, height)),
            yOffset=alt.YOffset("series:N", sort=domain),
            color=alt.Color("series:N", scale=alt.Scale(domain=domain, range=palette), legend=_above()),
            tooltip=["name:N", "series:N", alt.Tooltip("value:Q", title=unit, format=".4f")],
        )
    )


def curves(
    series: dict[str, Sequence[float] | np.ndarray],
    x: Sequence[float | int],
    *,
    title: str,
    x_title: str,
    y_title: str,
    colours: dict[str, str] | None = None,
    x_labels: Sequence[str] | None = None,
    marks: dict[str, float] | None = None,
    height: int = 260,
    log_x: bool = False,
) -> alt.LayerChart:
    """Draw one line per named series over a shared ``x``; ``marks`` are labelled horizontal rules.

    ``x_labels`` (tokens) replace the numbers of an integer ``x`` that counts from 0.
    """
    data = pd.DataFrame(
        [(name, at, value) for name, values in series.items() for at, value in zip(x, values, strict=True)],
        columns=["series", "x", "value"],
    )
    axis = (
        token_axis(x_labels, x_title, labelAngle=-60) if x_labels is not None else alt.Axis(title=x_title, grid=False)
    )
    lines = (
        alt.Chart(data)
        .mark_line(point=len(data) <= 400)
        .encode(
            x=alt.X("x:Q", axis=axis, scale=alt.Scale(type="log") if log_x else alt.Scale(nice=False)),
            y=alt.Y("value:Q", title=y_title),
            color=alt.Color("series:N", scale=_palette(list(series), colours or {}), legend=_above(**STROKES)),
            strokeDash=alt.StrokeDash("series:N", scale=alt.Scale(domain=list(series)), legend=_above(**STROKES)),
            tooltip=[
                "series:N",
                alt.Tooltip("x:Q", title=x_title),
                alt.Tooltip("value:Q", title=y_title, format=".4f"),
            ],
        )
    )
    return alt.layer(lines, *_rules(marks or {})).properties(title=title, height=height)


def _palette(names: list[str], colours: dict[str, str]) -> alt.Scale:
    """Return a fixed colour for every series: the one asked for, its role's, or the next of the cycle."""
    palette = [colours.get(name) or ROLES.get(name) or CYCLE[i % len(CYCLE)] for i, name in enumerate(names)]
    return alt.Scale(domain=names, range=palette)


STROKES = {"symbolType": "stroke", "symbolSize": 300, "symbolStrokeWidth": 2}
"""A legend that shows lines as lines, dashes and all."""


def _above(**options) -> alt.Legend:
    return alt.Legend(title=None, orient="top", labelLimit=300, **options)


def _rules(marks: dict[str, float]) -> list[alt.Chart]:
    """Return dashed horizontal rules with their names written on them."""
    if not marks:
        return []
    base = alt.Chart(pd.DataFrame({"y": list(marks.values()), "label": list(marks)})).encode(y="y:Q")
    rule = base.mark_rule(strokeDash=[4, 4], color=DIRECT)
    return [rule, base.mark_text(align="left", dx=4, dy=-6, color=DIRECT, x=0).encode(text="label:N")]
