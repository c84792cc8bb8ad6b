"""Claim: an attention head is two independent tables, QK (where it looks) and OV (what it then says).

Elhage et al. 2021, "Attention heads are independent and additive" and "One-layer attention-only transformers:
QK and OV circuits".
"""

import pandas as pd
import streamlit as st
import torch

from circuits import copying, hand_head, heads, tokens
from circuits.charts import base
from circuits.charts import heads as charts
from pages import ui
from pages.ui.cached import heads as cached

view = ui.begin("qk_ov_circuits")
weights, run, name, labels = view.weights, view.run, view.model_name, view.labels
HEAD = "qk_ov_circuits.head"


def picked(board: str) -> None:
    """Take a click on the board as the choice of a head."""
    for point in st.session_state[board].selection["pick"]:
        st.session_state[HEAD] = str(weights.heads[point["head"]])


def words(found: heads.Tokens) -> str:
    """Return tokens as one line of a table."""
    return "  ".join(tokens.labels(view.model, found.ids.tolist()))


# ── The first screen: a head, a token, two tables ────────────────────────────────────────────────────────

one, two, three = st.columns(3, gap="medium", vertical_alignment="bottom")
with one:
    head = ui.head("Head", weights.heads, name="head")
with two:
    shown = ui.choice("Pattern", ("raw", "value-weighted"), name="pattern", help="Weighted: A · ‖x W_V W_O‖₂.")
with three:
    typed = ui.toggle("Type a source token", name="typed", help="Otherwise the token in focus above is the source.")
    source = ui.token("Source token", view.model, " the", name="source") if typed else view.ids[view.focus]
label = tokens.label(view.model, source)
patterns = run.pattern if shown == "raw" else cached.value_weighted(name, view.ids)

board, figures = st.columns([1, 3], gap="small")
with board:
    board_key = f"board {name} {hash(view.ids)} {head} {shown}"
    st.altair_chart(
        charts.board(patterns.flatten(0, 1).numpy(), [str(h) for h in weights.heads], weights.heads.index(head)),
        key=board_key,
        on_select=lambda: picked(board_key),
        alt="Small pictures of every head's attention pattern; the chosen head is framed",
    )
    error = (heads.head_output(weights, run, head) - run.head_out[head]).abs().max()
    ui.check(f"max |A X W_V W_O − output of {head}|", float(error), 1e-3)
with figures:
    ready = ui.predict(
        ui.Prediction(
            f"{head} has two tables for a source token: who would look at it, and what it makes more likely. "
            "Suppose W_QK were another matrix. What would happen to the second table?",
            ("Nothing", "It would scale", "It would change"),
            "Nothing",
            "OV is a table of the source alone. Attention only decides how much of a row is added, and where.",
        )
    )
    if ready:
        where, who, what = st.columns([1.5, 1, 1], gap="small")
        with where:
            figure = base.heatmap(
                patterns[head].numpy(),
                labels,
                labels,
                title=f"{head}: where each token looks",
                unit="attention" if shown == "raw" else "length sent",
                limit=1.0 if shown == "raw" else None,
                causal=True,
                height=310,
            )
            ui.chart(
                charts.narrow(figure),
                "Each row shares out 1." if shown == "raw" else "Short vectors go pale.",
                f"Attention pattern of {head}",
                key="pattern",
            )
        lookers = heads.top_tokens(heads.column(heads.centred_qk_circuit(weights, head), source), 10)
        raised = heads.top_tokens(heads.row(heads.ov_circuit(weights, head), source), 10)
        for column, found, colour, title, unit in (
            (who, lookers, base.QK, f"Who looks at {label}", "score (QK)"),
            (what, raised, base.OV, f"What {label} raises", "logit (OV)"),
        ):
            names = tokens.labels(view.model, found.ids.tolist())
            with column:
                figure = charts.token_bars(
                    names, found.values.tolist(), title=title, unit=unit, colour=colour, height=310
                )
                ui.chart(figure, "Of all tokens.", f"{title}: {unit}", key=f"table {unit}")

# ── The idea ─────────────────────────────────────────────────────────────────────────────────────────────

ui.idea(
    "A head reads a *source* position, and writes to a *destination* position. Two questions, two matrices.\n\n"
    "**Where?** The destination's vector and the source's vector meet in $W_{QK} = W_Q W_K^\\top$. The result is "
    "one number, the score. A softmax over all earlier positions turns scores into attention $A$.\n\n"
    "**What?** The source's vector goes through $W_{OV} = W_V W_O$ and is added at the destination, as much as "
    "$A$ says.\n\n"
    "Put the embeddings around both and you have tables over *tokens*: the **QK circuit** (who looks at whom) and "
    "the **OV circuit** (what a token raises when it is looked at). They have $V^2$ entries but rank at most "
    "$d_{head}$, so a row is read from the factors and the table is never built.\n\n"
    "Scores are divided by $\\sqrt{d_{head}}$, and each row is centred: adding one number to a whole row of "
    "scores changes no attention. Tables show tokens only. Positions add their own part, split below, and from "
    "layer 1 on what other heads wrote adds more (page 07).",
    r"\mathrm{out} = A\,X\,W_{OV},\qquad A = \mathrm{softmax}^*\!\Big(\tfrac{X W_{QK} X^\top}{\sqrt{d_{head}}}\Big)",
    {
        "X": f"stream, [n, {weights.d_model}]",
        r"W_Q, W_K, W_V": f"[{weights.d_model}, {weights.d_head}]; $W_O$: [{weights.d_head}, {weights.d_model}]",
        r"W_{QK}, W_{OV}": f"[{weights.d_model}, {weights.d_model}], rank ≤ {weights.d_head}",
        r"A": "[n, n], rows sum to 1, nothing above the diagonal",
        r"W_E W_{QK} W_E^\top,\ W_E W_{OV} W_U": f"[{weights.d_vocab:,}, {weights.d_vocab:,}]",
    },
    paper=r"h(x) = (A \otimes W_O W_V)\,x,\quad A = \mathrm{softmax}^*(x^\top W_Q^\top W_K x)",
)

# ── Tokens and positions in the score ────────────────────────────────────────────────────────────────────

st.markdown("#### One score, four parts")
if head.layer:
    st.markdown(
        f"{head} reads what layer 0 wrote, so its scores have many more parts than four (page 07 sorts them). "
        "Choose a layer-0 head to see the split."
    )
else:
    split = heads.score_split(weights, run, head)
    seen = {part: heads.centre_visible(getattr(split, part)) for part in split._fields}
    limit = max(float(part.abs().max()) for part in seen.values())
    for column, (part, values) in zip(st.columns(4), seen.items(), strict=True):
        query_side, key_side = ({"tok": "token", "pos": "position"}[side] for side in part.split("_"))
        with column:
            figure = base.heatmap(
                values.numpy(),
                labels,
                labels,
                title=f"{query_side} → {key_side}",
                unit="score",
                row_title="query",
                column_title="key",
                diverging=True,
                limit=limit,
                causal=True,
                height=240,
            )
            ui.chart(
                charts.narrow(figure),
                f"Typical size {float(values.square().mean().sqrt()):.2f}.",
                f"Part of the scores of {head} from the destination's {query_side} and the source's {key_side}",
                key=part,
            )
    st.caption(
        "The destination's side is named first. All four have one colour scale, and each row is centred over the "
        "keys it can see. A stripe along the diagonal can only come from position → position."
    )
    error = (heads.masked(split.total) - run.scores[head]).nan_to_num(0, 0, 0).abs().max()
    ui.check("max |four parts − scores|", float(error), 1e-3)

# ── Mask and scale ───────────────────────────────────────────────────────────────────────────────────────

st.markdown("#### The mask and the scale")
left, right = st.columns([1, 2], gap="medium")
with left:
    mask = ui.toggle("Causal mask", True, name="mask")
    divisor = ui.slider("Divide q·k by", 0.5, 32.0, round(weights.d_head**0.5, 1), step=0.1, name="divisor")
    st.caption(f"The model divides by √{weights.d_head} = {weights.d_head**0.5:.2f}. Less makes attention sharper.")
    scores = heads.raw_scores(weights, run, head) * weights.d_head**0.5 / divisor
    pattern = (heads.masked(scores) if mask else scores).softmax(-1)
    leak = float(heads.future_attention(pattern).mean())
    ui.measure("mean attention on the future", f"{leak:.3f}", "" if mask else "The model would read the answer.")
    ui.measure("mean entropy of a row", f"{float(heads.entropy(pattern).mean()):.2f} nats")
with right:
    one, two = st.columns(2)
    with one:
        figure = base.heatmap(
            pattern.numpy(),
            labels,
            labels,
            title=f"{head} with these settings",
            unit="attention",
            limit=1.0,
            height=260,
        )
        ui.chart(figure, "Without the mask, cells above the diagonal fill.", "Pattern with the settings", key="masked")
    with two:
        n = len(labels)
        sees = torch.arange(1, n + 1) if mask else torch.full((n,), n)
        figure = base.curves(
            {"this head": heads.entropy(pattern).tolist(), "equal attention": sees.log().tolist()},
            range(n),
            title="How spread each row is",
            x_title="query (destination)",
            y_title="entropy, nats",
            colours={"this head": base.QK, "equal attention": base.DIRECT},
            x_labels=labels,
            height=260,
        )
        ui.chart(
            figure, "0 is one token only; the grey line is the most there can be.", "Entropy by row", key="entropy"
        )

# ── What it reads, what it writes ────────────────────────────────────────────────────────────────────────

st.markdown("#### Singular directions: what the head reads and writes")
circuit = ui.choice("Matrix", ("OV", "QK"), name="matrix")
sides = {"OV": ("reads", "writes"), "QK": ("query side", "key side")}[circuit]
table = pd.DataFrame(
    [
        {
            "gain": round(found.gain, 2),
            f"{sides[0]} (+)": words(found.left_plus),
            f"{sides[1]} (+)": words(found.right_plus),
            f"{sides[0]} (−)": words(found.left_minus),
            f"{sides[1]} (−)": words(found.right_minus),
        }
        for found in cached.directions(name, circuit, *head)
    ]
)
st.dataframe(table, hide_index=True, width="stretch")
st.caption(
    "In rows, x W = Σ (x·u) s vᵀ: left singular vectors u read, right ones v write, s is the gain. The sign of a "
    "pair is arbitrary, so both ends are shown; what is read at + is written (or matched) at +. Use singular "
    "directions here, not eigenvectors: those make sense only where input and output are the same space."
)

# ── Does it copy? ────────────────────────────────────────────────────────────────────────────────────────

st.markdown("#### Does it copy? Eigenvalues beside those of random heads")
left, right = st.columns([1, 1.4], gap="medium")
eigenvalues = copying.ov_eigenvalues(weights, head)
score, null = cached.copying_scores(name)[head], cached.null(name)
with left:
    random = cached.null_eigenvalues(name)[:20].flatten() * copying.head_size(weights, head)
    figure = charts.disc(eigenvalues.numpy(), random.numpy(), f"OV eigenvalues of {head}")
    table = pd.DataFrame({"real": eigenvalues.real.numpy(), "imaginary": eigenvalues.imag.numpy()})
    ui.chart(figure, "Right of zero: a mixture of tokens raises itself.", "Eigenvalues", key="disc", table=table)
with right:
    st.markdown(
        "If $x M = \\lambda x$ with $\\lambda > 0$, a mixture of tokens raises the logits of the same mixture. "
        "$\\sum\\lambda / \\sum|\\lambda|$ sums that up, between −1 and 1. A random head does not score exactly 0, "
        "so the grey dots are random $W_V, W_O$ of the same size between *this* model's embeddings."
    )
    ui.measure(f"copying score of {head}", f"{score:+.3f}", f"{null.z(score):+.1f} sd from random heads")
    ui.measure("random heads", f"{null.mean:+.3f} ± {null.sd:.3f}", f"({cached.DRAWS} draws)")
    st.markdown("Page 06 has the whole scoreboard, and an example of why a score of 1 is no proof.")
    trace = heads.ov_circuit(weights, head)
    gap = abs(eigenvalues.sum().real - (trace.A * trace.B.T).sum())
    ui.check("|Σλ of the small product − trace of the V × V circuit|", float(gap), 1e-2)

# ── Gauge ────────────────────────────────────────────────────────────────────────────────────────────────

st.markdown("#### Queries and keys are not the head")
left, right = st.columns([1, 2], gap="medium")
seed = st.session_state.setdefault("qk_ov_circuits.gauge", 0)
with left:
    st.markdown(
        "$W_Q R,\\ W_K R^{-\\top}$ and $W_V R,\\ R^{-1} W_O$ have the very same products, for any invertible $R$."
    )
    if st.button("Re-parametrise", icon=":material/shuffle:"):
        seed = st.session_state["qk_ov_circuits.gauge"] = seed + 1
    other = cached.regauged(name, view.ids, seed)
    ui.check("max |A changed − A|", float((other.pattern - run.pattern).abs().max()), 1e-3)
    ui.check("max |logits changed − logits|", float((other.logits - run.logits).abs().max()), 1e-2)
with right:
    x = run.resid_pre[head.layer, view.focus]
    query = x @ weights.W_Q[head]
    turned = query @ heads.random_gauge(weights.d_head, seed)
    figure = base.curves(
        {"as trained": query.tolist(), "re-parametrised": turned.tolist()},
        range(weights.d_head),
        title="The query vector at the focus, before and after",
        x_title="coordinate",
        y_title="value",
        colours={"as trained": base.DIRECT, "re-parametrised": base.QK},
        height=200,
    )
    ui.chart(figure, "Press again: the query becomes another vector, the pattern stays.", "Query vector", key="query")

# ── By hand ──────────────────────────────────────────────────────────────────────────────────────────────

st.markdown("#### A head small enough to follow by hand")
columns = st.columns([1, 1, 1, 1.6], gap="medium")
text = columns[0].text_input("A text of a and b", "aba", key="qk_ov_circuits.hand", max_chars=8)
columns[0].caption("a = (1, 0) and b = (0, 1), so both matrices are tables over words. No √d_head.")
ab = list(hand_head.WORDS)
edited = []
for column, title, start in (
    (columns[1], "W_QK", [[0.0, 1.1], [0.0, 0.0]]),
    (columns[2], "W_OV", [[1.0, 0.0], [0.0, 2.0]]),
):
    column.caption(f"{title}: rows {'look' if title == 'W_QK' else 'are looked at'}. Edit it.")
    start = pd.DataFrame(start, index=ab, columns=ab)
    edited.append(column.data_editor(start, key=f"qk_ov_circuits.{title}", width="stretch"))
with columns[3], ui.readable_errors():
    hand = hand_head.hand_head(text, *(torch.tensor(frame.fillna(0).to_numpy(float)) for frame in edited))
    rows = [f"{position} {letter}" for position, letter in enumerate(text)]
    steps = pd.DataFrame(hand.pattern.numpy(), index=rows, columns=[f"A on {row}" for row in rows]).round(3)
    steps["out a"], steps["out b"] = hand.out.numpy().round(3).T
    st.dataframe(steps, width="stretch")
    st.caption("Each row: the attention of one word, then what the head adds there.")
ui.by_hand(
    "the last a of “a b a”",
    "With W_QK(a, b) = 1.1 ≈ ln 3 and every other score 0, the last *a* has scores 0, ln 3, 0. Exponentials: 1, 3, 1. "
    "Attention: 1/5, 3/5, 1/5. W_OV sends (1, 0) for each *a* and (0, 2) for *b*. "
    "Output: 2/5 · (1, 0) + 3/5 · (0, 2) = (0.4, 1.2).",
)

# ── Exercises, code, limits ──────────────────────────────────────────────────────────────────────────────

shipped = ui.cached.weights("two-layer")
first_layer = [h for h in shipped.heads if h.layer == 0]
stripe = max(first_layer, key=lambda h: cached.positional_previous("two-layer")[h])
ui.exercises(
    ui.Exercise(
        "`W_Q` and `W_K` are [64, 8]. What is the shape of `W_Q.T @ W_K`?",
        ui.Sizes((8, 8)),
        ("Inner sizes must match: 64 with 64.", "[8, 64] times [64, 8]."),
        "No error appears, but it is the wrong object. The scores need `W_Q @ W_K.T`, [64, 64].",
    ),
    ui.Exercise(
        "A full OV circuit has V = 1,000 and d_head = 8. How many numbers are enough to store it?",
        ui.Number(16_000),
        ("Its rank is at most 8.", "Two factors: [1,000, 8] and [8, 1,000]."),
        "2 · V · r = 16,000, against 1,000,000 entries.",
    ),
    ui.Exercise(
        "At position 3 (counting from 0) all scores are equal. How much attention does each visible token get?",
        ui.Number(0.25),
        ("Which positions are visible from 3?", "0, 1, 2 and 3: four of them."),
        "Softmax of four equal numbers is 1/4 each.",
    ),
    ui.Exercise(
        "You add 5 to every score of one row. What happens to the attention?",
        ui.Choice(("Nothing", "That row gets sharper", "The column gets more attention"), "Nothing"),
        ("Write the softmax with e⁵ in it.", "e⁵ is in every term, above and below."),
        "It cancels. That is why each row of the QK table is centred before it is shown.",
    ),
    ui.Exercise(
        "In `two-layer`, which layer-0 head's *positions alone* (W_pos W_QK W_posᵀ, then mask and softmax) put the "
        "most attention on the token just before?",
        ui.HeadName((stripe,)),
        (
            "Token–token tables cannot see who stands next to whom.",
            "Choose `two-layer` and look in *One score, four parts* for a stripe in position → position.",
        ),
        "Its stripe just below the diagonal is in the position–position part: that is a previous-token head.",
    ),
)
ui.show_code(
    heads.W_QK,
    heads.W_OV,
    heads.centred_qk_circuit,
    heads.ov_circuit,
    heads.value_weighted_pattern,
    heads.score_split,
    copying.ov_eigenvalues,
)
ui.limits(
    "The tables say what a head would do with bare tokens. What it does on a text also depends on positions, on the "
    "other tokens in the softmax and, above layer 0, on what other heads wrote. Large attention is not large effect: "
    "compare raw with value-weighted."
)
ui.takeaways(
    "A head is W_QK and W_OV. How each splits into two factors is arbitrary.",
    "Where and what are separate tables: one never changes the other.",
    "Rows of the QK table cannot be compared with each other; differences within a row can.",
)
ui.end(view)
