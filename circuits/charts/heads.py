"""Figures of one head: the board it is chosen on, its two tables, its eigenvalues."""

from collections.abc import Sequence

import altair as alt
import numpy as np
import pandas as pd

from circuits.charts import base

TILE = 44
"""Side of a picture on the board, in pixels."""


def board(patterns: np.ndarray, names: Sequence[str], chosen: int, per_row: int = 4) -> alt.LayerChart:
    """Draw every head's pattern as a small picture in reading order; a click gives ``head``, ``chosen`` is framed.

    ``patterns: [head, query, key]``; each picture is as dark as its own largest entry.
    """
    index = np.arange(len(names))
    data = pd.DataFrame(
        {
            "head": index,
            "x": index % per_row,
            "y": index // per_row,
            "name": list(names),
            "picture": [base.png(base.tint(pattern), 2 * TILE) for pattern in patterns],
            "chosen": index == chosen,
        }
    )
    rows = -(-len(names) // per_row)
    click = alt.selection_point(name="pick", fields=["head"], toggle=False)
    place = alt.Chart(data, height=rows * (TILE + 16) + 70, title="All heads: click one").encode(
        x=alt.X("x:O", axis=None, scale=alt.Scale(paddingInner=0.05)),
        y=alt.Y("y:O", axis=None, scale=alt.Scale(paddingInner=0.05)),
        tooltip=["name:N"],
    )
    frames = place.mark_rect(fillOpacity=0.04, fill=base.DIRECT, strokeWidth=3, cursor="pointer").encode(
        stroke=alt.condition("datum.chosen", alt.value(base.OV), alt.value(None))
    )
    pictures = place.mark_image(width=TILE, height=TILE, yOffset=-6).encode(url="picture:N")
    words = place.mark_text(dy=TILE / 2 + 2, fontSize=10).encode(
        text="name:N", color=alt.condition("datum.chosen", alt.value(base.OV), alt.value(base.DIRECT))
    )
    return frames.add_params(click) + pictures + words


def narrow(figure: alt.Chart) -> alt.Chart:
    """Return a heat map whose legend lies above it, for a column too narrow for one beside it."""
    color = figure["encoding"]["color"] if isinstance(figure, alt.Chart) else alt.Undefined
    if color is alt.Undefined:  # a large matrix is one picture and has no legend
        return figure
    legend = {"orient": "top", "direction": "horizontal", "titleOrient": "left", "gradientLength": 90}
    return figure.encode(color=color.legend(title=color["legend"]["title"], **legend))


def token_bars(names: Sequence[str], values: Sequence[float], *, title: str, unit: str, colour: str, height: int):
    """Draw a short list of tokens as bars, every token named."""
    figure = base.bars(names, values, title=title, unit=unit, colours=[colour] * len(names), height=height)
    figure["encoding"]["y"]["axis"]["labelOverlap"] = False
    return figure


def _circle(radius: float) -> pd.DataFrame:
    angle = np.linspace(0, 2 * np.pi, 90)
    return pd.DataFrame({"re": radius * np.cos(angle), "im": radius * np.sin(angle), "order": np.arange(90)})


def disc(eigenvalues: np.ndarray, null: np.ndarray, title: str, size: int = 230) -> alt.LayerChart:
    """Draw a head's eigenvalues (orange) over those of random heads of the same size (grey dots).

    ``eigenvalues: [d_head]`` and ``null: [any]``, both complex; the two axes have one scale.  The dashed
    circle holds 95 % of the random ones.
    """
    reach = 1.05 * max(np.abs(eigenvalues).max(initial=0.0), np.quantile(np.abs(null), 0.95), 1e-12)
    scale = alt.Scale(domain=[-reach, reach], nice=False)
    x, y = alt.X("re:Q", title="real part", scale=scale), alt.Y("im:Q", title="imaginary part", scale=scale)

    def points(values: np.ndarray) -> alt.Chart:
        inside = values[np.abs(values) <= reach]
        return alt.Chart(pd.DataFrame({"re": inside.real, "im": inside.imag}), title=title, width=size, height=size)

    random = points(null).mark_circle(color=base.DIRECT, opacity=0.25, size=6).encode(x=x, y=y)
    limit = _circle(float(np.quantile(np.abs(null), 0.95)))
    circle = alt.Chart(limit).mark_line(color=base.DIRECT, strokeDash=[4, 3]).encode(x=x, y=y, order="order:O")
    own = points(eigenvalues).mark_circle(color=base.OV, opacity=0.9, size=36)
    number = alt.Tooltip("re:Q", format=".3f"), alt.Tooltip("im:Q", format=".3f")
    return random + circle + own.encode(x=x, y=y, tooltip=number)


def scores_with_null(names: Sequence[str], scores: Sequence[float], mean: float, sd: float) -> alt.LayerChart:
    """Draw copying scores as bars over the band that random heads fill (mean ± 2 sd)."""
    data = pd.DataFrame({"row": range(len(names)), "name": names, "score": np.asarray(scores, float)})
    band = pd.DataFrame({"low": [mean - 2 * sd], "high": [mean + 2 * sd]})
    x = alt.X("score:Q", title="copying score Σλ / Σ|λ|", scale=alt.Scale(domain=[-1, 1]))
    inside = alt.Chart(band, title="Copying scores; grey band: random heads, mean ± 2 sd", height=24 * len(names))
    return inside.mark_rect(color=base.DIRECT, opacity=0.25).encode(
        x=alt.X("low:Q", title="copying score Σλ / Σ|λ|", scale=alt.Scale(domain=[-1, 1])), x2="high:Q"
    ) + alt.Chart(data).mark_bar(color=base.OV, height=12).encode(
        x=x,
        y=alt.Y("row:O", sort=None, axis=base.token_axis(names, "")),
        tooltip=["name:N", alt.Tooltip("score:Q", format=".3f")],
    )


def discs(eigenvalues: dict[str, np.ndarray], null: dict[str, np.ndarray]) -> alt.ConcatChart:
    """Draw every head's disc of eigenvalues over its null, four in a row."""
    return alt.concat(*(disc(values, null[name], name, size=110) for name, values in eigenvalues.items()), columns=4)


PARTS = {"tok_tok": "token → token", "tok_pos": "token → position", "pos_tok": "position → token"} | {
    "pos_pos": "position → position"
}
"""Titles of the four parts of a score, destination first."""


def square(values: np.ndarray, labels: Sequence[str], title: str, unit: str, height: int, **options) -> alt.Chart:
    """Draw a query-by-key matrix of one prompt for a narrow column."""
    figure = base.heatmap(
        values, labels, labels, title=title, unit=unit, height=height, row_title="query", column_title="key", **options
    )
    return narrow(figure)
