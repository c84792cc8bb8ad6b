"""Figures of composition: boards of scores, the needle, the erratum, term importance."""

from collections.abc import Sequence

import altair as alt
import numpy as np
import pandas as pd

from circuits.charts import base
from circuits.charts.heads import without_legend

CHANCE_UNIT = "× chance"

INK = "luminance(background) > 0.5 ? '#1c2430' : '#e6eaf0'"
"""Text on cells: dark on a light page and light on a dark one (Vega knows the page's background, we do not)."""


def board(
    scores: np.ndarray,
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    title: str,
    top: float,
    chosen: tuple[int, int] | None = None,
) -> alt.LayerChart:
    """Draw scores of all pairs in units of chance: below 1 blue, above 1 orange; a click selects ``query``, ``key``.

    Rows are the earlier heads that write, columns the later heads that read; ``chosen`` is framed.
    """
    data = base.grid_frame(scores, rows, columns)
    data["chosen"] = [pair == chosen for pair in zip(data["query"], data["key"], strict=True)]
    plain = alt.Chart(data).encode(
        x=base.positions(columns, "", alt.X, "key", labelAngle=-90, labelFontSize=10),
        y=base.positions(rows, "", alt.Y, "query", labelFontSize=10),
        tooltip=[
            alt.Tooltip("query_token:N", title="writes"),
            alt.Tooltip("key_token:N", title="reads"),
            alt.Tooltip("value:Q", title=CHANCE_UNIT, format=".2f"),
        ],
    )
    cells = plain.mark_rect().encode(
        color=alt.Color(
            "value:Q",
            # The ends lie beyond the values, so that the theme's text stays readable on the strongest cell.
            scale=alt.Scale(domain=[-0.5, 1.5 * top], domainMid=1, range="diverging"),
            legend=None,
        ),
        stroke=alt.condition("datum.chosen", alt.value(base.INDUCTION), alt.value(None)),
        strokeWidth=alt.value(3),
    )
    numbers = plain.mark_text(fontSize=9, color=alt.ExprRef(INK)).encode(text=alt.Text("value:Q", format=".1f"))
    click = alt.selection_point(name="pair", fields=["query", "key"], toggle=False)
    return alt.layer(cells.add_params(click), numbers, title=title, height=90 + 20 * len(rows))


def prompt_map(
    values: np.ndarray, labels: Sequence[str], *, title: str, unit: str, top: float, diverging: bool = False
) -> alt.Chart:
    """Draw a [query, key] map for a narrow column: without a legend, so the caption must tell the scale."""
    figure = base.heatmap(
        values, labels, labels, title=title, unit=unit, diverging=diverging, limit=top, causal=True, height=330
    )
    return without_legend(figure)


def needle(now: float, trained: float, marks: dict[str, float], title: str) -> alt.LayerChart:
    """Draw a score (triangle; as trained: circle) on its own line, between the marks that say what it could be."""
    scale = alt.Scale(domain=[0, 1.15 * max(*marks.values(), trained, now)], nice=False)
    x = alt.X("score:Q", title=None, scale=scale, axis=alt.Axis(tickCount=6, grid=False))
    lines = pd.DataFrame({"score": list(marks.values()), "label": list(marks)})
    rules = alt.Chart(lines).mark_rule(color=base.DIRECT, strokeDash=[4, 3]).encode(x=x)
    labels = (
        alt.Chart(lines).mark_text(color=base.DIRECT, align="left", dx=4).encode(x=x, text="label:N", y=alt.value(8))
    )
    points = pd.DataFrame({"score": [trained, now], "which": ["as trained", "now"]})
    which = alt.Scale(domain=["as trained", "now"], range=[base.DIRECT, base.INDUCTION])
    shapes = alt.Scale(domain=["as trained", "now"], range=["circle", "triangle-down"])
    dots = (
        alt.Chart(points)
        .mark_point(filled=True, size=160, opacity=1)
        .encode(
            x=x,
            y=alt.Y("which:N", axis=None, scale=alt.Scale(domain=["", "now", "as trained"])),
            color=alt.Color("which:N", scale=which, legend=None),
            shape=alt.Shape("which:N", scale=shapes, legend=None),
            tooltip=["which:N", alt.Tooltip("score:Q", format=".4f")],
        )
    )
    return alt.layer(rules, labels, dots, title=title, height=120)


def erratum(right: np.ndarray, cyclic: np.ndarray, names: Sequence[str], chosen: str, title: str) -> alt.LayerChart:
    """Draw every pair by its corrected and its first published score, each in units of its own chance level.

    Named are the chosen pair and the highest on either axis.
    """
    data = pd.DataFrame({"right": np.asarray(right, float), "cyclic": np.asarray(cyclic, float), "pair": list(names)})
    named = {chosen, data.loc[data["right"].idxmax(), "pair"], data.loc[data["cyclic"].idxmax(), "pair"]}
    data["label"] = [pair if pair in named else "" for pair in data["pair"]]
    data["chosen"] = data["pair"] == chosen
    plain = alt.Chart(data).encode(
        x=alt.X("right:Q", title="corrected score, × chance", scale=alt.Scale(domain=[0, 1.25 * data["right"].max()])),
        y=alt.Y("cyclic:Q", title="as first published, × its own chance"),
        tooltip=["pair:N", alt.Tooltip("right:Q", format=".2f"), alt.Tooltip("cyclic:Q", format=".2f")],
    )
    points = plain.mark_circle(size=60, opacity=0.8).encode(
        color=alt.condition("datum.chosen", alt.value(base.INDUCTION), alt.value(base.QK))
    )
    labels = plain.mark_text(align="left", dx=7, fontSize=10, color=base.DIRECT).encode(text="label:N")
    rule = alt.Chart(pd.DataFrame({"one": [1.0]})).mark_rule(color=base.DIRECT, strokeDash=[4, 3])
    return alt.layer(rule.encode(x="one:Q"), rule.encode(y="one:Q"), points, labels, title=title, height=340)


def reductions(ours: Sequence[float], paper: Sequence[float], title: str) -> alt.Chart:
    """Draw what each order takes off the loss, ours beside the paper's."""
    rows = [(f"order {order}", "this model", value) for order, value in enumerate(ours)]
    rows += [(f"order {order}", "the paper's, from notes on its figure", value) for order, value in enumerate(paper)]
    return _grouped(rows, title)


def groups(names: Sequence[str], alone: Sequence[float], marginal: Sequence[float], title: str) -> alt.Chart:
    """Draw each group's worth on top of the direct path, and given all the others."""
    rows = [(name, "on top of the direct path alone", value) for name, value in zip(names, alone, strict=True)]
    rows += [(name, "given all other heads", value) for name, value in zip(names, marginal, strict=True)]
    return _grouped(rows, title)


def _grouped(rows: Sequence[tuple[str, str, float]], title: str) -> alt.Chart:
    """Draw bars in groups of two; ``rows`` are (group, which of the two, nats)."""
    data = pd.DataFrame(rows, columns=["group", "which", "nats"])
    domain = list(dict.fromkeys(data["which"]))
    colour = alt.Scale(domain=domain, range=[base.OV, base.DIRECT])
    return (
        alt.Chart(data, title=title, height=280)
        .mark_bar()
        .encode(
            x=alt.X("group:N", sort=None, title=None, axis=alt.Axis(labelAngle=0 if len(data) < 16 else -60)),
            xOffset=alt.XOffset("which:N", sort=domain),
            y=alt.Y("nats:Q", title="nats per token"),
            color=alt.Color("which:N", scale=colour, legend=alt.Legend(title=None, orient="top", labelLimit=400)),
            tooltip=["group:N", "which:N", alt.Tooltip("nats:Q", format=".3f")],
        )
    )
