"""Figures of circuit discovery: the graph, its faithfulness, patching boards, exact against estimated."""

from collections.abc import Sequence

import altair as alt
import numpy as np
import pandas as pd

from circuits.charts import base
from circuits.discovery import Edge
from circuits.weights import Head

INPUTS = {"q": base.QK, "k": base.INDUCTION, "v": base.OV, "logits": base.DIRECT}
"""The colour of an edge says into which reading it goes."""

OFFSETS = {"q": -0.24, "k": 0.0, "v": 0.24, "logits": 0.0}


def edge_frame(edges: Sequence[Edge], effects: Sequence[float], shares: Sequence[float]) -> pd.DataFrame:
    """Return the edges as a table: ``label, source, target, input, effect, share``."""
    return pd.DataFrame(
        {
            "label": list(map(str, edges)),
            "source": [edge.source for edge in edges],
            "target": [str(edge.reader or "logits") for edge in edges],
            "input": [edge.input for edge in edges],
            "effect": effects,
            "share": shares,
        }
    )


WIDE, TALL = 0.17, 0.36
"""Half the width and height of a node's box, in units of the layout."""


def layout(n_layers: int, n_heads: int) -> dict[str, tuple[float, float]]:
    """Place every node: embeddings left, one column a layer, the logits right."""
    middle = (n_heads - 1) / 2
    places = {"embed": (0.0, middle - 1.0), "pos": (0.0, middle + 1.0), "logits": (n_layers + 1.0, middle)}
    heads = {f"L{layer}H{head}": (layer + 1.0, float(head)) for layer in range(n_layers) for head in range(n_heads)}
    return places | heads


def graph(
    edges: pd.DataFrame, n_layers: int, n_heads: int, colours: dict[str, str], title: str, height: int = 350
) -> alt.LayerChart:
    """Draw the kept edges (``source, target, input, share, label``): thicker is more, a colour is an input.

    ``colours`` paints named nodes (the heads of the circuit); nodes without an edge are faint.
    """
    places = layout(n_layers, n_heads)
    x = alt.X("x:Q", axis=None, scale=alt.Scale(domain=[-0.25, n_layers + 1.25], nice=False))
    y = alt.Y("y:Q", axis=None, scale=alt.Scale(domain=[n_heads - 0.5, -0.5], nice=False))
    touched = set(edges["source"]) | set(edges["target"])
    rules = _edge_rules(edges, places).encode(x=x, y=y).properties(title=title, height=height)
    return alt.layer(rules, *_node_boxes(places, colours, touched, x, y)).resolve_scale(
        color="independent", opacity="independent"
    )


def _edge_rules(edges: pd.DataFrame, places: dict[str, tuple[float, float]]) -> alt.Chart:
    """Return one line an edge, from its source's right side to the input it enters."""
    lines = edges.assign(
        x=[places[name][0] + WIDE for name in edges["source"]],
        y=[places[name][1] for name in edges["source"]],
        x2=[places[name][0] - WIDE for name in edges["target"]],
        y2=[places[name][1] + OFFSETS[kind] for name, kind in zip(edges["target"], edges["input"], strict=True)],
        size=np.abs(edges["share"]),
    )
    kinds = alt.Color(
        "input:N",
        scale=alt.Scale(domain=list(INPUTS), range=list(INPUTS.values())),
        legend=alt.Legend(title="into", orient="top", symbolType="stroke", symbolStrokeWidth=3),
    )
    thickness = alt.Scale(domain=[0, 0.4], range=[0.6, 7], clamp=True)
    return (
        alt.Chart(lines)
        .mark_rule()
        .encode(
            x2="x2:Q",
            y2="y2:Q",
            color=kinds,
            strokeWidth=alt.StrokeWidth("size:Q", scale=thickness, legend=None),
            opacity=alt.value(0.75),
            tooltip=["label:N", alt.Tooltip("effect:Q", format=".3f"), alt.Tooltip("share:Q", format=".1%")],
        )
    )


def _node_boxes(
    places: dict[str, tuple[float, float]], colours: dict[str, str], touched: set[str], x: alt.X, y: alt.Y
) -> list[alt.Chart]:
    """Return a box and a name for every node; one without an edge is faint."""
    nodes = pd.DataFrame(
        [
            (name, x - WIDE, x + WIDE, y - TALL, y + TALL, x, y, colours.get(name, base.DIRECT), name in touched)
            for name, (x, y) in places.items()
        ],
        columns=["node", "x", "x2", "y", "y2", "middle", "centre", "colour", "touched"],
    )
    paint, seen = alt.Color("colour:N", scale=None), alt.condition("datum.touched", alt.value(1.0), alt.value(0.15))
    boxes = alt.Chart(nodes).mark_rect(cornerRadius=3).encode(x=x, x2="x2:Q", y=y, y2="y2:Q", color=paint, opacity=seen)
    ink = alt.condition("datum.touched", alt.value("white"), alt.value(base.DIRECT))
    names = alt.Chart(nodes).mark_text(font="monospace", fontSize=10, fontWeight="bold")
    return [boxes, names.encode(x="middle:Q", y="centre:Q", text="node:N", color=ink)]


def faithfulness(
    counts: Sequence[int], values: Sequence[float], here: tuple[int, float], height: int = 150
) -> alt.LayerChart:
    """Draw how much of the behaviour the strongest edges keep, and the circuit that is on the screen."""
    data = pd.DataFrame({"edges": counts, "faithfulness": values})
    x = alt.X(
        "edges:Q",
        title="edges kept (log scale)",
        scale=alt.Scale(type="symlog", nice=False),
        axis=alt.Axis(grid=False, values=[0, 10, 100, 306], labelOverlap=False),
    )
    y = alt.Y("faithfulness:Q", title="faithfulness")
    line = alt.Chart(data, height=height, title="Faithfulness").mark_line(
        color=base.QK, point=alt.OverlayMarkDef(size=18, color=base.QK)
    )
    rules = alt.Chart(pd.DataFrame({"faithfulness": [0.0, 1.0]})).mark_rule(color=base.DIRECT, strokeDash=[4, 4])
    dot = alt.Chart(pd.DataFrame({"edges": [here[0]], "faithfulness": [here[1]]})).mark_point(
        color=base.REMOVED, filled=True, size=110
    )
    tooltip = ["edges:Q", alt.Tooltip("faithfulness:Q", format=".3f")]
    return alt.layer(line.encode(x=x, y=y, tooltip=tooltip), rules.encode(y=y), dot.encode(x=x, y=y, tooltip=tooltip))


def scatter(
    exact: dict[str, np.ndarray], estimate: dict[str, np.ndarray], title: str, height: int = 300
) -> alt.LayerChart:
    """Draw the first-order estimate against the exact effect: ``[layer, head]`` for each kind of activation."""
    data = pd.DataFrame(
        [
            (str(Head(layer, head)), kind, f"L{layer}", float(value), float(estimate[kind][layer][head]))
            for kind, values in exact.items()
            for layer, row in enumerate(values)
            for head, value in enumerate(row)
        ],
        columns=["name", "kind", "layer", "exact", "estimate"],
    )
    end = float(np.abs(data[["exact", "estimate"]].to_numpy()).max(initial=0.0)) or 1.0
    scale = alt.Scale(domain=[-1.05 * end, 1.05 * end], nice=False)
    diagonal = alt.Chart(pd.DataFrame({"exact": [-end, end], "estimate": [-end, end]})).mark_line(
        color=base.DIRECT, strokeDash=[4, 4]
    )
    x = alt.X("exact:Q", title="activation patching, logits", scale=scale)
    y = alt.Y("estimate:Q", title="attribution patching, logits", scale=scale)
    grey = {"symbolFillColor": base.DIRECT, "symbolStrokeColor": base.DIRECT}
    shapes = alt.Legend(orient="bottom", title=None, columns=5, columnPadding=4, **grey)
    points = (
        alt.Chart(data, title=title, height=height)
        .mark_point(filled=True, size=60, opacity=0.8)
        .encode(
            x=x,
            y=y,
            color=alt.Color(
                "layer:N",
                scale=alt.Scale(range=[base.PREVIOUS, base.INDUCTION]),
                legend=alt.Legend(orient="top", title="layer"),
            ),
            shape=alt.Shape("kind:N", legend=shapes, sort=None),
            tooltip=["name:N", "kind:N", alt.Tooltip("exact:Q", format=".3f"), alt.Tooltip("estimate:Q", format=".3f")],
        )
    )
    return alt.layer(diagonal.encode(x=x, y=y), points)
