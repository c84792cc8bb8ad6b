"""Figures of one head: the board it is chosen on, its two tables, its eigenvalues."""

from collections.abc import Sequence

import altair as alt
import numpy as np
import pandas as pd

from circuits.charts import base

TILE = 42
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
    place = alt.Chart(data, height=rows * (TILE + 16) + 54, title="All heads: click one").encode(
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


def without_legend(figure: alt.Chart) -> alt.Chart:
    """Return a heat map without its legend; a large matrix is one picture and has none."""
    color = figure["encoding"]["color"]
    return figure if color is alt.Undefined else figure.encode(color=color.legend(None))


def narrow(figure: alt.Chart) -> alt.Chart:
    """Return a heat map whose legend lies above it, for a column too narrow for one beside it."""
    color = figure["encoding"]["color"] if isinstance(figure, alt.Chart) else alt.Undefined
    if color is alt.Undefined:  # a large matrix is one picture and has no legend
        return figure
    legend = {"orient": "top", "direction": "horizontal", "titleOrient": "left", "gradientLength": 90}
    return figure.encode(color=color.legend(title=color["legend"]["title"], **legend))


def token_bars(names: Sequence[str], values: Sequence[float], *, title: str, unit: str, colour: str, height: int):
    """Draw a short list of tokens or of what they do as bars of one colour, with room for the names."""
    figure = base.bars(names, values, title=title, unit=unit, colours=[colour] * len(names), height=height)
    figure["encoding"]["y"]["axis"]["labelLimit"] = 220
    return figure


RIM = 5.0
"""The discs end here, in units of the random radius; eigenvalues farther out are drawn there, in their direction."""


def discs(eigenvalues: dict[str, np.ndarray], null: dict[str, np.ndarray], size: int = 150) -> alt.FacetChart:
    """Draw every head's eigenvalues (orange) over those of random heads of its size (grey), four in a row.

    The unit is the radius that holds 95 % of the random ones, the circle, so that heads can be compared.
    ``eigenvalues[name]: [d_head]`` and ``null[name]: [any]``, complex.
    """
    turn = np.exp(2j * np.pi * np.arange(72) / 72)
    kinds = {
        "random heads": (base.DIRECT, 8, 0.35),
        "95 % of them": (base.DIRECT, 2, 1.0),
        "this head": (base.OV, 30, 0.9),
    }
    frames = []
    for name, values in eigenvalues.items():
        radius = np.quantile(np.abs(null[name]), 0.95) or 1.0
        sets = (_within(null[name] / radius), turn, _within(values / radius))
        for (kind, (colour, dot, opacity)), points in zip(kinds.items(), sets, strict=True):
            frame = {"name": name, "kind": kind, "re": points.real, "im": points.imag}
            frames.append(pd.DataFrame(frame | {"colour": colour, "size": dot, "opacity": opacity}))
    data = pd.concat(frames)
    reach = 1.05 * max(1.0, np.abs(data[["re", "im"]]).to_numpy().max())
    scale = alt.Scale(domain=[-reach, reach], nice=False)
    dots = alt.Chart(data, width=size, height=size).mark_circle()
    return dots.encode(
        x=alt.X("re:Q", title="real part", scale=scale),
        y=alt.Y("im:Q", title="imaginary part", scale=scale),
        color=alt.Color("colour:N", scale=None),
        size=alt.Size("size:Q", scale=None),
        opacity=alt.Opacity("opacity:Q", scale=None),
        tooltip=["kind:N", alt.Tooltip("re:Q", format=".3f"), alt.Tooltip("im:Q", format=".3f")],
    ).facet(alt.Facet("name:N", title=None, sort=list(eigenvalues)), columns=4)


def _within(values: np.ndarray) -> np.ndarray:
    """Return complex numbers with those beyond the rim moved onto it, their angle kept."""
    return values / np.maximum(1.0, np.abs(values) / RIM)


def scores_with_null(names: Sequence[str], scores: Sequence[float], mean: float, sd: float) -> alt.LayerChart:
    """Draw copying scores as bars over the band that random heads fill (mean ± 2 sd)."""
    data = pd.DataFrame({"row": range(len(names)), "name": names, "score": np.asarray(scores, float)})
    band = pd.DataFrame({"low": [mean - 2 * sd], "high": [mean + 2 * sd]})
    x = alt.X("score:Q", title="copying score Σλ / Σ|λ|", scale=alt.Scale(domain=[-1, 1]))
    height = base.AXIS_AND_TITLE + 20 * len(names)
    title = alt.Title("Copying scores", subtitle="grey: random heads, mean ± 2 sd", subtitleColor=base.DIRECT)
    inside = alt.Chart(band, title=title, height=height)
    return inside.mark_rect(color=base.DIRECT, opacity=0.25).encode(
        x=alt.X("low:Q", title="copying score Σλ / Σ|λ|", scale=alt.Scale(domain=[-1, 1])), x2="high:Q"
    ) + alt.Chart(data).mark_bar(color=base.OV, height=12).encode(
        x=x,
        y=alt.Y("row:O", sort=None, axis=base.bar_axis(names, height)),
        tooltip=["name:N", alt.Tooltip("score:Q", format=".3f")],
    )


PARTS = {"tok_tok": "token → token", "tok_pos": "token → position", "pos_tok": "position → token"} | {
    "pos_pos": "position → position"
}
"""Titles of the four parts of a score, destination first."""


def square(values: np.ndarray, labels: Sequence[str], title: str, unit: str, height: int, **options) -> alt.Chart:
    """Draw a query-by-key matrix of one prompt for a narrow column; attention needs no legend: it goes from 0 to 1."""
    figure = base.heatmap(
        values, labels, labels, title=title, unit=unit, height=height, row_title="query", column_title="key", **options
    )
    return without_legend(figure) if options.get("limit") == 1.0 else narrow(figure)


def part(values: np.ndarray, labels: Sequence[str], title: str, limit: float) -> alt.Chart:
    """Draw one of several parts of a score, all on the scale −limit … limit, which their caption tells."""
    return without_legend(square(values, labels, title, "score", 250, diverging=True, limit=limit, causal=True))
