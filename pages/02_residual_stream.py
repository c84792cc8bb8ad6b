"""Claim: the residual stream is exactly a sum of writes, and its coordinates mean nothing by themselves.

Elhage et al. 2021, "Residual stream", "Virtual weights", "Subspaces and residual stream bandwidth".
"""

import pandas as pd
import streamlit as st

from circuits import residual, tokens
from circuits.charts import residual as charts
from pages import ui
from pages.ui.cached import residual as cached

view = ui.begin("residual_stream")
run, weights = view.run, view.weights
parts = cached.components(view.model_name, view.ids)

control, figure = st.columns([1, 2], gap="medium")
with control:
    angle = ui.slider(
        "Rotate the stream", 0, 90, 0, name="angle", format="%d°", help="The same random planes are turned each time."
    )
    st.caption("Every matrix that writes or reads is turned along.")
    guess = int(run.logits[view.focus].argmax())
    target = ui.token_or_guess("Logit of the token", view.model, guess, name="target")
    st.caption(f"Read at position {view.focus}, after {ui.code(view.labels[view.focus])}.")
turned = cached.rotated(view.model_name, view.ids, angle)
share = residual.direct_logit_attribution(parts, weights.W_U, target, view.focus)
with control:
    ui.check("max |Σ writes − resid_final|", float((parts.total() - run.resid_final).abs().max()), 1e-3)

with figure:
    if ui.predict(
        ui.Prediction(
            "Turn the whole stream by 90°. What happens to the bars, the parts of one logit?",
            ("They stay", "They shrink", "They scramble"),
            "They stay",
            "A logit is something written times something read, and the turn cancels between the two.",
        )
    ):
        with control:
            ui.check("max |logits(rotated) − logits|", float((turned.logits - run.logits).abs().max()), 1e-3)
        stream = turned.resid_final[view.focus]
        ui.chart(
            charts.stream_strip(stream.numpy()),
            f"The stream in focus, a cell a coordinate. Turn it: all cells change, length {stream.norm():.2f} stays.",
            "A strip of coloured cells, one for each coordinate of the stream at the position in focus.",
            key="strip",
        )
        ui.chart(
            charts.writers(parts.names, share.numpy(), f"Who wrote the logit of {tokens.label(view.model, target)}"),
            f"One bar per writer. Together they are the logit, {share.sum():.2f}. Turn the stream: no bar moves. "
            f"(Page 1 takes off the average token's, {run.logits[view.focus].mean():.2f}: it changes no probability.)",
            "Bars: what token, position and every head add to one logit.",
            key="writers",
        )

ui.idea(
    "The stream at a position starts as the token's embedding plus the position's. Each head, and each MLP, reads it "
    "through a linear map and **adds** what it computed. Nothing is ever replaced, so at the end the stream is the "
    "sum of all writes, and since the unembedding is linear, **each logit is a sum with one term per writer**.\n\n"
    "A *basis* is the choice of coordinates in which the vector is written down. Components only ever meet through "
    "products of a writing and a reading matrix, such as $W_O W_Q$ - the paper calls such a product *virtual weights*. "
    "Put a rotation $R$ behind everything that writes and $R^\\top$ before everything that reads: since "
    "$R R^\\top = 1$, no product changes. So no coordinate of the stream is special, and a single coordinate tells you "
    "nothing. (A few stand out at 0°, most likely a trace of training: Adam scales the step of each coordinate by "
    "itself. At 90° they are gone, and the model computes the same.) Tokens, attention patterns and (after a ReLU) "
    "neurons are different: they do have a privileged basis.",
    r"x_{\mathrm{final}} = W_E[t] + W_{pos} + \sum_{l,h} A^{lh}\, x_l\, W_V^{lh} W_O^{lh}, \quad "
    r"\mathrm{logits} = x_{\mathrm{final}} W_U",
    {
        "x": f"[n, d_model] = [{len(view.ids)}, {weights.d_model}]",
        "W_E": f"[d_vocab, d_model] = [{weights.d_vocab}, {weights.d_model}]",
        "W_V": f"[d_model, d_head] = [{weights.d_model}, {weights.d_head}]; $W_O$ the other way round",
        "A": "[n, n], rows are destinations",
    },
    paper=r"x_{i+1} = x_i + \sum_{h} h(x_i), \qquad T(t) = W_U\, x_{\mathrm{final}}",
)

st.markdown("#### Who can read whom: virtual weights")
names, readers, table = cached.virtual_weights(view.model_name)
kinds = ("Q", "K", "V")
left, right = st.columns([1, 3], gap="medium")
with left:
    kind = ui.choice("Read through", kinds, name="kind", default="K") if view.weights.n_layers else "Q"
    st.caption(
        "A product of a writer and a reader, divided by both norms. Two unrelated matrices give "
        f"$1/\\sqrt{{d_{{model}}}}$ = {weights.d_model**-0.5:.3f}, which is 1 on this scale; the last column is the "
        "unembedding. Empty cells: the reader comes before the writer."
    )
with right:
    chosen = [i for i, name in enumerate(readers) if name.endswith(f" {kind}") or name in ("logits", "MLP 0")]
    ui.chart(
        charts.virtual_weights(table[:, chosen].numpy() * weights.d_model**0.5, names, [readers[i] for i in chosen]),
        "Strong cells are pairs far above chance: look who reads the position, and which second-layer heads read the "
        "first layer's strongest writer.",
        "Heat map: writers as rows, readers as columns, alignment in units of chance.",
        key="virtual",
    )

st.markdown("#### How the guess grows: logit lens")
lens = residual.logit_lens(run, weights.W_U, view.focus)
stages = [f"before layer {layer}" for layer in range(weights.n_layers)] + ["at the end"]
rows = []
for stage, row in zip(stages, lens, strict=True):
    values, ids = row.exp().topk(5)
    cells = [f"{tokens.label(view.model, int(i))} {p:.0%}" for p, i in zip(values, ids, strict=True)]
    rows.append([stage, int((row > row[target]).sum()) + 1, *cells])
columns = ["stream", f"rank of {tokens.label(view.model, target)}", "1st", "2nd", "3rd", "4th", "5th"]
st.dataframe(pd.DataFrame(rows, columns=columns), hide_index=True, width="stretch")
st.caption("The stream can be unembedded at any stage, as it always lives in the same space.")

st.markdown("#### How crowded the stream is: bandwidth")
left, right = st.columns(2, gap="medium")
with left:
    layers = ui.slider("Layers that have run", 0, 96, 25, name="layers")
    width = ui.slider("d_model", 64, 12288, 768, name="width", step=64)
    crowd = residual.bandwidth(layers, width, 4 * width, max(1, width // 64), 64)
    st.markdown(
        f"**{crowd.neurons_before:,}** neurons and **{crowd.head_dims_before:,}** head dimensions have written into "
        f"**{crowd.stream:,}** dimensions: {crowd.ratio:.0f} neurons for each."
    )
with right:
    spectra = cached.spectra(view.model_name)
    ui.chart(
        charts.spectra({name: values.numpy() for name, values in spectra.items()}),
        "Our model. Share of variance in the first k principal components: a curve that rises fast uses few of the "
        "dimensions, and leaves the others to the heads.",
        "Curves of cumulative explained variance of the embedding and unembedding matrices.",
        key="spectra",
    )

ui.by_hand(
    "three writes, one rotation",
    "A stream of two dimensions; three writers add $(1, 0)$, $(0, 2)$ and $(1, -1)$: the sum is $(2, 1)$. The token's "
    "column of $W_U$ is $(3, 1)$, so its logit is $2\\cdot3 + 1\\cdot1 = 7$, and the writers' shares are $3, 2, 2$.\n\n"
    "Turn by 90°, $(x, y) \\to (-y, x)$: the writes become $(0, 1)$, $(-2, 0)$, $(1, 1)$, the stream $(-1, 2)$, the "
    "column $(-1, 3)$. Logit: $(-1)(-1) + 2\\cdot3 = 7$. Shares: $3, 2, 2$. Every coordinate changed, no share did.",
)

strongest = int(share.abs().argmax())
ui.exercises(
    ui.Exercise(
        "Two random directions in 512 dimensions: what is the standard deviation of their cosine?",
        ui.Number(512**-0.5, 0.001),
        ("The cosine is a sum of 512 products of random signs.", "It shrinks like one over the square root of d."),
        "$1/\\sqrt{512} = 0.044$: in a wide stream, unrelated writes hardly disturb one another.",
    ),
    ui.Exercise(
        "Twelve heads of 64 dimensions write into d_model = 768. How many of these can one layer fill?",
        ui.Number(768),
        ("Each head writes into a subspace of at most d_head dimensions.", "Are 12 · 64 more or fewer than 768?"),
        "12 · 64 = 768: the heads of a single layer can fill the whole stream.",
    ),
    ui.Exercise(
        "Rotate everything by 45°. Which of these changes?",
        ui.Choice(
            ("the logits", "attention patterns", "the 17th coordinate of the stream"),
            "the 17th coordinate of the stream",
        ),
        ("Try the slider.", "What is a product of a writer and a reader?"),
        "Only what is written in coordinates changes. In patterns and logits the rotation cancels.",
    ),
    ui.Exercise(
        f"On the prompt above, which writer moves the logit of {ui.code(tokens.label(view.model, target))} most "
        "(up or down)? Type its name as on the axis.",
        ui.Text((parts.names[strongest],)),
        ("Read it off the bars.", "The longest bar, whatever its sign."),
        f"{parts.names[strongest]} adds {share[strongest]:.2f}.",
    ),
    ui.Exercise(
        "After 25 of 50 layers with d_mlp = 4 d_model, how many neurons have written, per dimension of the stream?",
        ui.Number(100),
        ("Use the calculator above.", "25 layers, each with 4 neurons per dimension."),
        "25 · 4 = 100. That is why the paper calls the stream's bandwidth a bottleneck.",
    ),
)
ui.show_code(
    residual.components,
    residual.direct_logit_attribution,
    residual.rotate,
    residual.virtual_weights,
    call=f"direct_logit_attribution(components(run), weights.W_U, token={target}, position={view.focus}).sum().item()",
    gives=share.sum().item(),
)
ui.limits(
    "A large share of a logit says who wrote it directly, not who caused it: a first-layer head may act through a "
    "second-layer head and have no bar. The model here has no LayerNorm; with one, a logit is a sum only after "
    "dividing by a scale that depends on the whole stream."
)
ui.takeaways(
    "The final stream is the sum of every write, and a logit is the sum of one number per writer.",
    "Rotate the whole stream and nothing that can be observed changes: directions have meaning, coordinates have none.",
    "Any two components are joined by the product of what one writes and the other reads.",
)
ui.end(view)
