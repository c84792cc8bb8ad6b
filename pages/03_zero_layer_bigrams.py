"""Claim: a zero-layer model is one table, W_E W_U, and what it can hold is the bigrams of its text, at low rank.

Elhage et al. 2021, "Zero-Layer Transformers".
"""

import streamlit as st
import torch

from circuits import bigrams, chains, tokens
from circuits.charts import base
from circuits.charts import bigrams as charts
from pages import ui
from pages.ui.cached import bigrams as cached

view = ui.begin("zero_layer_bigrams")
token, table = view.ids[view.focus], ui.cached.counts()
seen = int(table.row(token).sum())
label, here = view.labels[view.focus], ui.code(view.labels[view.focus])

control, figure = st.columns([1, 2], gap="medium")
with control:
    d_model = ui.select_slider(
        "d_model: how wide the model is",
        list(cached.FAMILY),
        256,
        name="d_model",
        help="Seven zero-layer models, trained alike on the same text. Only their width differs.",
    )
    name = cached.FAMILY[d_model]
    weights = ui.cached.weights(name)
    direct = bigrams.direct_logits(weights, torch.tensor(view.ids))
    fit = cached.fit(name)
    ui.measure("rank of W_E W_U", f"{cached.rank(name)}")
    ui.measure("mean KL(counts ‖ model)", f"{fit.kl:.3f} nats", "over the corpus")
    if seen:
        ui.measure("KL", f"{cached.row(name, token).kl:.3f} nats", f"for {here}, from {seen:,} pairs")
    constant = ui.slider("Add a constant to every logit of the row", 0, 20, 0, name="constant")
    shifted = direct[view.focus] + constant
    st.caption(f"Logits after {here} from {shifted.min():.1f} to {shifted.max():.1f}. No probability moves.")

with figure:
    narrow, blind = cached.fit(cached.FAMILY[2]).kl, cached.unigram_fit().kl
    ready = ui.predict(
        ui.Prediction(
            "Make the model narrower, from 256 dimensions to 2. Will it still look at the present token?",
            ("Yes, roughly", "No, one row for all"),
            "Yes, roughly" if narrow < 0.9 * blind else "No, one row for all",
            f"One row for all, the unigrams, misses the corpus by {blind:.2f} nats (mean KL). Two dimensions miss by "
            f"{narrow:.2f}. Move the slider and see what goes first.",
        )
    )
    if ready and seen:
        row = cached.row(name, token)
        names = tokens.labels(view.model, row.following.tolist())
        probs = shifted.softmax(-1)[row.following].numpy()
        left, right = st.columns(2)
        with left:
            ui.chart(
                charts.next_tokens(names, row.corpus.numpy(), probs, title=f"What follows {label}"),
                f"{row.unseen_mass:.1%} of the model's probability goes to tokens never seen after {here}.",
                "Bars: the most frequent next tokens in the corpus beside their probability in the model",
                key="next",
            )
        with right:
            ui.chart(
                charts.scatter(
                    names,
                    row.counts.numpy(),
                    row.corpus.numpy(),
                    probs,
                    title=f"All after {label}",
                ),
                "Size = count. The wider the model, the closer to the diagonal, big points first.",
                "Scatter: probability in the corpus against probability in the model for every pair that was seen",
                key="scatter",
            )
    elif ready:
        top = shifted.softmax(-1).topk(12)
        names = tokens.labels(view.model, top.indices.tolist())
        ui.chart(
            base.bars(names, top.values.tolist(), title=f"After {label}, by the model", unit="probability"),
            f"Nothing ever followed {here} in the corpus: there is nothing to compare, and nothing was learned.",
            "Bars: the model's most probable next tokens",
            key="alone",
        )
    logits = ui.cached.run(name, view.ids).logits
    gap = float((logits - direct).abs().max())
    ui.check("max |logits − rows of W_E W_U|", gap, 1e-4)
    ui.check(f"max |softmax(row + {constant}) − softmax(row)|", bigrams.shift_error(direct, float(constant)), 1e-5)

ui.idea(
    "Take all layers out of a transformer. A token is embedded and at once unembedded, so whatever stood before, the "
    "logits after token $a$ are row $a$ of one matrix.\n\n"
    "The loss is least where the softmax of each row is the frequency of what follows $a$: a **bigram** table. Two "
    "things remain. A constant added to a row changes no probability, so counts fix a row only up to a constant. And "
    "the table has $V × V$ entries but rank $d$ at most, so most of it is guessed from a few directions a token.\n\n"
    "**KL** is the miss in nats: what a message from the corpus costs in excess when it is coded with the model's "
    "probabilities. Raw counts stand on the left, so pairs never seen add nothing. Its mean weighs each token as often "
    "as it occurs.",
    r"\begin{aligned}\mathrm{logits}(a) &= W_E[a]\, W_U \\ &\approx \log P(\cdot \mid a) + c_a\end{aligned}",
    {"W_E": "[V, d], a row a token", "W_U": "[d, V], a column a token", "c_a": "one free number a row"},
    paper=r"T = W_U W_E",
)

st.markdown("#### The ladder")
left, right = st.columns([3, 2], gap="medium")
with left:
    rungs = cached.ladder()
    ui.chart(
        charts.ladder(*zip(*rungs, strict=True), title="Loss on text that no model was trained on"),
        "Computed on the sample text of this app. Bigram counts, 0.75 taken from each for unseen pairs, are the usual "
        "yardstick, not a limit: a low-rank table smooths in its own way. Layers see more than one token.",
        "Bars: loss of uniform guessing, unigram counts, seven zero-layer models, bigram counts, and deeper models",
        key="ladder",
    )
    stored = ", ".join(f"{name} {loss:.2f}" for name, loss in cached.held_out().items())
    st.caption(f"On held-out novels, measured when the models were trained (nats per token): {stored}.")
with right:
    kls = [cached.fit(model).kl for model in cached.FAMILY.values()]
    ui.chart(
        charts.by_size(list(cached.FAMILY), kls, d_model, title="Mean KL(counts ‖ model)", unit="nats"),
        f"On the training corpus. Unigrams alone, one row for all, would stand at {blind:.2f} nats.",
        "Line: mean KL between counts and model against d_model",
        key="sizes",
    )

st.markdown("#### In deeper models the direct path is another table")
st.markdown(
    "Every transformer has $W_E W_U$ in it. With layers beside it, heads supply bigrams too, and the direct path need "
    "only add what they leave over. Its loss as a table on its own, on the pairs of the corpus:"
)
for column, model in zip(st.columns(3), ("zero-layer", "one-layer", "two-layer"), strict=True):
    best = bigrams.direct_logits(ui.cached.weights(model), torch.tensor(token)).topk(5).indices.tolist()
    column.metric(model, f"{cached.fit(model).cross_entropy:.2f} nats")
    column.markdown(f"After {here}: " + ", ".join(map(ui.code, tokens.labels(view.model, best))))
order = cached.order(name)
st.markdown(
    f"Why not tie the two matrices, $W_U = W_E^\\top$? Then *ab* would score as *ba* does. In the corpus "
    f"{order.corpus:.0%} of all pairs would have to be reversed for *ab* to be as frequent as *ba*. "
    f"Of `{name}`'s table, means taken off, {order.table:.0%} is antisymmetric (tied: 0 %; unrelated matrices: 50 %)."
)

st.markdown("#### Train one now")
left, right = st.columns([1, 2], gap="medium")
with left:
    kind = ui.choice("A small world", cached.WORLDS, name="world")
    size = ui.select_slider("d_model", cached.SIZES, 2, name="size")
    if st.button("Train", icon=":material/play_arrow:", width="stretch"):
        st.session_state["zero_layer_bigrams.trained"] = True
    st.caption("600 steps of Adam on the exact expected loss, six sizes side by side: a few seconds.")
with right, ui.readable_errors():
    text = tokens.unescape(view.prompt.text) if kind == cached.WORLDS[-1] else ""
    world, at = cached.world(kind, text), cached.SIZES.index(size)
    if st.session_state.get("zero_layer_bigrams.trained"):
        trained = cached.trained(kind, text)
        curve, learned = st.columns(2)
        states = [tokens.visible(state) for state in world.states]
        with curve:
            ui.chart(
                base.curves(
                    {f"d = {d}": trained.losses[10::10, cached.SIZES.index(d)].tolist() for d in sorted({1, size, 16})},
                    [float(step) for step in range(10, len(trained.losses), 10)],
                    title="Loss while training",
                    x_title="step",
                    y_title="nats per token",
                    marks={f"entropy {world.entropy:.3f}": world.entropy},
                ),
                f"Nothing beats the entropy. d = {size} ends {trained.losses[-1, at] - world.entropy:.4f} above it.",
                "Loss curves of the smallest, the chosen and the largest size, and the entropy of the chain",
                key="chain curves",
            )
        with learned:
            ui.chart(
                base.heatmap(
                    *(trained.probs[at].numpy(), states, states),
                    title=f"What d = {size} learned",
                    unit="P(next)",
                    limit=1.0,
                    row_title="present",
                    column_title="next",
                    height=260,
                ),
                "Each row sums to 1. Change d_model and look which habits go.",
                "Heat map of the learned transition probabilities",
                key="chain table",
            )
    else:
        st.caption(f"{len(world.states)} states, entropy {world.entropy:.3f} nats: the best loss there is.")

ui.by_hand(
    "three tokens, one dimension",
    "Let a be followed by b or c, half the time each, and b and c by a. One dimension is enough: $W_E = (-1, 1, 1)$ "
    "for a, b, c and $W_U = (g, 0, 0)$. Row a is $(-g, 0, 0)$, rows b and c are $(g, 0, 0)$. For a large $g$ row a "
    "says b or c, ½ each, and the others say a.\n\nHalf of all tokens are a and cost $\\ln 2$, the rest are certain. "
    "So the best loss is $\\tfrac12 \\ln 2 = 0.347$ nats. Train the fork above and see.",
)
ui.exercises(
    ui.Exercise(
        "State a goes to b or c, ½ each; b and c go to a. What is the best possible loss, in nats per token?",
        ui.Number(chains.fork().entropy, 0.005),
        ("How often is the next token uncertain at all?", "Half of the tokens are a. Each of those costs ln 2."),
        "½ · ln 2: the entropy of the next state, averaged over how often each state is visited.",
    ),
    ui.Exercise(
        "Three tokens, d_model = 1. Can a zero-layer model match any chain on them exactly?",
        ui.Choice(("Always", "Not in general", "Never"), "Not in general"),
        ("Row constants are free. What rank is left to match?", "Up to row constants a V × V table has rank V − 1."),
        "Rank 1 is one short of the 2 that three tokens need. Some chains happen to fit, and the fork is one of them.",
    ),
    ui.Exercise(
        "Why may W_U not simply be W_Eᵀ?",
        ui.Choice(
            ("W_E W_Eᵀ is symmetric, bigrams are not", "W_Eᵀ has the wrong shape", "W_E W_Eᵀ has a lower rank"),
            "W_E W_Eᵀ is symmetric, bigrams are not",
        ),
        ("Compare entry (a, b) with entry (b, a).", "“of the” is frequent. How frequent is “the of”?"),
        "The score of b after a would equal that of a after b. Shape and rank are fine.",
    ),
    ui.Exercise(
        "How far is `zero-layer` above the bigram entropy of its training corpus, in nats per token?",
        ui.Number(cached.fit("zero-layer").kl, 0.02),
        ("Set d_model to 256 and read a badge.", "Loss on the pairs − H(next | present) = KL."),
        "It is the mean KL: the loss of the table on the corpus's own pairs, less the entropy of those pairs.",
    ),
    ui.Exercise(
        "A zero-layer model reads “New York New”. Does it predict something else than after “New” alone?",
        ui.Choice(("Yes", "No"), "No"),
        ("What enters the logits at a position?", "Only the row of W_E W_U of the present token."),
        "Same token, same row, same logits. To use what stood before, information must move. That is attention.",
    ),
)
ui.show_code(
    bigrams.direct_logits,
    bigrams.compare_row,
    bigrams.kl,
    bigrams.fit,
    bigrams.singular_values,
    chains.train,
    call="from circuits.counts import BigramCounts\nfit(weights, BigramCounts.load()).kl",
    gives=fit.kl,
    model=name,
)
ui.limits(
    "Counts of rare tokens are noisy, and KL against them takes the noise for a miss: look at the number of pairs. And "
    "a good fit to bigrams says nothing about what a model with layers does."
)
ui.takeaways(
    "A zero-layer transformer is the matrix W_E W_U, and the best it can be is the bigram table of its text.",
    "It has rank d_model and a free constant a row: it approximates log-probabilities, it does not store counts.",
    "In deeper models the same product is one path of many, and no longer a bigram table.",
)
ui.end(view)
