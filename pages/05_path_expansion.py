"""Claim: with attention patterns held fixed, the logits are exactly a sum with one term per path through the heads.

Elhage et al. 2021, "The path expansion trick", "Frozen attention patterns", "Path expansion of logits".
"""

import numpy as np
import pandas as pd
import streamlit as st
import torch

from circuits import paths, tokens
from circuits.charts import paths as charts
from pages import ui
from pages.ui import ticks
from pages.ui.cached import paths as cached
from pages.ui.questions import path_expansion as questions

view = ui.begin("path_expansion")
weights, focus, labels = view.weights, view.focus, view.labels
layers, heads, n = weights.n_layers, weights.n_heads, len(view.ids)
expansion = cached.expansion(view.model_name, view.ids)
n_terms, names = len(expansion.paths), [str(path) for path in expansion.paths]
groups = [expansion.of_order(order).nonzero().flatten().tolist() for order in range(layers + 1)]
probabilities = view.run.logits[focus].softmax(-1)

control, figure = st.columns([1, 2.4], gap="medium")
with control:
    target = ui.token_or_guess("Logit of the token", view.model, int(probabilities.argmax()), name="target")
    st.caption(f"read at position {focus}, after {ui.code(labels[focus])}")
    orders = [
        ui.toggle(f"{ticks.ORDER_NAMES[order]}: {len(group)} terms", True, name=f"order{order}")
        for order, group in enumerate(groups)
    ]
    st.caption("Single terms are ticked in the tables below.")
on = torch.tensor([orders[path.order] and ticks.code(path) not in ticks.off() for path in expansion.paths])
effects, norms = expansion.effect(target)[:, focus].numpy(), expansion.norms()[:, focus].numpy()
partial = expansion.partial_logits(on)[focus].softmax(-1)

with figure:
    if layers == 0 or ui.predict(questions.prediction(len(groups[layers]))):
        board, bars = st.columns([3, 2])
        with board:
            cells, rows, columns = paths.board_places(expansion.paths, layers, heads)
            title = f"What each path adds to the logit of {tokens.label(view.model, target)}"
            ui.chart(
                charts.path_board(effects, cells, names, on.tolist(), rows, columns, title),
                "Left block: from the token; right: from the position. A cell without colour is off.",
                "Board with one cell per path, coloured by its effect on the chosen logit",
                key="board",
            )
        with bars:
            shown = probabilities.topk(7).indices
            shown_names = tokens.labels(view.model, shown.tolist())
            ui.chart(
                charts.next_tokens(shown_names, probabilities[shown].numpy(), partial[shown].numpy(), "Next token"),
                "Bars: the ticked terms alone. Line: the whole model.",
                "Next-token probabilities of the ticked terms beside those of the whole model",
                key="next",
            )
    counted = f"{int(on.sum())} of {n_terms} terms are on"
    ui.check("residual error, max |logits − Σ ticked|", expansion.residual_error(on), 1e-3, counted)
    if n > 1:
        whole = expansion.loss(torch.ones(n_terms, dtype=torch.bool))
        ui.measure("loss on your text", f"{expansion.loss(on):.2f}", f"nats a token; with all terms `{whole:.2f}`")

st.markdown(f"#### Every term, a row :gray-badge[{n_terms} rows]")
each = paths.n_paths(layers, heads)
st.markdown(
    f"In every layer a path takes *no head*, or one of {heads}: $(1+{heads})^{{{layers}}} = {each}$ paths. Our models "
    f"add positions to the stream, so a path starts at the token or at the position: twice {each} is **{n_terms}** "
    "rows. (The paper's models show positions to queries and keys only; there the token's half is all.)"
)
for order, group in enumerate(groups):
    with st.expander(
        f"{ticks.ORDER_NAMES[order]}: {len(group)} terms, {effects[group].sum():+.2f} on the logit together"
    ):
        ticks.table(order, [expansion.paths[i] for i in group], effects[group].tolist(), norms[group].tolist())

st.markdown("#### One term, whole")
strongest = names[int(np.abs(effects).argmax())]
picked = names.index(
    ui.select("Term", names, name="term", default=strongest, help="At first the one with the largest effect.")
)
term = expansion.contribution(picked)
centred = term - term.mean(-1, keepdim=True)  # what a whole row has in common changes no probability
raised = centred.amax(0).topk(24).indices
raised_names = tokens.labels(view.model, raised.tolist())
ui.chart(
    charts.term_map(centred[:, raised].numpy(), labels, raised_names, f"{names[picked]} → logits"),
    f"This one term adds a table of {n} × {weights.d_vocab:,} logits. Shown: the 24 output tokens that it raises most, "
    "against the mean of each row.",
    "Heat map of one term: positions by the output tokens that it raises most",
    key="term",
)
st.download_button(
    f"All {n} × {weights.d_vocab:,} of it",
    lambda: pd.DataFrame(term.numpy(), index=view.unique_labels).to_csv(float_format="%.4f"),
    file_name="term.csv",
    mime="text/csv",
    icon=":material/download:",
    on_click="ignore",
)

ui.idea(
    "A layer *adds* to the stream: as a map it is identity plus heads. Hold the patterns fixed, and it is "
    "**linear**. A product of sums can be multiplied out, like $(1+a)(1+b) = 1 + a + b + ab$. Each term is a "
    "**path**: start at the token, go through some heads in order, end in the logits. The number of heads on it is "
    "its **order**: 0 is the direct path, 1 a head, 2 a *virtual head* made of two.\n\nEvery term is a product of "
    "matrices that can be looked at alone, and nothing is left over.",
    r"\begin{aligned} T = {} & X W_U \\ & + \sum_h A^h X W_{OV}^h W_U \\"
    r" & + \sum_{h_1, h_2} A^{h_2} A^{h_1} X W_{OV}^{h_1} W_{OV}^{h_2} W_U \end{aligned}",
    {
        "X": f"token and position vectors, {n} × {weights.d_model}",
        "A^h": f"a pattern, {n} × {n}, from the left",
        "W_{OV}^h": f"$W_V W_O$, {weights.d_model} × {weights.d_model}",
        "W_U": f"{weights.d_model} × {weights.d_vocab:,}",
    },
    r"T = (\mathrm{Id} \otimes W_U)\big(\mathrm{Id} + \sum_{h_2} A^{h_2} \otimes W_{OV}^{h_2}\big)"
    r"\big(\mathrm{Id} + \sum_{h_1} A^{h_1} \otimes W_{OV}^{h_1}\big)(\mathrm{Id} \otimes W_E)",
)
ui.by_hand(
    "a product becomes a sum",
    "One number a position, x = (2, 4). Layer 0's head looks at the position before and doubles what it finds; "
    "layer 1's head looks at itself and triples. Position 1 begins with 4; after layer 0 it is 4 + 2·2 = 8; "
    "after layer 1, 8 + 3·8 = **32**. As paths: direct 4; layer 0 alone 2·2 = 4; layer 1 alone 3·4 = 12; "
    "both 3·2·2 = 12. Together 4 + 4 + 12 + 12 = **32**.",
)

st.markdown("#### Freeze the patterns, and the model is linear")
left, right = st.columns([1, 2], gap="medium")
with left:
    frozen = ui.toggle("Freeze the attention patterns", True, name="frozen", help="Frozen: the patterns of your text.")
    alpha = ui.slider("α, how much of your text", -1.0, 2.0, 0.5, name="alpha", step=0.1)
    beta = ui.slider("β, how much of the second text", -1.0, 2.0, 0.5, name="beta", step=0.1)
    st.caption(
        "The second text is yours backwards. α t₁ + β t₂ is a *soft token*: no text, yet the model can run on it."
    )
first = paths.start_of_stream(weights, torch.tensor(view.ids))
second = paths.start_of_stream(weights, torch.tensor((view.ids[0], *view.ids[:0:-1])))


def logits(x: torch.Tensor) -> torch.Tensor:
    return paths.frozen_logits(weights, x, view.run.pattern) if frozen else paths.live_logits(weights, x)


with right:
    some = range(0, weights.d_vocab, 4)
    apart = (alpha * logits(first) + beta * logits(second))[focus, ::4]
    mixed = logits(alpha * first + beta * second)[focus, ::4]
    title = f"Logits at position {focus}, {'frozen' if frozen else 'live'} patterns"
    ui.chart(
        charts.linearity(apart.numpy(), mixed.numpy(), tokens.labels(view.model, some), title),
        "A point per output token (every fourth). Frozen, all lie on the diagonal; live, softmax bends the map.",
        "Scatter of the logits of a mix against the mix of the logits",
        key="linear",
    )
gap = paths.linearity_gap(logits, first, second, alpha, beta)
ui.check("max |f(α t₁ + β t₂) − α f(t₁) − β f(t₂)|", gap, 1e-3, "" if frozen else "live patterns: not linear")

st.markdown("#### A calculator for $(A \\otimes W)\\,x = A\\,x\\,W^{\\top}$")
st.markdown(
    "The paper writes a head as a tensor product: $A$ mixes positions, $W$ acts on each position's vector, and neither "
    "sees the other. Change any number: one big matrix on one long vector does what two small ones do, a side each."
)
START = {
    "A: positions × positions": [[1, 0], [0.5, 0.5]],
    "W: outputs × inputs": [[2, 1], [0, 3]],
    "x: positions × inputs": [[1, 2], [3, 4]],
}
typed = []
for column, (title, values) in zip(st.columns(3), START.items(), strict=True):
    column.caption(title)
    frame = pd.DataFrame(values, dtype=float)
    typed.append(column.data_editor(frame, key=f"path_expansion.kron {title[0]}", hide_index=True, alt=title))
product = paths.kron_product(*(np.nan_to_num(frame.to_numpy(float)) for frame in typed))
results = {"A ⊗ W": product.kron, "(A ⊗ W) · x row by row, folded back": product.flat, "A x Wᵀ": product.two_sided}
for column, (title, values) in zip(st.columns(3), results.items(), strict=True):
    column.caption(title)
    column.dataframe(pd.DataFrame(values), hide_index=True, alt=title)
size = max(1.0, float(np.abs(product.flat).max()))
ui.check("max |(A ⊗ W) x − A x Wᵀ|", float(np.abs(product.flat - product.two_sided).max()), 1e-12 * size)

ui.exercises(*questions.exercises(expansion, layers))
ui.show_code(
    paths.expand,
    paths.attend,
    paths.frozen_logits,
    paths.kron_product,
    call=f"terms = expand(weights, run)\nterms.effect(token={target})[terms.of_order({layers}), {focus}].sum().item()",
    gives=effects[groups[layers]].sum(),
)
ui.limits(
    "The sum is exact *given the patterns*, and they depend on the text too: change a token and every term can move, "
    "so terms are not independent causes. An MLP or a LayerNorm ends the expansion: neither is linear."
)
ui.takeaways(
    "With its patterns fixed, a transformer without MLPs is a sum over paths: exact, and readable term by term.",
    "The order of a path is the number of heads on it; $(1 + H)^L$ paths lead from each start to the logits.",
    "A tensor product is a matrix on each side: $A$ moves between positions, $W_{OV}$ acts inside one.",
)
ui.end(view)
