"""Figures of the residual stream."""

from collections.abc import Sequence

import altair as alt
import numpy as np
import pandas as pd

from circuits.charts import base


def colour_of(name: str) -> str:
    """Return the role colour of a writer by its name."""
    return {"token": base.DIRECT, "position": base.POSITION}.get(name, base.OV)


def writers(names: Sequence[str], values: np.ndarray, title: str) -> alt.Chart:
    """Draw one upright bar per writer, in the order in which they write."""
    data = pd.DataFrame(
        {"writer": names, "value": np.asarray(values, float), "colour": [colour_of(name) for name in names]}
    )
    return (
        alt.Chart(data, title=title, height=230)
        .mark_bar()
        .encode(
            x=alt.X("writer:N", sort=None, title=None, axis=alt.Axis(labelAngle=-60, grid=False, labelOverlap=False)),
            y=alt.Y("value:Q", title="logit"),
            color=alt.Color("colour:N", scale=None),
            tooltip=["writer:N", alt.Tooltip("value:Q", title="logit", format=".3f")],
        )
    )


def stream_strip(stream: np.ndarray) -> alt.Chart:
    """Draw one vector of the stream as a strip of cells, in rows of 64 coordinates."""
    index = np.arange(len(stream))
    data = pd.DataFrame(
        {"row": index // 64, "column": index % 64, "coordinate": index, "value": np.asarray(stream, float)}
    )
    top = float(np.abs(stream).max()) or 1.0
    return (
        alt.Chart(data, title="The stream's coordinates", height=125)
        .mark_rect()
        .encode(
            x=alt.X("column:O", axis=None),
            y=alt.Y("row:O", axis=None),
            color=alt.Color(
                "value:Q",
                scale=alt.Scale(domain=[-top, top], range="diverging"),
                legend=alt.Legend(title="value", gradientLength=50),
            ),
            tooltip=["coordinate:Q", alt.Tooltip("value:Q", format=".3f")],
        )
    )


def virtual_weights(values: np.ndarray, writers: Sequence[str], readers: Sequence[str]) -> alt.Chart:
    """Draw writer × reader alignment in units of chance; cells without meaning stay empty."""
    row, column = np.indices(values.shape)
    data = pd.DataFrame(
        {
            "writer": np.asarray(writers, object)[row.ravel()],
            "reader": np.asarray(readers, object)[column.ravel()],
            "value": values.ravel(),
        }
    ).dropna()
    return (
        alt.Chart(data, title="Alignment of what is written with what is read", height=400)
        .mark_rect()
        .encode(
            x=alt.X(
                "reader:N",
                sort=list(readers),
                title="reader",
                axis=alt.Axis(labelAngle=-60, grid=False, labelOverlap=False),
            ),
            y=alt.Y("writer:N", sort=list(writers), title="writer", axis=alt.Axis(grid=False, labelOverlap=False)),
            color=alt.Color(
                "value:Q", scale=alt.Scale(range="heatmap", domainMin=0), legend=alt.Legend(title="× chance")
            ),
            tooltip=["writer:N", "reader:N", alt.Tooltip("value:Q", title="× chance", format=".2f")],
        )
    )


def spectra(series: dict[str, np.ndarray]) -> alt.LayerChart:
    """Draw cumulative variance against the number of principal components, 90 % marked."""
    length = len(next(iter(series.values())))
    return base.curves(
        {name: np.cumsum(values) for name, values in series.items()},
        range(1, length + 1),
        title="How many dimensions the ends use",
        x_title="principal components kept",
        y_title="share of variance",
        marks={"90 %": 0.9},
        height=240,
    )
