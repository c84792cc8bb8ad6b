"""Figures of the dictionary page: match matrix, sparsity against fidelity, shrinkage, densities, losses."""

from collections.abc import Sequence

import altair as alt
import numpy as np
import pandas as pd

from circuits.charts import base
from circuits.charts.histogram import histogram


def match_matrix(cosines: np.ndarray, order: Sequence[int], height: int = 290) -> alt.Chart:
    """Draw the cosine of every true feature with every dictionary row, rows of the dictionary in ``order``."""
    return base.heatmap(
        cosines[:, list(order)],
        [f"x{i}" for i in range(len(cosines))],
        [f"d{j}" for j in order],
        title="Truth against dictionary",
        unit="cosine",
        diverging=True,
        limit=1,
        row_title="true feature",
        column_title="dictionary row",
        height=height,
    )


def frontier(
    l1: Sequence[float], l0: Sequence[float], error: Sequence[float], true_l0: float, chosen: int, height: int = 290
) -> alt.LayerChart:
    """Draw reconstruction error against L0, one point a λ, and how many features are really present."""
    data = pd.DataFrame({"l1": l1, "l0": l0, "error": error, "label": [f"λ {value:g}" for value in l1]})
    x = alt.X("l0:Q", title="L0: features active at once", scale=alt.Scale(zero=True), axis=alt.Axis(grid=False))
    y = alt.Y("error:Q", title="error ‖h − ĥ‖²", axis=alt.Axis(grid=False))
    curve = alt.Chart(data, title="Sparsity against fidelity", height=height).encode(x=x, y=y, order="l1:Q")
    tooltip = [alt.Tooltip("l1:Q", title="λ"), alt.Tooltip("l0:Q", format=".2f"), alt.Tooltip("error:Q", format=".4f")]
    here = alt.Chart(data[chosen : chosen + 1]).encode(x=x, y=y)
    truth = alt.Chart(pd.DataFrame({"l0": [true_l0], "label": ["really present"]})).encode(x="l0:Q")
    return alt.layer(
        truth.mark_rule(color=base.DIRECT, strokeDash=[4, 3]),
        truth.mark_text(color=base.DIRECT, align="left", dx=4, y=8).encode(text="label:N"),
        curve.mark_line(color=base.QK, opacity=0.5),
        curve.mark_point(color=base.QK, filled=True, size=55, opacity=1).encode(tooltip=tooltip),
        here.mark_point(color=base.OV, filled=True, size=170, opacity=1),
        here.mark_text(color=base.OV, align="left", dx=10, dy=-8, fontWeight="bold").encode(text="label:N"),
    )


def shrinkage(l1: Sequence[float], measured: Sequence[float], chosen: int, height: int = 260) -> alt.LayerChart:
    """Draw how much too small activations are at each λ, with the closed form λ/2."""
    data = pd.DataFrame({"l1": l1, "measured": measured, "closed": [value / 2 for value in l1]})
    x = alt.X("l1:Q", title="λ", axis=alt.Axis(grid=False))
    y = alt.Y("measured:Q", title="a − f", axis=alt.Axis(grid=False))
    chart = alt.Chart(data, title="Activations are too small", height=height).encode(x=x)
    tooltip = [
        alt.Tooltip("l1:Q", title="λ"),
        alt.Tooltip("measured:Q", format=".3f"),
        alt.Tooltip("closed:Q", format=".3f"),
    ]
    return alt.layer(
        chart.mark_line(color=base.DIRECT, strokeDash=[5, 4]).encode(y=alt.Y("closed:Q", title="a − f")),
        chart.mark_point(color=base.QK, filled=True, size=55, opacity=1).encode(y=y, tooltip=tooltip),
        alt.Chart(data[chosen : chosen + 1])
        .mark_point(color=base.OV, filled=True, size=170, opacity=1)
        .encode(x=x, y=y),
    )


def density_histogram(
    density: np.ndarray, tokens: int, chosen: float | None = None, height: int = 260
) -> alt.LayerChart:
    """Draw how often features are active, on a log scale; those never seen stand at the left."""
    floor = -np.ceil(np.log10(tokens)) - 0.5
    logs = np.where(density > 0, np.log10(np.clip(density, 10**floor, None)), floor)
    counts, edges = np.histogram(logs, bins=np.arange(floor - 0.125, 0.126, 0.25))
    data = pd.DataFrame({"from": edges[:-1], "to": edges[1:], "features": counts})
    data["kind"] = np.where(data["to"] < floor + 0.2, "never active", "active")
    colours = {"never active": base.REMOVED, "active": base.QK}
    x_title = "log10 of the share of tokens"
    bars = histogram(data, "features", colours, title="How often features are active", x_title=x_title, height=height)
    if chosen is None:
        return alt.layer(bars)
    at = np.log10(chosen) if chosen > 0 else floor
    rule = alt.Chart(pd.DataFrame({"from": [at]})).mark_rule(color=base.INDUCTION, strokeWidth=2).encode(x="from:Q")
    return alt.layer(bars, rule)
