"""Figures of the superposition page: W Wᵀ, the vectors, dimensionalities over density, the phase diagram."""

from collections.abc import Sequence

import altair as alt
import numpy as np
import pandas as pd

from circuits.charts import base

POLYTOPES = {"1 own": 1.0, "3/4": 3 / 4, "2/3": 2 / 3, "1/2 pair": 1 / 2, "2/5, 3/8": 2 / 5, "": 3 / 8}
"""Shares of a dimension at which features like to sit: own, tetrahedron, triangle, pair, pentagon, square antiprism."""

KIND_COLOURS = {"pair": base.QK, "dedicated": base.OV, "same side": base.INDUCTION}


def names(n: int) -> list[str]:
    """Return the features' names, ``x0`` first."""
    return [f"x{i}" for i in range(n)]


def gram(W: np.ndarray, height: int = 245) -> alt.Chart:
    """Draw W Wᵀ: norms squared on the diagonal, interference beside it."""
    labels = names(len(W))
    return base.heatmap(
        W @ W.T,
        labels,
        labels,
        title="W Wᵀ",
        unit="overlap",
        diverging=True,
        limit=1.4,
        row_title="feature out",
        column_title="feature in",
        height=height,
    )


def arrows(W: np.ndarray, height: int = 245, dictionary: np.ndarray | None = None) -> alt.LayerChart:
    """Draw the feature directions of a one- or two-dimensional model; a dictionary's rows as thin lines over them."""
    plane = np.pad(W, ((0, 0), (0, 2 - W.shape[1])))
    data = pd.DataFrame({"x": plane[:, 0], "y": plane[:, 1], "name": names(len(W)), "norm": np.linalg.norm(W, axis=1)})
    limit = max(1.3, 1.1 * float(np.abs(plane).max()))

    def isotropic(longer: str) -> alt.Scale:  # angles are the message: a unit is as long across as up, at any size
        ends = (alt.ExprRef(f"{sign}{limit} * max(1, {longer})") for sign in "-+")
        return alt.Scale(**dict(zip(("domainMin", "domainMax"), ends, strict=True)), nice=False)

    axis = alt.Axis(grid=False, tickCount=3)
    x = alt.X("x:Q", scale=isotropic("width / height"), title="hidden dimension 0", axis=axis)
    y = alt.Y("y:Q", scale=isotropic("height / width"), title="hidden dimension 1", axis=axis)
    tooltip = [
        "name:N",
        alt.Tooltip("x:Q", format=".3f"),
        alt.Tooltip("y:Q", format=".3f"),
        alt.Tooltip("norm:Q", format=".3f"),
    ]
    start = {"x2": alt.datum(0), "y2": alt.datum(0)}
    base_chart = alt.Chart(data, title="Feature directions", height=height).encode(x=x, y=y)
    layers = [
        base_chart.mark_rule(strokeWidth=3, color=base.QK).encode(**start),
        base_chart.mark_point(filled=True, size=60, color=base.QK, opacity=1).encode(tooltip=tooltip),
        base_chart.mark_text(dx=11, dy=-9, color=base.DIRECT, fontWeight="bold").encode(text="name:N"),
    ]
    if dictionary is not None:
        rows = pd.DataFrame(dictionary, columns=["x", "y"])
        layers.append(
            alt.Chart(rows).mark_rule(color=base.OV, strokeWidth=1.5, strokeDash=[5, 3]).encode(x=x, y=y, **start)
        )
    return alt.layer(*layers)


def norm_bars(norms: np.ndarray, interference: np.ndarray, height: int = 245) -> alt.Chart:
    """Draw ``‖W_i‖`` as bars, coloured by how much of the others each feature picks up."""
    data = pd.DataFrame({"row": range(len(norms)), "norm": norms, "interference": interference})
    return (
        alt.Chart(data, title="Norms", height=height)
        .mark_bar()
        .encode(
            x=alt.X("norm:Q", title="‖Wᵢ‖", scale=alt.Scale(domainMin=0)),
            y=alt.Y("row:O", sort=None, axis=base.token_axis(names(len(norms)), "")),
            color=alt.Color(
                "interference:Q",
                scale=alt.Scale(domain=[0, 1], range=[base.QK, base.OV], clamp=True),
                legend=alt.Legend(title="interference", orient="bottom", gradientLength=120),
            ),
            tooltip=["row:Q", alt.Tooltip("norm:Q", format=".3f"), alt.Tooltip("interference:Q", format=".3f")],
        )
    )


def share_bars(D: np.ndarray, height: int = 245) -> alt.LayerChart:
    """Draw the strip of ``D_i``, one bar a feature, with the shares of the polytopes as rules."""
    bars = base.bars(names(len(D)), D, title="Share of a dimension", unit="Dᵢ", height=height, limit=(0, 1.05))
    rules = pd.DataFrame({"value": [2 / 5, 1 / 2, 1.0], "label": ["2/5", "1/2", "1"]})
    marks = alt.Chart(rules).encode(x="value:Q")
    layers = [bars, marks.mark_rule(color=base.DIRECT, strokeDash=[4, 3])]
    for row, align in ((0, "right"), (1, "left"), (2, "center")):
        one = alt.Chart(rules[row : row + 1]).mark_text(color=base.DIRECT, dy=-6, y=0, align=align)
        layers.append(one.encode(x="value:Q", text="label:N"))
    return alt.layer(*layers)


def stored_by_density(
    densities: Sequence[float], stored: Sequence[int], m: int, n: int, chosen: float, height: int = 240
) -> alt.LayerChart:
    """Draw how many features are stored at each density, with the m a linear model could keep."""
    data = pd.DataFrame({"density": densities, "stored": stored})
    x = alt.X(
        "density:Q",
        scale=alt.Scale(type="log", reverse=True),
        title="density 1 − S (sparser to the right)",
        axis=alt.Axis(grid=False),
    )
    y = alt.Y(
        "stored:Q",
        title="features stored",
        scale=alt.Scale(domain=[0, n + 0.5], nice=False),
        axis=alt.Axis(tickMinStep=1),
    )
    curve = alt.Chart(data, title="Sparsity buys features", height=height).encode(x=x, y=y)
    rule = alt.Chart(pd.DataFrame({"stored": [m], "label": [f"m = {m} dimensions"]})).encode(y="stored:Q")
    here = (
        alt.Chart(pd.DataFrame({"density": [chosen]}))
        .mark_rule(color=base.REMOVED, strokeDash=[4, 3])
        .encode(x="density:Q")
    )
    return alt.layer(
        here,
        rule.mark_rule(color=base.DIRECT, strokeDash=[4, 3]),
        rule.mark_text(color=base.DIRECT, align="left", x=4, dy=-7).encode(text="label:N"),
        curve.mark_line(color=base.QK),
        curve.mark_point(color=base.QK, filled=True, size=50, opacity=1).encode(tooltip=["density:Q", "stored:Q"]),
    )


def shares_by_density(
    densities: Sequence[float], shares: Sequence[Sequence[float]], title: str, height: int = 240
) -> alt.LayerChart:
    """Draw every ``D_i`` at every density, equal ones as one larger dot, over the shares of known polytopes."""
    rows = []
    for density, row in zip(densities, shares, strict=True):
        values, counts = np.unique(np.round(np.asarray(row, dtype=float) / 0.02) * 0.02, return_counts=True)
        rows += [(density, value, count) for value, count in zip(values, counts, strict=True)]
    data = pd.DataFrame(rows, columns=["density", "share", "features"])
    rules = pd.DataFrame({"share": list(POLYTOPES.values()), "label": list(POLYTOPES)})
    marks = alt.Chart(rules).encode(y="share:Q")
    dots = (
        alt.Chart(data, title=title, height=height)
        .mark_point(filled=True, color=base.QK, opacity=0.75)
        .encode(
            x=alt.X(
                "density:Q",
                scale=alt.Scale(type="log", reverse=True),
                title="density 1 − S (sparser to the right)",
                axis=alt.Axis(grid=False),
            ),
            y=alt.Y("share:Q", title="Dᵢ", scale=alt.Scale(domain=[0, 1.05], nice=False), axis=alt.Axis(grid=False)),
            size=alt.Size("features:Q", legend=None, scale=alt.Scale(range=[14, 260])),
            tooltip=["density:Q", alt.Tooltip("share:Q", format=".2f"), "features:Q"],
        )
    )
    text = marks.mark_text(color=base.DIRECT, align="left", x="width", dx=4).encode(text="label:N")
    return alt.layer(marks.mark_rule(color=base.DIRECT, strokeDash=[3, 4], opacity=0.7), text, dots)


def dimensions_per_feature(densities: Sequence[float], values: Sequence[float], height: int = 240) -> alt.LayerChart:
    """Draw D* over density: it rests at 1 and at 1/2."""
    data = pd.DataFrame({"density": densities, "value": values})
    curve = alt.Chart(data, title="Dimensions per stored feature", height=height).encode(
        x=alt.X(
            "density:Q",
            scale=alt.Scale(type="log", reverse=True),
            title="density 1 − S (sparser to the right)",
            axis=alt.Axis(grid=False),
        ),
        y=alt.Y(
            "value:Q", title="D* = m / ‖W‖²", scale=alt.Scale(domain=[0, 1.05], nice=False), axis=alt.Axis(grid=False)
        ),
        tooltip=["density:Q", alt.Tooltip("value:Q", format=".3f")],
    )
    rules = (
        alt.Chart(pd.DataFrame({"value": [1.0, 0.5]}))
        .mark_rule(color=base.DIRECT, strokeDash=[4, 3])
        .encode(y="value:Q")
    )
    return alt.layer(
        rules, curve.mark_line(color=base.QK), curve.mark_point(color=base.QK, filled=True, size=50, opacity=1)
    )


def phase_diagram(
    curves: dict[str, tuple[Sequence[float] | np.ndarray, Sequence[float] | np.ndarray]],
    points: pd.DataFrame,
    here: tuple[float, float],
    height: int = 330,
) -> alt.LayerChart:
    """Draw trained models (columns ``density, importance, kind``) and boundaries over density and importance.

    ``curves`` maps a name to its (importances, densities); the first is solid with its pair side filled.
    """
    x = alt.X(
        "density:Q",
        scale=alt.Scale(type="log", domain=[0.03, 1], nice=False, clamp=True),
        title="density p",
        axis=alt.Axis(grid=False, values=[0.03, 0.1, 0.3, 1]),
    )
    y = alt.Y(
        "importance:Q",
        scale=alt.Scale(type="log", domain=[0.1, 10]),
        title="importance I",
        axis=alt.Axis(grid=False, values=[0.1, 0.3, 1, 3, 10]),
    )
    frames = [
        pd.DataFrame({"importance": i, "density": p, "curve": name, "from": 0.03}) for name, (i, p) in curves.items()
    ]
    side = alt.Chart(frames[0]).mark_area(orient="horizontal", color=base.QK, opacity=0.12)
    cross = alt.Chart(pd.DataFrame({"density": [here[0]], "importance": [here[1]]}))
    chosen = cross.mark_point(shape="diamond", size=320, strokeWidth=2.5, color=base.POSITION, filled=False)
    layers = [
        side.encode(x=x, x2="from:Q", y=y),
        _boundaries(pd.concat(frames)).encode(x=x, y=y),
        _trained_models(points).encode(x=x, y=y),
        chosen.encode(x=x, y=y),
    ]
    return alt.layer(*layers).properties(title="Two features, one dimension", height=height)


def _boundaries(frame: pd.DataFrame) -> alt.Chart:
    """Return the boundary curves, told apart by their dashes."""
    legend = alt.Legend(title=None, orient="bottom", labelLimit=600, columns=1)
    dashes = alt.StrokeDash("curve:N", sort=None, legend=legend)
    line = alt.Chart(frame).mark_line(strokeWidth=2.5, color=base.REMOVED)
    return line.encode(order="importance:Q", strokeDash=dashes)


def _trained_models(points: pd.DataFrame) -> alt.Chart:
    """Return one mark per trained model, colour and shape saying what it keeps."""
    kinds = alt.Scale(domain=list(KIND_COLOURS), range=list(KIND_COLOURS.values()))
    shapes = alt.Scale(domain=list(KIND_COLOURS), range=["circle", "square", "triangle-up"])
    legend = alt.Legend(title="trained model", orient="right")
    dots = alt.Chart(points).mark_point(filled=True, size=65, opacity=1)
    return dots.encode(
        color=alt.Color("kind:N", scale=kinds, legend=legend),
        shape=alt.Shape("kind:N", scale=shapes, legend=legend),
        tooltip=[alt.Tooltip("density:Q", format=".3f"), alt.Tooltip("importance:Q", format=".2f"), "kind:N"],
    )
