"""Claim: an attention head is two independent tables, QK (where it looks) and OV (what it then says).

Elhage et al. 2021, "Attention heads are independent and additive" and "One-layer attention-only transformers:
QK and OV circuits".
"""

import pandas as pd
import streamlit as st
import torch

from circuits import copying, heads, tokens
from circuits.charts import base
from circuits.charts import heads as charts
from circuits.weights import causal_mask
from pages import ui
from pages.ui.cached import heads as cached
from pages.ui.questions import qk_ov_circuits as questions
from pages.ui.small_matrices import head_bench

view = ui.begin("qk_ov_circuits")
weights, run, name, labels = view.weights, view.run, view.model_name, view.labels


def take_click(board: str) -> None:
    """Let a click on the board choose the head."""
    for point in st.session_state[board].selection["pick"]:
        st.session_state["qk_ov_circuits.head"] = str(weights.heads[point["head"]])


def words(found: heads.Tokens) -> list[str]:
    return tokens.labels(view.model, found.ids.tolist())


# ── The first screen: a head, a token, two tables ────────────────────────────────────────────────────────

one, two, three = st.columns(3, gap="medium", vertical_alignment="bottom")
with one:
    copier = max(copies := cached.copying_scores(name), key=copies.get)  # its tables are the easiest to read
    head = ui.head("Head", weights.heads, name="head", default=copier)
with two:
    shown = ui.choice("Pattern", ("raw", "value-weighted"), name="pattern", help="Weighted: A · ‖x W_V W_O‖₂.")
with three:
    typed = ui.toggle("Type a source token", name="typed", help="Otherwise the token in focus above is the source.")
    source = ui.token("Source token", view.model, " the", name="source") if typed else view.ids[view.focus]
label, raw = tokens.label(view.model, source), shown == "raw"
patterns = run.pattern if raw else cached.value_weighted(name, view.ids)

board, figures = st.columns([1, 3], gap="small")
with board:
    board_key = f"board {name} {hash(view.ids)} {head} {shown}"
    st.altair_chart(
        charts.board(patterns.flatten(0, 1).numpy(), [str(h) for h in weights.heads], weights.heads.index(head)),
        key=board_key,
        on_select=lambda: take_click(board_key),
        alt="Small pictures of every head's attention pattern; the chosen head is framed",
    )
    error = (heads.head_output(weights, run, head) - run.head_out[head]).abs().max()
    ui.check("max |A X W_OV − output|", float(error), 1e-3)
with figures:
    if ui.predict(questions.prediction(head)):
        where, who, what = st.columns([1.5, 1, 1], gap="small")
        with where:
            ui.chart(
                charts.square(
                    patterns[head].numpy(),
                    labels,
                    f"{head}: where each token looks",
                    "attention" if raw else "length sent",
                    330,
                    limit=1.0 if raw else None,
                    causal=True,
                ),
                "Each row shares out 1; full colour is all of it."
                if raw
                else "What sends only a short vector goes pale.",
                f"Attention pattern of {head}",
                key="pattern",
            )
        rare = ui.cached.rare()
        lookers = heads.top_tokens(heads.column(heads.centred_qk_circuit(weights, head), source))
        raised = heads.top_tokens(heads.row(heads.ov_circuit(weights, head), source))
        for column, found, colour, title, unit in (
            (who, lookers, base.QK, f"Who looks at {label}", "score (QK)"),
            (what, raised, base.OV, f"What {label} raises", "logit (OV)"),
        ):
            with column:
                ui.chart(
                    charts.token_bars(
                        words(found), found.values.tolist(), title=title, unit=unit, colour=colour, height=310
                    ),
                    "Of all tokens."
                    + (f" {n} hardly occur in training." if (n := len(rare & {*found.ids.tolist()})) else ""),
                    f"{title}: {unit}",
                    key=f"table {unit}",
                )

# ── The idea ─────────────────────────────────────────────────────────────────────────────────────────────

ui.idea(
    "A head reads at a *source* position and writes at a *destination*. Two questions, two matrices.\n\n"
    "**Where?** Destination and source meet in $W_{QK} = W_Q W_K^\\top$ and give a score. A softmax over the "
    "positions so far turns scores into attention $A$.\n\n"
    "**What?** The source goes through $W_{OV} = W_V W_O$ and is added at the destination, as much as $A$ says.\n\n"
    "With the embeddings around them these are tables over *tokens*: the **QK circuit** (who looks at whom) and the "
    "**OV circuit** (what a token raises where it is looked at). Each has $V^2$ entries but rank at most "
    "$d_{head}$, so rows are read from the factors and the table is never built.\n\n"
    "Scores are divided by $\\sqrt{d_{head}}$. Each row is centred: one number added to a whole row changes no "
    "attention. The tables know tokens only; positions, and from layer 1 on other heads, add their part.",
    r"\mathrm{out} = A\,X\,W_{OV},\qquad A = \mathrm{softmax}^*\!\Big(\tfrac{X W_{QK} X^\top}{\sqrt{d_{head}}}\Big)",
    {
        "X": f"the stream, [n, {weights.d_model}]",
        "W_Q, W_K, W_V": f"[{weights.d_model}, {weights.d_head}]; $W_O$: [{weights.d_head}, {weights.d_model}]",
        "W_{QK}, W_{OV}": f"[{weights.d_model}, {weights.d_model}], rank ≤ {weights.d_head}",
        "A": "[n, n]; rows sum to 1, nothing above the diagonal",
        r"W_E W_{QK} W_E^\top,\ W_E W_{OV} W_U": f"[{weights.d_vocab:,}, {weights.d_vocab:,}]",
    },
    paper=r"h(x) = (A \otimes W_O W_V)\,x,\quad A = \mathrm{softmax}^*(x^\top W_Q^\top W_K x)",
)

# ── Tokens and positions in the score ────────────────────────────────────────────────────────────────────

st.markdown("#### One score, four parts")
positional = cached.positional_previous(name)
low = head if head.layer == 0 else max((each for each in positional if each.layer == 0), key=positional.get)
if head.layer:
    st.markdown(
        f"{head} reads what layer 0 wrote, so its scores have many more parts than four (page 7 sorts them). "
        f"Shown instead: {low}, the head of layer 0 whose positions alone look one back."
    )
with st.container():
    split = heads.score_split(weights, run, low)
    seen = {title: heads.centre_visible(getattr(split, part)) for part, title in charts.PARTS.items()}
    visible = ~causal_mask(len(view.ids))
    limit = max(1e-9, *(float(values.abs().max()) for values in seen.values()))
    for column, (title, values) in zip(st.columns(4), seen.items(), strict=True):
        with column:
            ui.chart(
                charts.part(values.numpy(), labels, title, limit),
                f"Typical size {float(values[visible].square().mean().sqrt()):.2f}.",
                f"Part of the scores of {low}, {title}",
                key=title,
            )
    st.caption(
        f"The destination's side is named first. Orange is above zero, blue below, full colour ±{limit:.1f}; "
        "each row is centred over the keys it sees. Token → token cannot know who stands next to whom: a stripe "
        "belongs to position → position."
    )
    error = (heads.masked(split.total) - run.scores[low]).nan_to_num(0, 0, 0).abs().max()
    ui.check("max |four parts − scores|", float(error), 1e-3)

# ── Mask and scale ───────────────────────────────────────────────────────────────────────────────────────

st.markdown("#### The mask and the scale")
left, middle, right = st.columns(3, gap="medium")
with left:
    mask = ui.toggle("Causal mask", True, name="mask")
    factor = ui.slider("Divide q·k by √d_head times", 0.1, 5.0, 1.0, step=0.1, name="divisor")
    divisor = factor * weights.d_head**0.5
    st.caption(f"√{weights.d_head} = {weights.d_head**0.5:.2f}. Less makes attention sharper.")
    n = len(labels)
    hidden = causal_mask(n) if mask else torch.zeros(n, n, dtype=torch.bool)
    pattern = heads.attention(weights, run, head, divisor, hidden)
    leak = float(heads.future_attention(pattern).mean())
    ui.measure("attention on the future", f"{leak:.3f}", "" if mask else "In training it could read the answer.")
    ui.measure("mean entropy of a row", f"{float(heads.entropy(pattern).mean()):.2f} nats")
with middle:
    figure = charts.square(pattern.numpy(), labels, f"{head} with these settings", "attention", 330, limit=1.0)
    ui.chart(figure, "Without the mask, cells above the diagonal fill.", "Pattern with the settings", key="masked")
with right:
    figure = base.curves(
        {"this head": heads.entropy(pattern).tolist(), "equal attention": (~hidden).sum(1).log().tolist()},
        range(n),
        title="How spread each row is",
        x_title="query (destination)",
        y_title="entropy, nats",
        colours={"this head": base.QK, "equal attention": base.DIRECT},
        x_labels=labels,
        height=280,
    )
    ui.chart(figure, "0: one token only. Grey: the most there can be.", "Entropy of each row", key="entropy")

# ── What it reads, what it writes, whether it copies ─────────────────────────────────────────────────────

st.markdown("#### Singular directions: what the head reads and writes")
matrix = ui.choice("Matrix", ("OV", "QK"), name="matrix")
sides = {"OV": ("reads", "writes"), "QK": ("query side", "key side")}[matrix]
ends = [f"{side} ({sign})" for sign in "+−" for side in sides]
rows = [
    (
        found.gain,
        *("  ".join(words(end)) for end in (found.left_plus, found.right_plus, found.left_minus, found.right_minus)),
    )
    for found in cached.directions(name, matrix, *head)
]
st.dataframe(pd.DataFrame(rows, columns=["gain", *ends]).round(2), hide_index=True, width="stretch")
st.caption(
    "x W = Σ (x·u) s vᵀ: left singular vectors u read, right ones v write, s is the gain. The sign of a pair is "
    "arbitrary, so both ends are shown; what is read at + is written at +. For reading and writing use these, not "
    "eigenvectors, which need input and output in one space."
)

st.markdown("#### Does it copy? Eigenvalues beside those of random heads")
left, right = st.columns([1, 1.4], gap="medium")
eigenvalues, circuit = copying.ov_eigenvalues(weights, head), heads.ov_circuit(weights, head)
score, null = cached.copying_scores(name)[head], cached.null(name)
with left:
    random = cached.null_eigenvalues(name)[:20].flatten() * copying.head_size(weights, head)
    figure = charts.discs({str(head): eigenvalues.numpy()}, {str(head): random.numpy()}, size=200)
    table = pd.DataFrame({"real": eigenvalues.real.numpy(), "imaginary": eigenvalues.imag.numpy()})
    ui.chart(
        figure,
        "Orange, right of zero: a mixture raises itself. 95 % of random eigenvalues lie in the circle.",
        "Eigenvalues",
        key="disc",
        table=table,
    )
with right:
    st.markdown(
        "If $x M = \\lambda x$ with $\\lambda > 0$, a mixture of tokens raises the logits of the same mixture. "
        "$\\sum\\lambda / \\sum|\\lambda|$ sums that up, from −1 to 1. A random head does not score exactly 0: the "
        "grey dots are random $W_V, W_O$ of this head's size between *this* model's embeddings."
    )
    ui.measure(f"copying score of {head}", f"{score:+.3f}", f"{null.z(score):+.1f} sd from random heads")
    ui.measure("random heads", f"{null.mean:+.3f} ± {null.sd:.3f}", f"({cached.DRAWS} draws)")
    gap = abs(eigenvalues.sum().real - (circuit.A * circuit.B.T).sum()) / eigenvalues.abs().sum()
    ui.check("|Σλ of the small product − trace of the V × V circuit| / Σ|λ|", float(gap), 1e-4)
    st.markdown("Page 6 has every head's score, and an example of why a score of 1 is no proof.")

# ── Gauge ────────────────────────────────────────────────────────────────────────────────────────────────

st.markdown("#### Queries and keys are not the head")
left, right = st.columns([1, 2], gap="medium")
with left:
    st.markdown(
        "$W_Q R,\\ W_K R^{-\\top}$ and $W_V R,\\ R^{-1} W_O$ have the very same products for any invertible $R$."
    )
    seed = ui.slider("Re-parametrise with R number", 1, 50, 1, name="gauge")
    other = cached.regauged(name, view.ids, seed)
    ui.check("max |A changed − A|", float((other.pattern - run.pattern).abs().max()), 1e-3)
    ui.check("max |logits changed − logits|", float((other.logits - run.logits).abs().max()), 1e-2)
with right:
    query = run.resid_pre[head.layer, view.focus] @ weights.W_Q[head]
    figure = base.curves(
        {"as trained": query.tolist(), "re-parametrised": (query @ heads.random_gauge(weights.d_head, seed)).tolist()},
        range(weights.d_head),
        title="The query vector at the focus, before and after",
        x_title="coordinate",
        y_title="value",
        colours={"as trained": base.DIRECT, "re-parametrised": base.QK},
        height=220,
    )
    ui.chart(
        figure, "Another R: another query vector, the same pattern.", "Query vector, before and after", key="query"
    )

# ── By hand, exercises, code ─────────────────────────────────────────────────────────────────────────────

head_bench()
ui.by_hand(
    "the last a of “a b a”",
    "With W_QK(a, b) = 1.1 ≈ ln 3 and every other score 0, the last *a* has scores 0, ln 3, 0. Exponentials: 1, 3, 1. "
    "Attention: 1/5, 3/5, 1/5. W_OV sends (1, 0) for each *a* and (0, 2) for *b*. "
    "Output: 2/5 · (1, 0) + 3/5 · (0, 2) = (0.4, 1.2).",
)
ui.exercises(*questions.exercises(name, cached.positional_previous(name)))
ui.show_code(
    heads.W_QK,
    heads.W_OV,
    heads.centred_qk_circuit,
    heads.ov_circuit,
    heads.head_output,
    heads.value_weighted_pattern,
    heads.score_split,
    copying.ov_eigenvalues,
    copying.copying_score,
    copying.null_eigenvalues,
    call=f"copying_score(ov_eigenvalues(weights, Head{tuple(head)})).item()",
    gives=score,
)
ui.limits(
    "The tables say what a head would do with bare tokens. On a text, positions, the other tokens in the softmax and, "
    "above layer 0, other heads also count. Large attention is not large effect: compare raw with value-weighted."
)
ui.takeaways(
    "A head is W_QK and W_OV. How each splits into two factors is arbitrary.",
    "Where and what are separate tables: one never changes the other.",
    "Rows of the QK table cannot be compared with each other; differences within a row can.",
)
ui.end(view)
