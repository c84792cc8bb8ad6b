"""Claim: an MLP's output is a sum of value rows, each weighted by how well the stream matches its key column.

Geva et al. 2021, "Transformer feed-forward layers are key-value memories"; the framework paper leaves MLPs out.
"""

import streamlit as st
import torch

from circuits import contexts, mlp, tokens
from circuits.charts import base
from circuits.charts import mlp as charts
from pages import ui
from pages.ui.cached import mlp as cached
from pages.ui.passages import passage
from pages.ui.questions import mlp_memories as questions

view = ui.begin("mlp_memories")
weights, run, here = view.weights, view.run, view.focus
activation = mlp.activations(weights, mlp.inputs(run))
strength = mlp.strength(weights, activation[here])
n_active, d_mlp = int((activation[here] > 0).sum()), activation.shape[-1]
ranked = strength.argsort(descending=True)[:12].tolist()
curve = cached.kept(view.model_name, view.ids, here)
changes = (curve.prediction != curve.prediction[-1]).nonzero()
enough = int(changes.max()) + 1 if len(changes) else 0

control, figure = st.columns([1, 2], gap="medium")
with control:
    count = ui.slider("Memories kept, strongest first", 0, n_active, n_active // 3, name="kept")
    kept = mlp.keep_strongest(weights, run, here, [count])
    st.caption(f"At position {here}, after {ui.code(view.labels[here])}, {n_active} of {d_mlp:,} memories answer.")
    neuron = ui.number("Look at neuron", 0, d_mlp - 1, ranked[0], name="neuron")
    st.caption(f"Strongest here: {', '.join(map(str, ranked[:6]))}.")
    ui.measure("KL(all ‖ kept)", f"{float(kept.kl[0]):.3f} nats")

whole = run.logits[here].softmax(-1)
shown = torch.cat([whole.topk(5).indices, kept.probs[0].topk(5).indices]).unique()
shown = shown[whole[shown].argsort(descending=True)]
with figure:
    if ui.predict(questions.prediction(n_active, d_mlp, enough)):
        left, right = st.columns(2)
        with left:
            ui.chart(
                charts.kept_curve(curve.count.tolist(), curve.error.tolist(), count),
                f"With {count} memories, {float(kept.error[0]):.0%} of what all of them write is missing (by length).",
                "Curve: reconstruction error of the MLP output by the number of memories kept",
                key="error",
            )
        with right:
            probabilities = {"all": whole[shown].tolist(), f"{count} kept": kept.probs[0, shown].tolist()}
            ui.chart(
                base.paired_bars(
                    tokens.labels(view.model, shown.tolist()),
                    probabilities,
                    title="Next token",
                    unit="probability",
                    colours=(base.DIRECT, base.OV),
                    height=300,
                ),
                f"The first choice is settled from {enough} memories on.",
                "Bars: next-token probabilities with all memories and with the kept ones",
                key="next",
            )
    summed = mlp.writes(weights, activation[here]).sum(0) + weights.b_out[0]
    ui.check("max |Σ aᵢ vᵢ + b_out − MLP(x)|", float((summed - run.mlp_out[0, here]).abs().max()), 1e-4)

ui.idea(
    f"An MLP layer has {d_mlp:,} **memories** (neurons). Each owns a *key*, compared with the stream by a dot product, "
    "and a *value*, a vector that it can add to the stream.\n\n"
    "A memory whose match is negative stays silent: that is ReLU. The others write their value, times the match. "
    "The layer's output is the sum of these writes and one constant.\n\n"
    "Keys are **columns** of $W_{in}$, because $x W_{in}$ takes one dot product a column. Values are **rows** of "
    "$W_{out}$. Reading an MLP this way is the idea of Geva and colleagues (2021), not of the framework paper.",
    r"\mathrm{MLP}(x) = \sum_{i=1}^{d_{mlp}} \mathrm{relu}(x \cdot k_i + b_i)\; v_i + b_{out}",
    {
        "x": f"the stream at one position, after the heads, {weights.d_model} numbers",
        "k_i": f"key, column $i$ of $W_{{in}}$ ({weights.d_model} × {d_mlp})",
        "v_i": f"value, row $i$ of $W_{{out}}$ ({d_mlp} × {weights.d_model})",
    },
    r"\mathrm{MLP}(x) = W_{out}\,\mathrm{relu}(W_{in}\, x + b_{in}) + b_{out},\quad "
    r"k_i = \text{row } i \text{ of } W_{in}",
)
ui.by_hand(
    "two memories in a stream of two dimensions",
    "Let $x = (1, 2)$ and no biases. Memory 1 has key $(1, 0)$ and value $(3, 0)$; memory 2 has key $(1, -1)$ and "
    "value $(0, 5)$.\n\nMatches: $x \\cdot k_1 = 1$, $x \\cdot k_2 = 1 - 2 = -1$. ReLU keeps 1 and turns −1 into 0. "
    "Output: $1 \\cdot (3, 0) + 0 \\cdot (0, 5) = (3, 0)$. Memory 2 has no part in it.",
)

st.markdown(f"#### Neuron {neuron}: what it waits for, and what it says")
text = cached.text(view.model_name)
passages = cached.passages(view.model_name, neuron)
n_silent = int((text.contexts.activation[:, 0] <= 0).sum())
with st.container(border=True):
    if max(passages[0].activation) <= 0:
        st.markdown("This memory answers nowhere in the text: its passages mean nothing.")
    for found in passages:
        labels = tokens.labels(view.model, found.ids)
        st.markdown(f"`{max(found.activation):.2f}` … {passage(labels, found.activation)} …")
st.caption(
    f"Its {len(passages)} strongest passages of {len(text.windows)} (our sample prose; text sampled from our models). "
    "The number is the activation at the peak; tinted tokens reach a quarter of it, bold ones two thirds. "
    f"Does one description fit all passages? Often none does. {n_silent} of {d_mlp:,} memories answer nowhere in it."
)
says, reads, cosine = st.columns([1, 1, 1.1], gap="medium")
logits, matches = mlp.value_logits(weights, neuron), mlp.key_matches(weights, neuron)
with says:
    up, down = mlp.top_tokens(logits, 7)
    picked = torch.cat([up, down.flip(0)]).tolist()
    ui.chart(
        base.bars(
            tokens.labels(view.model, picked),
            logits[picked].tolist(),
            title="Value through W_U",
            unit="logit a unit of activation",
            colours=[base.OV] * 7 + [base.REMOVED] * 7,
            height=360,
        ),
        "The tokens its value makes most and least likely; the mean over the vocabulary is removed.",
        "Bars: logits of the value",
        key="value",
    )
with reads:
    up, down = mlp.top_tokens(matches, 7)
    picked = torch.cat([up, down.flip(0)]).tolist()
    ui.chart(
        base.bars(
            tokens.labels(view.model, picked),
            matches[picked].tolist(),
            title="Embeddings against the key",
            unit="match, token alone",
            colours=[base.QK] * 7 + [base.REMOVED] * 7,
            height=360,
        ),
        "Which present token excites it most. What heads bring from earlier tokens comes on top.",
        "Bars: match of token embeddings with the key",
        key="key",
    )
cosines = mlp.key_value_cosines(weights)
with cosine:
    n_deleting = int(mlp.deletion_neurons(weights).sum())
    threshold = -mlp.DELETION_SDS * weights.d_model**-0.5
    ui.chart(
        charts.cosine_histogram(cosines.numpy(), weights.d_model, threshold, float(cosines[neuron])),
        f"Red: {n_deleting} deletion neurons, more than {mlp.DELETION_SDS:.0f} standard deviations below a random pair "
        f"(dashed). Violet line: neuron {neuron}, {float(cosines[neuron]):+.2f}.",
        "Histogram of the cosine between key and value",
        key="cosines",
    )
if text.note:
    st.caption(
        ":material/info: The shipped index of contexts does not fit these weights, so it was made anew for this visit."
    )

st.markdown("#### Take one memory away")
removed = cached.ablated(view.model_name, view.ids, here)
flips = int((removed.prediction != run.logits[here].argmax()).sum())
rows, words = st.columns([1.6, 1], gap="medium")
with rows:
    order = removed.kl.argsort(descending=True)[:10]
    after = tokens.labels(view.model, removed.prediction[order].tolist())
    names = [f"{int(removed.neuron[i])} → {label}" for i, label in zip(order, after, strict=True)]
    ui.chart(
        base.bars(names, removed.kl[order].tolist(), title="Removing one memory", unit="KL in nats", height=320),
        "Neuron removed → the model's first choice without it. The ten that matter most here.",
        "Bars: change of the next-token distribution when one memory is removed",
        key="ablate",
    )
found = cached.agreement(view.model_name, view.ids)
with words:
    ui.measure("first choice flips for", f"{flips} of {n_active}", "memories that answer")
    ui.measure("memories that answer, mean over positions", f"{found.active.float().mean():.0f}")
    ui.measure(
        "positions where no single memory alone favours the layer's favourite token",
        f"{int((found.sharing == 0).sum())} of {len(view.ids)}",
    )
    st.markdown(
        "Geva and colleagues report of a 16-layer model that a layer mixes hundreds of memories at once, and that its "
        "output usually differs from every one of them. The numbers above are this model's own."
    )

st.markdown("#### Where the path expansion stops")
target = int(run.logits[here].argmax())
through = mlp.through(weights, run, here)
names = ["embed", "pos", *map(str, weights.heads)]
frozen, live = (part @ weights.W_U[:, target] for part in (through.frozen, through.live))
left, right = st.columns([1.6, 1], gap="medium")
with left:
    ui.chart(
        base.paired_bars(
            names,
            {"gates frozen": frozen.tolist(), "source removed": live.tolist()},
            title=f"Through the MLP to the logit of {tokens.label(view.model, target)}",
            unit="logit",
            colours=(base.DIRECT, base.OV),
            height=420,
        ),
        "Grey bars (and the biases) sum to the MLP's share of the logit. Orange bars do not: gates react, "
        "most of all where the MLP never is without that source.",
        "Bars: each source's share of a logit through the MLP, with frozen and with live gates",
        key="through",
    )
with right:
    output = run.mlp_out[0, here]
    ui.check("max |Σ frozen + bias − MLP(x)|", float((through.frozen.sum(0) + through.bias - output).abs().max()), 1e-4)
    gap = (live.sum() + (through.bias - output) @ weights.W_U[:, target]).item()
    ui.measure("Σ removed + bias − MLP(x), on this logit", f"{gap:+.2f}", "(0 if the layer were linear)")
    st.markdown(
        f"Taking away {names[int(through.flipped.argmax())]} flips **{int(through.flipped.max())}** gates. With gates "
        "held fixed an MLP is a matrix, and paths multiply as before. But which gates are open depends on *all* "
        "sources at once, so the logits are no longer a sum over paths that can be read one by one."
    )
    gate = ui.choice("The gate f", ("ReLU", "GELU"), name="gate")
    f = torch.relu if gate == "ReLU" else torch.nn.functional.gelu
    answers = (mlp.activations(weights, mlp.inputs(run), nonlinearity=f) != 0).float().mean()
    ui.measure("memories with a non-zero activation", f"{answers:.1%}", "of all, over the prompt")
    if gate == "GELU":
        st.caption("The same weights with another gate: not the trained model. With GELU every memory says a little.")

share = float((activation > 0).float().mean())
top_flips = bool(removed.prediction[0] != run.logits[here].argmax()) if n_active else False
ui.exercises(*questions.exercises(share, top_flips, ranked[0]))
ui.show_code(mlp.keep_strongest, mlp.through, mlp.deletion_neurons, contexts.top_contexts)
ui.limits(
    "A neuron is not a feature: many answer to unrelated things, and a value read through $W_U$ is only its direct "
    "effect. Contexts come from a small text; a larger one could tell another story. Nor does one memory hold one fact."
)
ui.takeaways(
    "An MLP's output is exactly a sum of value rows, weighted by key matches.",
    "Many memories write at once; the prediction belongs to their sum.",
    "Gates tie all sources together: here the exact expansion over paths ends.",
)
ui.end(view)
