"""Figures of skip-trigrams: the two-by-two that completes itself."""

from collections.abc import Sequence

import altair as alt
import numpy as np

from circuits.charts import base


def two_by_two(table: np.ndarray, destinations: Sequence[str], outs: Sequence[str], title: str) -> alt.LayerChart:
    """Draw the four products of two trigrams: on the diagonal the chosen ones, beside it the two they force.

    ``table: [destination, out]``.
    """
    data = base.grid_frame(np.asarray(table, float), destinations, outs)
    chosen = data["query"] == data["key"]
    data["kind"] = np.where(chosen, "chosen", "forced")
    top = float(np.abs(table).max()) or 1.0
    grid = alt.Chart(data, title=title, height=230).encode(
        x=base.positions(outs, "out: the token raised", alt.X, "key", labelAngle=0, orient="top", labelFontSize=13),
        y=base.positions(destinations, "destination: the token that looks", alt.Y, "query", labelFontSize=13),
        tooltip=[
            alt.Tooltip("query_token:N", title="destination"),
            alt.Tooltip("key_token:N", title="out"),
            alt.Tooltip("value:Q", title="QK · OV", format=".3f"),
            "kind:N",
        ],
    )
    cells = grid.mark_rect(strokeWidth=4).encode(
        color=alt.Color("value:Q", scale=alt.Scale(domain=[-top, top], range="diverging"), legend=None),
        stroke=alt.Stroke(
            "kind:N",
            scale=alt.Scale(domain=["chosen", "forced"], range=[base.PREVIOUS, base.REMOVED]),
            legend=alt.Legend(title=None, orient="right"),
        ),
        strokeDash=alt.condition("datum.kind == 'forced'", alt.value([6, 4]), alt.value([1, 0])),
    )
    numbers = grid.mark_text(fontSize=18, dy=-8).encode(text=alt.Text("value:Q", format="+.2f"))
    return cells + numbers + grid.mark_text(fontSize=12, dy=14).encode(text="kind:N")
