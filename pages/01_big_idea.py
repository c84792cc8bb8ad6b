"""Claim: a small transformer is a sum of paths that can be read one by one; only two layers can compose.

Elhage et al. 2021, "Summary of results" and "Model simplifications".
"""

import streamlit as st
import torch

from circuits import heads, induction, overview, paths, simplifications, tokens
from circuits.charts import big_idea as charts
from circuits.charts import induction as curves
from pages import ui
from pages.ui import registry
from pages.ui.cached import induction as cached

view = ui.begin("big_idea")
MODELS = list(charts.MODELS)
runs = {name: ui.cached.run(name, view.ids) for name in MODELS}
on_repeats = {name: cached.copy_accuracy(name) for name in MODELS}
can_repeat = [name for name in MODELS if on_repeats[name] > 0.5]


def repeat_words() -> None:
    """Put random words, twice, into the prompt of every page."""
    st.session_state["text"] = ui.random_repeat(view.model, st.session_state["big_idea.period"])


control, figure = st.columns([1, 3], gap="medium")
with control:
    layers = int(ui.choice("Layers", ["0", "1", "2"], name="layers", default="2"))
    guess = int(runs["two-layer"].logits[view.focus].argmax())
    target = ui.token_or_guess("Logit of the token", view.model, guess, name="target", help="Empty: two layers' guess.")
    ui.slider("Period", 4, 60, 12, name="period", help="How many random words, before the same come again.")
    st.button("Random words, twice", on_click=repeat_words, icon=":material/casino:", key="big_idea.random")

W_U = {name: ui.cached.weights(name).W_U for name in MODELS}
origins = {name: overview.logit_origins(runs[name], W_U[name], target, view.focus) for name in MODELS}
logits = {name: run.logits[view.focus, target] - run.logits[view.focus].mean() for name, run in runs.items()}
best = {name: (run.logits[view.focus].max() - run.logits[view.focus].mean()).item() for name, run in runs.items()}
with control:
    ui.check("max |Σ parts − logit|", max(abs(sum(origins[m].values()) - logits[m].item()) for m in MODELS), 1e-3)

with figure:
    ready = ui.predict(
        ui.Prediction(
            "Random words, and then the same words again. Which models know what comes next in the second copy?",
            ("All three", "One and two layers", "Only two layers"),
            ("Only two layers", "One and two layers", "All three")[max(0, len(can_repeat) - 1)],
            "Guessed right on random tokens: " + ", ".join(f"{m} {on_repeats[m]:.0%}" for m in MODELS) + ".",
        )
    )
    if ready:
        probabilities = {name: overview.next_token(run, view.focus) for name, run in runs.items()}
        top = {name: heads.top_tokens(p, 5) for name, p in probabilities.items()}
        ui.chart(
            charts.next_tokens(
                {m: (tokens.labels(view.model, t.ids.tolist()), t.values.numpy()) for m, t in top.items()},
                title=f"Next token after {view.labels[view.focus]}",
                chosen=MODELS[layers],
            ),
            f"Probability of {ui.code(tokens.label(view.model, target))}: "
            + ", ".join(f"{m} {p[target]:.1%}" for m, p in probabilities.items())
            + ".",
            "The likeliest next tokens of the three models",
            key="next",
        )
        if len(view.ids) > 1:
            copies = induction.predictable(torch.tensor(view.ids))
            ui.chart(
                curves.losses(
                    {name: cached.losses(name, view.ids) for name in MODELS[: layers + 1]},
                    charts.MODELS,
                    title="Loss of every token, above the token",
                    labels=view.labels,
                    repeats_from=int(copies.int().argmax()) + 1 if copies.any() else None,
                    height=290,
                ),
                "Low is good. Add layers, and see which tokens become cheap. Try *Random words, twice*.",
                "Loss by token for models of zero, one and two layers",
                key="losses",
            )

ui.chart(
    charts.origins(origins, best, f"Where the logit of {tokens.label(view.model, target)} came from"),
    f"Read after {ui.code(view.labels[view.focus])}. The bars add up to the red tick; the grey one is the model's "
    "own first choice. Zero layers have only the direct path; layer-1 heads need two layers.",
    "Stacked bars: direct path, layer-0 heads and layer-1 heads for each model",
    key="origins",
)

W, n = view.weights, len(view.ids)
V, d, r, H = W.d_vocab, W.d_model, W.d_head, W.n_heads
ZERO, ONE = r"W_E W_U", r"\sum_{h} A^{h} \otimes (W_E W_{OV}^{h} W_U)"
TWO = r"\sum_{h, h'} (A^{h'} A^{h}) \otimes (W_E W_{OV}^{h} W_{OV}^{h'} W_U)"
ui.idea(
    "Take away MLPs, LayerNorm and biases, and a transformer becomes a product that can be multiplied out. Each term "
    "is one **path** from an input token to an output logit, and a path is a matrix that can be read.\n\n"
    "With no layer the only path is direct: a table of **bigrams**, which token follows which. One layer adds a path "
    "through each head: **skip-trigrams**. Two layers add paths through two heads. And their attention is built from "
    "what other heads wrote: **composition**. With it, a model can continue a text the way it went before.\n\n"
    "The sum is exact. One thing stays non-linear, the softmax: *where* a head looks depends on the text.",
    r"T = \underbrace{T_0}_{\text{bigrams}} + \underbrace{T_1}_{\text{one head}} + \underbrace{T_2}_{\text{two heads}}",
    {
        "T": f"one-hot tokens to logits, $[n, V] = [{n}, {V}]$ to $[{n}, {V}]$",
        "W_E": f"$[V, d] = [{V}, {d}]$, token to stream",
        "W_U": f"$[d, V] = [{d}, {V}]$, stream to logits",
        r"A \otimes M": "mix positions by $A$, act on each by $M$",
    },
    paper=r"T = \mathrm{Id}\otimes W_U W_E + \sum_h A^h \otimes (W_U W_{OV}^h W_E) + \cdots",
)

st.markdown("#### Four equations, with the shapes of your text")
for equation, words in (
    (rf"T_0 = {ZERO}", f"Bigrams: $[{V}, {V}]$ of rank at most {d}. {paths.n_paths(0, H)} path."),
    (rf"T_1 = {ONE}", f"$A^h$: $[{n}, {n}]$; the bracket $[{V}, {V}]$, rank at most {r}. {H} paths a layer."),
    (rf"T_2 = {TWO}", f"Virtual heads: {H} × {H} more paths. With two layers {paths.n_paths(2, H)} in all."),
    (
        r"A^h = \mathrm{softmax}(\mathrm{mask}(x\, W_{QK}^h\, x^{\top} / \sqrt{r}))",
        f"$x$: the stream, $[{n}, {d}]$; $W_{{QK}}$: $[{d}, {d}]$, rank at most {r}. The only non-linear step.",
    ),
):
    left, right = st.columns([3, 2], vertical_alignment="center")
    left.latex(equation)
    right.markdown(words)
st.caption("Positions are added to the stream in our models, so every path can also start at a position (page 5).")

st.markdown("#### The map")
visited = st.session_state["_visited"]
for row in zip(registry.ALL[::2], registry.ALL[1::2], strict=True):
    for column, page in zip(st.columns(2), row, strict=True):
        with column.container(border=True, height="stretch"):
            if page in registry.built():
                st.page_link(
                    registry.streamlit_page(page),
                    label=f"{page.number} · {page.title}",
                    icon=page.icon,
                    width="stretch",
                )
            else:
                st.markdown(f"{page.number} · {page.title}")
            tick = " :green-badge[:material/check: visited]" if page.slug in visited else ""
            st.caption(ui.md(page.claim) + tick)

st.markdown("#### What we left out, and what it costs")
draw = ui.slider("Random model", 0, 19, 0, name="draw", help="Biases and LayerNorm are tried on a small random model.")
cost, block = cached.left_out(draw), simplifications.block_parameters(d)
biases, norm, mlp = st.columns(3)
with biases:
    st.markdown("**Biases** fold into the logits: rows of a pattern sum to 1, so a value's bias arrives whole.")
    ui.check("one layer: max |folded − true|", cost.bias_one_layer, 1e-10)
    ui.measure("two layers", f"{cost.bias_two_layers:.1f}", "logits off: the constant also reaches layer 1's queries.")
with norm:
    st.markdown("**LayerNorm**: gain and mean fold into the weights. The division, position by position, does not.")
    ui.check("folded, division kept", cost.norm.folded, 1e-10)
    ui.check("sum of paths, scale frozen", cost.norm.frozen, 1e-10)
    ui.measure("scale live, path by path", f"{cost.norm.live:.1f}", "logits off;")
    ui.measure("division left out", f"{cost.norm.undivided:.1f}", "logits off.")
with mlp:
    st.markdown("**MLPs** are where most parameters are. Leaving them out is the paper's largest omission (page 10).")
    ui.measure(
        "MLP share of a standard block", f"{block.mlp_share:.1%}", f"{block.mlp:,} of {block.attention + block.mlp:,}"
    )

ui.by_hand(
    "a zero-layer model with two tokens",
    "Tokens a and b, $d = 1$: $W_E = (1, -1)^{\\top}$ and $W_U = (2, -2)$. Then $W_E W_U = "
    "\\begin{pmatrix} 2 & -2 \\\\ -2 & 2 \\end{pmatrix}$: after a, the logit of a is 2, that of b is −2. So a follows "
    "a with probability $e^2/(e^2 + e^{-2}) = 0.98$. Rank 1 can say *the same again*; it cannot also say how often "
    "a and b occur.",
)
ui.exercises(
    ui.Exercise(
        "Which of the three models guesses more than half of the second copy of random tokens?",
        ui.Choice((*MODELS, "none"), can_repeat[-1] if can_repeat else "none"),
        ("Press *Random words, twice*.", "Look at the loss to the right of the violet rule."),
        "Only heads that read what other heads wrote can know what stood *before* a key.",
    ),
    ui.Exercise(
        "How many paths has a model of 2 layers with 4 heads each (starting at the token)?",
        ui.Number(paths.n_paths(2, 4)),
        ("In each layer a path takes one of the heads or none.", "So (1 + 4) choices a layer."),
        "(1 + 4)² = 25: 1 direct, 8 through one head, 16 through two.",
    ),
    ui.Exercise(
        "In a standard block (all heads together as wide as the stream, MLP four times), what share of the "
        "parameters is attention?",
        ui.Number(1 - simplifications.block_parameters(1).mlp_share, 0.005),
        ("W_Q, W_K, W_V and W_O have d² entries each, over all heads.", "The MLP has two matrices of d × 4d."),
        "4 d² of 12 d²: one third. The other two thirds are the MLP.",
    ),
    ui.Exercise(
        f"$W_E W_U$ of `{view.model_name}` has {V:,} × {V:,} entries. How many numbers are stored for it?",
        ui.Number(2 * V * d, relative=0.01),  # the count is the point, not the digits
        ("Only the two factors are stored.", "W_E is [V, d] and W_U is [d, V]."),
        f"2 · {V:,} · {d} = {2 * V * d:,}, so the table has rank {d} at most.",
    ),
)
ui.show_code(
    overview.logit_origins,
    simplifications.bias_folding_error,
    simplifications.norm_errors,
    call=f"sum(logit_origins(run, weights.W_U, token={target}, position={view.focus}).values())",
    gives=sum(origins["two-layer"].values()),
    model="two-layer",
)
ui.limits(
    "These models have no MLPs and at most two layers. What is read here is exact for them; in large models the same "
    "heads are found, but most of the computation lies elsewhere. A pattern of attention alone explains nothing."
)
ui.takeaways(
    "Multiply a transformer out, and it is a sum of paths; each can be read from the weights.",
    "Zero layers: bigrams. One layer: skip-trigrams. Two layers: heads that use other heads.",
    "The sum is exact; only where a head looks is non-linear.",
)
ui.end(view)
