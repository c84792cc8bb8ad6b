"""Shared marks: token axes, heat maps, bars, curves, and one colour per role.

Axes over tokens are *integer positions*; the label is looked up when it is drawn, so equal tokens stay
apart and in order.  Scales name a range (``heatmap``, ``diverging``) and leave its colours to the theme,
so that one specification serves light and dark.
"""

import base64
import io
import json
from collections.abc import Sequence

import altair as alt
import numpy as np
import pandas as pd
from PIL import Image

DIRECT, QK, OV, PREVIOUS, INDUCTION, POSITION, REMOVED = (
    "#7a8493",
    "#2f7fc1",
    "#d97b0f",
    "#0f9e8a",
    "#8a5cd1",
    "#5a9e3a",
    "#d04437",
)
"""One colour per role on every page: direct path, where, what, the two heads of induction, positions, errors."""

ROLES = {
    "direct path": DIRECT,
    "token": DIRECT,
    "position": POSITION,
    "QK": QK,
    "OV": OV,
    "previous-token head": PREVIOUS,
    "induction head": INDUCTION,
    "removed": REMOVED,
}

MAX_RECTS = 64 * 64
"""Above this many cells a heat map is drawn as one picture: rectangles would keep the browser busy for a second."""


def token_axis(labels: Sequence[str], title: str, **options) -> alt.Axis:
    """Return an axis over integer positions that shows ``labels``; long prompts drop labels, never merge them."""
    return alt.Axis(
        title=title,
        labelExpr=f"{json.dumps(list(labels))}[datum.value]",
        labelFont="monospace",
        labelOverlap=True,
        labelLimit=110,
        ticks=False,
        grid=False,
        domain=False,
        **options,
    )


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
    scale = (
        alt.Scale(domain=[-top, top], range="diverging") if diverging else alt.Scale(domain=[0, top], range="heatmap")
    )
    return (
        alt.Chart(data, title=title, height=height)
        .mark_rect()
        .encode(
            x=positions(columns, column_title, alt.X, "key", labelAngle=-60),
            y=positions(rows, row_title, alt.Y, "query"),
            color=alt.Color(
                "value:Q", scale=scale, legend=alt.Legend(title=unit, gradientLength=min(160, height - 60))
            ),
            tooltip=[
                alt.Tooltip("query_token:N", title=row_title),
                alt.Tooltip("query:Q", title="row"),
                alt.Tooltip("key_token:N", title=column_title),
                alt.Tooltip("key:Q", title="column"),
                alt.Tooltip("value:Q", title=unit, format=".3f"),
            ],
        )
    )


def tint(values: np.ndarray, colour: str = QK, negative: str | None = None, top: float | None = None) -> np.ndarray:
    """Return a matrix as RGBA: one colour whose opacity is the value, so that zero is the page itself.

    With ``negative`` set, values below zero take that colour.  For pictures (``st.image``) in both themes.
    """
    values = np.asarray(values, dtype=float)
    top = top or float(np.nanmax(np.abs(values), initial=0.0)) or 1.0
    rgba = np.zeros((*values.shape, 4), dtype=np.uint8)
    rgba[..., :3] = _rgb(colour)
    if negative:
        rgba[values < 0, :3] = _rgb(negative)
    rgba[..., 3] = (np.clip(np.nan_to_num(np.abs(values)) / top, 0, 1) * 255).round()
    return rgba


def _rgb(colour: str) -> tuple[int, int, int]:
    return tuple(bytes.fromhex(colour[1:]))


def png(pixels: np.ndarray, size: int | None = None) -> str:
    """Return an RGBA array as a PNG data address, enlarged without smoothing to at least ``size`` pixels."""
    image = Image.fromarray(pixels, "RGBA")
    if size:
        factor = max(1, -(-size // max(image.size)))
        image = image.resize((image.width * factor, image.height * factor), Image.Resampling.NEAREST)
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()


def _picture(values, rows, columns, title, unit, diverging, top, row_title, column_title, height) -> alt.LayerChart:
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
    subtitle = f"{unit}, darkest = {top:.3g}" + (" (orange above zero, blue below)" if diverging else "")
    return (
        alt.Chart(frame, title=alt.Title(title, subtitle=subtitle), height=height)
        .mark_image(aspect=False)
        .encode(x=x, x2="x2:Q", y=y, y2="y2:Q", url="url:N")
    )


def bars(
    names: Sequence[str],
    values: Sequence[float],
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
    return (
        alt.Chart(data, title=title, height=height or max(120, 20 * count))
        .mark_bar()
        .encode(
            x=alt.X("value:Q", title=unit, scale=scale),
            y=alt.Y("row:O", sort=None, axis=token_axis(names, "")),
            color=alt.Color("colour:N", scale=None),
            opacity=alt.Opacity("opacity:Q", scale=None),
            tooltip=[alt.Tooltip("name:N", title="name"), alt.Tooltip("value:Q", title=unit, format=".4f")],
        )
    )


def curves(
    series: dict[str, Sequence[float]],
    x: Sequence[float],
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
    domain = list(series)
    palette = [(colours or {}).get(name) or ROLES.get(name) or CYCLE[i % len(CYCLE)] for i, name in enumerate(domain)]
    axis = (
        token_axis(x_labels, x_title, labelAngle=-60) if x_labels is not None else alt.Axis(title=x_title, grid=False)
    )
    scale = alt.Scale(type="log") if log_x else alt.Scale(nice=False)
    lines = (
        alt.Chart(data, title=title, height=height)
        .mark_line(point=len(data) <= 400, interpolate="linear")
        .encode(
            x=alt.X("x:Q", axis=axis, scale=scale),
            y=alt.Y("value:Q", title=y_title),
            color=alt.Color(
                "series:N", scale=alt.Scale(domain=domain, range=palette), legend=alt.Legend(title=None, orient="top")
            ),
            strokeDash=alt.StrokeDash("series:N", scale=alt.Scale(domain=domain), legend=None),
            tooltip=[
                "series:N",
                alt.Tooltip("x:Q", title=x_title),
                alt.Tooltip("value:Q", title=y_title, format=".4f"),
            ],
        )
    )
    layers = [lines]
    if marks:
        rules = pd.DataFrame({"y": list(marks.values()), "label": list(marks)})
        base = alt.Chart(rules).encode(y="y:Q")
        layers.append(base.mark_rule(strokeDash=[4, 4], color=DIRECT))
        layers.append(base.mark_text(align="left", dx=4, dy=-6, color=DIRECT, x=0).encode(text="label:N"))
    return alt.layer(*layers)


CYCLE = (QK, OV, PREVIOUS, INDUCTION, POSITION, DIRECT, REMOVED)
