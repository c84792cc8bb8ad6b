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
    labels: Sequence[str], probabilities: np.ndarray, *, model: str, chosen: bool, height: int = 140
) -> alt.LayerChart:
    """Draw a model's likeliest next tokens; a model that is not chosen is faded."""
    return alt.layer(
        base.bars(
            labels,
            probabilities,
            title=model,
            unit="probability",
            colours=[MODELS[model]] * len(labels),
            faded=[not chosen] * len(labels),
            height=height,
            limit=(0, 1),
        )
    )


def origins(parts: dict[str, dict[str, float]], title: str, height: int = 150) -> alt.LayerChart:
    """Draw, model by model, what the direct path and each layer's heads add to one logit; a tick marks the sum."""
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
            x=alt.X("value:Q", title="logit above the average token's", stack=True),
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
    sums = alt.Chart(totals).mark_tick(color=base.REMOVED, thickness=3, size=26)
    return bars + sums.encode(x="value:Q", y=y, tooltip=["model:N", alt.Tooltip("value:Q", title="sum", format=".3f")])
