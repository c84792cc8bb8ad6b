"""Figures and tables of skip-trigrams: the two-by-two that completes itself, rankings, who copies."""

from collections.abc import Callable, Sequence

import altair as alt
import numpy as np
import pandas as pd

from circuits.bugs import Bug
from circuits.charts import base
from circuits.copying import Null, SelfCounts
from circuits.skip_trigrams import Active, ByHead, Ranking, Support
from circuits.weights import Head

Shown = Callable[[int], str]
"""How a token is written."""


def two_by_two(table: np.ndarray, destinations: Sequence[str], outs: Sequence[str], title: str) -> alt.LayerChart:
    """Draw the four products of two trigrams: on the diagonal the chosen ones, beside it the two they force.

    ``table: [destination, out]``.
    """
    data = base.grid_frame(np.asarray(table, float), destinations, outs)
    data["kind"] = np.where(data["query"] == data["key"], "chosen", "forced")
    top = float(np.abs(table).max()) or 1.0
    grid = alt.Chart(data, title=title, height=250).encode(
        x=base.positions(outs, "out", alt.X, "key", labelAngle=0, orient="top", labelFontSize=13),
        y=base.positions(destinations, "destination", alt.Y, "query", labelFontSize=13),
        tooltip=[
            alt.Tooltip("query_token:N", title="destination"),
            alt.Tooltip("key_token:N", title="out"),
            alt.Tooltip("value:Q", title="QK · OV", format=".3f"),
            "kind:N",
        ],
    )
    fill = alt.Color("value:Q", scale=alt.Scale(domain=[-top, top], range="diverging"), legend=None)
    frame = alt.Scale(domain=["chosen", "forced"], range=[base.PREVIOUS, base.REMOVED])
    cells = grid.mark_rect(strokeWidth=4, fillOpacity=0.25).encode(
        color=fill,
        stroke=alt.Stroke("kind:N", scale=frame, legend=None),
        strokeDash=alt.condition("datum.kind == 'forced'", alt.value([6, 4]), alt.value([1, 0])),
    )
    ink = {"color": base.DIRECT, "fontWeight": "bold"}  # legible in either theme, on a pale cell
    numbers = grid.mark_text(fontSize=18, dy=-8, **ink).encode(text=alt.Text("value:Q", format="+.2f"))
    return cells + numbers + grid.mark_text(fontSize=12, dy=14, **ink).encode(text="kind:N")


def bug_table(found: Sequence[Bug], shown: Shown) -> pd.DataFrame:
    """List bugs: the source, the two good trigrams, the two forced ones and what they get."""

    def pair(bug: Bug, first_out: int) -> str:
        return ",  ".join(
            f"{shown(bug.destinations[i])} → {shown(bug.outs[j])}" for i, j in ((0, first_out), (1, 1 - first_out))
        )

    rows = [(shown(b.source), pair(b, 0), pair(b, 1), f"{b.table[0, 1]:.2f},  {b.table[1, 0]:.2f}") for b in found]
    return pd.DataFrame(rows, columns=["source", "good", "forced", "forced QK · OV"])


def ranking_table(ranking: Ranking, support: Support, relations: Sequence[str], shown: Shown) -> pd.DataFrame:
    """List ranked skip-trigrams with both factors and the corpus counts behind them."""
    ids = {"source …": ranking.source, "destination →": ranking.destination, "out": ranking.out}
    return pd.DataFrame(
        {role: [shown(token) for token in column.tolist()] for role, column in ids.items()}
        | {"QK score": ranking.qk.numpy(), "OV logit": ranking.ov.numpy(), "QK · OV": (ranking.qk * ranking.ov).numpy()}
        | {"pair in corpus": support.pairs.numpy(), "p(out | dest.)": support.share.numpy()}
        | {"lift": support.lift.numpy(), "with the source": list(relations)}
    )


def active_table(found: Sequence[Active], places: Sequence[str], shown: Shown) -> pd.DataFrame:
    """List what every head does at one position; ``places`` are the labels of the text's positions."""
    rows = [
        (str(a.head), places[a.source], a.attention, "  ".join(map(shown, a.outs.tolist())), a.logits[0].item())
        for a in found
    ]
    return pd.DataFrame(rows, columns=["head", "looks most at", "attention", "which raises", "the first by"])


def phrase_table(phrases: dict[str, ByHead]) -> pd.DataFrame:
    """List given phrases with the head in which QK · OV is largest, both factors positive where any are."""
    rows = []
    for phrase, each in phrases.items():
        product = np.where((each.qk > 0) & (each.ov > 0), each.qk * each.ov, -np.inf)
        best = int(product.argmax())
        rows.append(
            (phrase, str(each.heads[best]), each.qk[best].item(), each.ov[best].item(), int(each.raised_more[best]))
        )
    return pd.DataFrame(
        rows, columns=["phrase (the paper's)", "best head here", "QK score", "OV logit", "outs raised more"]
    )


def scoreboard(
    scores: dict[Head, float], null: Null, counts: dict[Head, SelfCounts], chance: SelfCounts
) -> pd.DataFrame:
    """List four copying statistics for every head, and what chance gives in the last row."""
    rows = [(str(head), score, null.z(score), *counts[head]) for head, score in scores.items()]
    rows.append(("chance", null.mean, 0.0, *chance))
    names = ["head", "Σλ / Σ|λ|", "sd from null", "raises itself", "is its top 1", "in its top 5"]
    return pd.DataFrame(rows, columns=names)
