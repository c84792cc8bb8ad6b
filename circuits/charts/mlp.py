"""Figures of the MLP page: what k memories keep, and whether a memory writes what it reads."""

from collections.abc import Sequence

import altair as alt
import numpy as np
import pandas as pd

from circuits.charts import base
from circuits.charts.histogram import histogram


def kept_curve(counts: Sequence[int], error: Sequence[float], chosen: int, height: int = 300) -> alt.LayerChart:
    """Draw the reconstruction error against the number of memories kept, and where the reader stands."""
    data = pd.DataFrame({"kept": counts, "error": np.asarray(error, dtype=float)})
    x = alt.X("kept:Q", title="memories kept", axis=alt.Axis(grid=False))
    y = alt.Y("error:Q", title="error, share")
    tooltip = [alt.Tooltip("kept:Q", title="memories kept"), alt.Tooltip("error:Q", title="error", format=".3f")]
    line = alt.Chart(data, title="What is missing", height=height).mark_line(color=base.OV)
    here = alt.Chart(pd.DataFrame({"kept": [chosen]})).mark_rule(color=base.REMOVED, strokeDash=[4, 3], strokeWidth=2)
    dots = alt.Chart(data).mark_point(color=base.OV, size=12, opacity=0.01)
    return alt.layer(line.encode(x=x, y=y), here.encode(x="kept:Q"), dots.encode(x=x, y=y, tooltip=tooltip))


def cosine_histogram(
    cosines: np.ndarray, d_model: int, threshold: float, chosen: float | None = None
) -> alt.LayerChart:
    """Draw the distribution of cos(key, value) over the memories, that of random pairs, and the deletion neurons."""
    counts, edges = np.histogram(cosines, bins=41, range=(-1, 1))
    width = edges[1] - edges[0]
    data = pd.DataFrame({"from": edges[:-1], "to": edges[1:], "memories": counts})
    data["kind"] = np.where(edges[1:] <= threshold + width / 2, "deletion neurons", "others")
    grid = np.linspace(-1, 1, 201)
    null = len(cosines) * width * np.exp(-d_model * grid**2 / 2) * np.sqrt(d_model / (2 * np.pi))
    colours = {"deletion neurons": base.REMOVED, "others": base.OV}
    x_title = "cos(key, value): −1 erases, +1 repeats"
    bars = histogram(data, "memories", colours, title="Does a memory write what it reads?", x_title=x_title, height=360)
    curve = alt.Chart(pd.DataFrame({"from": grid, "memories": null})).mark_line(color=base.DIRECT, strokeDash=[4, 3])
    layers = [bars, curve.encode(x="from:Q", y="memories:Q")]
    if chosen is not None:
        rule = alt.Chart(pd.DataFrame({"from": [chosen]})).mark_rule(color=base.INDUCTION, strokeWidth=2)
        layers.append(rule.encode(x="from:Q"))
    return alt.layer(*layers)
