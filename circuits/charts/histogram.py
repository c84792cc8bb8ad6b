"""Counts in bins, of features or of memories."""

import altair as alt
import pandas as pd


def histogram(
    data: pd.DataFrame, what: str, colours: dict[str, str], *, title: str, x_title: str, height: int
) -> alt.Chart:
    """Draw counts of ``what`` in bins (``from, to, kind``), each bin in the colour of its kind."""
    kinds = alt.Scale(domain=list(colours), range=list(colours.values()))
    return (
        alt.Chart(data, title=title, height=height)
        .mark_bar()
        .encode(
            x=alt.X("from:Q", bin="binned", title=x_title, axis=alt.Axis(grid=False)),
            x2="to:Q",
            y=alt.Y(f"{what}:Q", title=what),
            color=alt.Color("kind:N", scale=kinds, legend=alt.Legend(title=None, orient="top")),
            tooltip=[alt.Tooltip("from:Q", format=".2f"), alt.Tooltip("to:Q", format=".2f"), f"{what}:Q"],
        )
    )
