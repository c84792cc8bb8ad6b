"""Figures of the big idea: three models' guesses side by side, and where one logit came from."""

from collections.abc import Sequence

import altair as alt
import numpy as np
import pandas as pd

from circuits.charts import base

MODELS = {"zero-layer": base.DIRECT, "one-layer": base.OV, "two-layer": base.INDUCTION}
"""One colour a model, on every figure of the page."""

ORIGINS = {"direct path": base.DIRECT, "layer-0 heads": base.QK, "layer-1 heads": base.INDUCTION}


def next_tokens(
    guesses: dict[str, tuple[Sequence[str], np.ndarray]], *, title: str, chosen: str, height: int = 155
) -> alt.LayerChart:
    """Draw every model's likeliest next tokens, a panel a model; models that are not chosen are faded.

    ``guesses[model] = (labels, probabilities)``, likeliest first.
    """
    data = pd.DataFrame(
        [
            {"panel": panel, "model": model, "rank": rank, "token": token, "probability": float(probability)}
            for panel, (model, (labels, probabilities)) in enumerate(guesses.items())
            for rank, (token, probability) in enumerate(zip(labels, probabilities, strict=True))
        ]
    )
    data["start"] = data["panel"] + 0.36
    data["end"] = data["start"] + 0.46 * data["probability"]
    data["colour"] = data["model"].map(MODELS)
    data["opacity"] = np.where(data["model"] == chosen, 1.0, 0.6)
    scale = alt.Scale(domain=[0, len(guesses)], nice=False)
    x, end = (alt.X(field, axis=None, scale=scale) for field in ("start:Q", "end:Q"))
    # Half a row below the last bar, and a row and a half above the first for the models' names.
    y = alt.Y("rank:Q", axis=None, scale=alt.Scale(domain=[float(data["rank"].max()) + 0.6, -1.5], nice=False))
    cells = alt.Chart(data).encode(
        x=x,
        y=y,
        color=alt.Color("colour:N", scale=None),
        tooltip=["model:N", "token:N", alt.Tooltip("probability:Q", format=".4f")],
    )
    first = cells.transform_filter("datum.rank == 0")
    return alt.layer(
        cells.mark_bar(height=12).encode(x2="end:Q", opacity=alt.Opacity("opacity:Q", scale=None)),
        cells.mark_text(align="right", dx=-5, font="monospace", limit=70).encode(text="token:N"),
        cells.mark_text(align="left", dx=5).encode(x=end, text=alt.Text("probability:Q", format=".0%")),
        first.mark_text(align="left", dy=-20, fontWeight="bold").encode(text="model:N"),
    ).properties(title=title, height=height)


def origins(
    parts: dict[str, dict[str, float]], best: dict[str, float], title: str, height: int = 240
) -> alt.LayerChart:
    """Draw, model by model, what the direct path and each layer's heads add to one logit.

    A red tick marks the sum, a grey one the logit of the model's own first choice (``best``).
    """
    data = pd.DataFrame(
        [
            {"model": model, "origin": origin, "value": value, "order": list(ORIGINS).index(origin)}
            for model, shares in parts.items()
            for origin, value in shares.items()
        ]
    )
    totals = data.groupby("model", sort=False, as_index=False)["value"].sum()
    y = alt.Y("model:N", sort=list(parts), title=None)
    bars = (
        alt.Chart(data, title=title, height=height)
        .mark_bar()
        .encode(
            x=alt.X("value:Q", title="logit above the average token's", stack=True, axis=alt.Axis(tickCount=8)),
            y=y,
            color=alt.Color(
                "origin:N",
                scale=alt.Scale(domain=list(ORIGINS), range=list(ORIGINS.values())),
                legend=alt.Legend(title=None, orient="top"),
            ),
            order="order:Q",
            tooltip=["model:N", "origin:N", alt.Tooltip("value:Q", format=".3f")],
        )
    )
    firsts = alt.Chart(pd.DataFrame({"model": list(best), "value": list(best.values())}))
    marks = firsts.mark_tick(color=base.DIRECT, thickness=3, size=32).encode(x="value:Q", y=y, tooltip=["model:N"])
    sums = alt.Chart(totals).mark_tick(color=base.REMOVED, thickness=3, size=22)
    return (
        bars
        + marks
        + sums.encode(x="value:Q", y=y, tooltip=["model:N", alt.Tooltip("value:Q", title="sum", format=".3f")])
    )
