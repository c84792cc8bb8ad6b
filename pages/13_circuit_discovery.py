"""Claim: a circuit is a claim about which edges matter, and patching every edge of the model tests it.

After the framework paper: activation patching, ACDC (arXiv 2304.14997), attribution patching (arXiv 2310.10348).
"""

import pandas as pd
import streamlit as st
import torch

from circuits import discovery, tokens
from circuits.charts import base
from circuits.charts import discovery as charts
from pages import ui
from pages.ui import pair_editor
from pages.ui.cached import discovery as cached
from pages.ui.cached.discovery import Source
from pages.ui.questions import circuit_discovery as questions

RANDOM, TEXT = "Random repeats", "Your text"
view = ui.begin("circuit_discovery")
weights, name = view.weights, view.model_name
graph = discovery.graph(weights)


control, figure = st.columns([1, 2.4], gap="medium")
with control:
    percent = ui.slider("Keep edges worth at least τ", 0.0, 50.0, 4.0, step=0.5, name="tau", format="%g %%")
    explain = ui.choice("Of the behaviour on", (RANDOM, TEXT), name="explain")
    if explain == RANDOM:
        corruption = ui.choice(
            "Clean is A A; corrupt is",
            tuple(discovery.CORRUPTIONS),
            name="corruption",
            default="BB",
            help="A, B, C are stretches of 16 random tokens. The last token of the second copy is to be predicted.",
        )
    typed = pair_editor.source(view)
if explain == TEXT and cached.metrics(name, typed)[0] == cached.metrics(name, typed)[1]:
    st.info("Clean and corrupt text give the same answer: nothing to explain. Random repeats are shown instead.")
    explain, corruption = RANDOM, "BB"
source = Source(corruption) if explain == RANDOM else typed
pair, (clean, corrupt) = cached.pair(name, source), cached.metrics(name, source)
effects = cached.edges(name, source).exact
shares = effects / (corrupt - clean)
keep = shares.abs() >= percent / 100
n_kept = int(keep.sum())
faithful = cached.faithfulness(name, source, n_kept)
curve = cached.curve(name, source)
enough = next(count for count, value in zip(cached.COUNTS, curve, strict=True) if value >= 0.8)
previous, induction_heads = cached.heads(name)
colours = {str(previous): base.PREVIOUS} | {str(head): base.INDUCTION for head in induction_heads}

table = charts.edge_frame(graph, effects.tolist(), shares.tolist())
kept = table[keep.numpy()]

with figure:
    if ui.predict(questions.prediction(len(graph), enough)):
        left, right = st.columns([2, 1])
        with left:
            ui.chart(
                charts.graph(kept, weights.n_layers, weights.n_heads, colours, f"{n_kept} of {len(graph)} edges"),
                f"Thicker is more. Teal box: the previous-token head {previous}. Violet boxes: induction heads.",
                "Graph of the kept edges from embeddings through heads to the logits",
                key="graph",
                table=kept,
            )
        with right:
            ui.chart(
                charts.faithfulness(cached.COUNTS, curve, (n_kept, faithful), height=350),
                f"Red: the circuit on the left keeps {faithful:.0%}.",
                "Curve: faithfulness by the number of edges kept",
                key="faithfulness",
                table=pd.DataFrame({"edges": cached.COUNTS, "faithfulness": curve}),
            )
    gap = abs(clean - corrupt)  # faithfulness is a share of it; where it is small, rounding is not
    ui.check("full graph − model, empty graph − corrupt, logits", gap * (abs(curve[-1] - 1) + abs(curve[0])), 1e-3)

k_edge = discovery.Edge(str(previous), induction_heads[0], "k")
at = graph.index(k_edge)
rank = int((effects.abs() > effects[at].abs()).sum()) + 1
verdict = "kept" if keep[at] else "cut"
with control:
    st.markdown(f"**{ui.code(str(k_edge))}** is {verdict}: {shares[at]:.1%}, rank {rank} of {len(graph)}.")
    st.caption(
        f"Metric: logit of {ui.code(tokens.label(view.model, int(pair.answer[0])))} − logit of "
        f"{ui.code(tokens.label(view.model, int(pair.wrong[0])))}{', …' if len(pair.wrong) > 1 else ''} at the end: "
        f"clean {clean:.1f}, corrupt {corrupt:.1f}."
    )
    prompts = {
        side: [" ".join(tokens.labels(view.model, row)) for row in getattr(pair, side).tolist()]
        for side in ("clean", "corrupt")
    }
    circuit = discovery.Circuit(name, prompts, percent / 100, (clean, corrupt), faithful, graph, effects, keep)
    st.download_button(
        "Circuit as JSON",
        circuit.to_json,
        file_name="circuit.json",
        mime="application/json",
        icon=":material/download:",
        on_click="ignore",
        width="stretch",
    )

ui.idea(
    "Take two prompts: on the *clean* one the model does something, on the *corrupt* one it does not. One number, the "
    "metric, tells them apart. Then move a part of one run into the other and read the number again.\n\n"
    "A head reads the stream three times, for queries, keys and values. Each reading is a sum of all earlier outputs. "
    "One summand of one reading is an **edge**. *Patching* an edge replaces that summand by its value on the corrupt "
    "prompt. Everything downstream is computed anew, everything else stays.\n\n"
    "A set of edges is a **circuit**: run it with all other edges corrupt. **Faithfulness** is the share of the "
    "metric's difference that is left. No LayerNorm stands between, so a patch is one added difference.",
    r"\text{effect}(s \to h.c) = m\big(x_{h.c} + \delta_s\big) - m(x_{h.c}),\qquad "
    r"\text{faithfulness} = \frac{m_{circuit} - m_{corrupt}}{m_{clean} - m_{corrupt}}",
    {
        r"x_{h.c}": f"what head $h$ reads for $c \\in \\{{q, k, v\\}}$, tokens × {weights.d_model}",
        r"\delta_s": f"source $s$ on corrupt minus on clean, tokens × {weights.d_model}",
        "m": "the metric: a difference of two logits at the last token, a number",
    },
)
n_heads, n_layers = weights.n_heads, weights.n_layers
ui.by_hand(
    f"counting the {len(graph)} edges",
    f"A head of layer 0 reads embed and pos, three times: {n_heads} · 3 · 2 = {6 * n_heads}.\n\n"
    f"A head of layer 1 reads those and {n_heads} heads: {n_heads} · 3 · {2 + n_heads} = {3 * n_heads * (2 + n_heads)}."
    "\n\n"
    f"The logits read all {2 + 2 * n_heads} once. Together **{len(graph)}**.",
)

st.markdown("#### Patch one activation of one head")
choose, board, points = st.columns([1.45, 1.5, 1.6], gap="medium")
with choose:
    on = ui.choice("On", (TEXT, RANDOM), name="patch_on")
    kind = ui.choice("Activation", discovery.KINDS, name="kind", default="z")
    direction = ui.choice(
        "Direction",
        ("noising", "denoising"),
        name="direction",
        help="Noising puts corrupt activations into the clean run; denoising the other way.",
    )
    patch_source = typed if on == TEXT else Source("BB")
    patched = cached.patched(name, patch_source, direction == "denoising")
    last = max((patched.exact[k][-1] - patched.estimate[k][-1]).abs().max().item() for k in ("v", "pattern", "z"))
    ui.check("max |attribution − activation|, last layer, v, pattern, z", last, 1e-3)
    st.caption("There the metric is linear in what is patched. Elsewhere a softmax lies between.")
with board:
    labels = [f"H{head}" for head in range(n_heads)]
    values = patched.exact[kind].numpy()
    figure_title = f"Patching {kind}: change of the metric"
    ui.chart(
        base.heatmap(
            values,
            [f"L{layer}" for layer in range(n_layers)],
            labels,
            title=figure_title,
            unit="logits",
            diverging=True,
            row_title="layer",
            column_title="head",
            height=220,
        ),
        f"Each cell is one forward pass with one head's {kind} taken from the other run.",
        "Heat map of layer by head: effect of patching",
        key="patching",
    )
with points:
    ui.chart(
        charts.scatter(*patched.arrays(), "One gradient against one pass a head"),
        "Attribution patching guesses all patches from one backward pass. On the dashed line the guess is right.",
        "Scatter: attribution patching against activation patching",
        key="scatter",
    )

st.markdown("#### Who feeds one reading")
choose, sources = st.columns([1, 2.2], gap="medium")
targets = list(dict.fromkeys(edge.target for edge in graph))
with choose:
    target = ui.select("Reading", targets, name="target", default=k_edge.target)
    estimate = cached.edges(name, source).estimate
    correlation = torch.corrcoef(torch.stack([effects, estimate]))[0, 1]
    ui.measure("correlation of all exact and estimated edges", f"{correlation:.2f}")
    st.caption("Where a pattern is saturated, the slope is flat and the estimate near zero, though the patch is not.")
into = [i for i, edge in enumerate(graph) if edge.target == target]
with sources:
    ui.chart(
        base.paired_bars(
            [graph[i].source for i in into],
            {"path patching": effects[into].tolist(), "attribution": estimate[into].tolist()},
            title=f"Edges into {target}",
            unit="change of the metric, logits",
            colours=(base.QK, base.DIRECT),
            height=420,
        ),
        f"Each source replaced in {target} alone, on {explain.lower()}; and what the gradient says it would be.",
        "Bars: exact and estimated effect of every edge into one reading",
        key="into",
    )

st.markdown("#### Remove a head: what does removed mean?")
choose, bars = st.columns([1, 2.2], gap="medium")
with choose:
    how = ui.choice("Its output becomes", ("zero", "mean", "resample"), name="ablate", default="resample")
    ablated = cached.ablated(name, source, how)
    changes = " → ".join(f"{run.probability:.2f}" for run in ablated.left)
    ui.measure(f"probability of the answer: all → without {induction_heads[0]} → without the violet heads", changes)
    st.caption(
        "Zero: a state the model never is in. Mean: over reference prompts, position by position. Resample: what the "
        "head says on the corrupt prompt. Heads of the last layer add up in logits, but not in probability."
    )
with bars:
    ui.chart(
        base.bars(
            list(map(str, weights.heads)),
            ablated.each.flatten().tolist(),
            title=f"Change of the metric, one head removed ({how})",
            unit="logits",
            colours=[colours.get(str(head), base.DIRECT) for head in weights.heads],
            height=440,
        ),
        "Change the meaning of removed: some heads matter only in one sense of the word.",
        "Bars: effect of ablating each head",
        key="ablation",
    )

with st.container(border=True):
    st.markdown("#### :material/warning: Caution: what patching can get wrong")
    gates = {"OR": discovery.gate_patching(torch.maximum), "AND": discovery.gate_patching(torch.minimum)}
    words, figures = st.columns([1.4, 1], gap="medium")
    figures.dataframe(
        pd.DataFrame(
            [(gate, way, *getattr(result, way)) for gate, result in gates.items() for way in ("noising", "denoising")],
            columns=["gate", "direction", "a", "b", "both"],
        ),
        hide_index=True,
    )
    figures.caption(
        "The output of a gate on two parts, a and b, each 1 on clean and 0 on corrupt, when a, b or both are patched: "
        "computed, not quoted."
    )
    words.markdown(
        "- **Redundancy.** If two heads do the same, spoiling either alone changes little. In OR, noising finds "
        "neither part; in AND, denoising finds neither. The two directions are different questions.\n"
        "- **Other prompts.** A circuit is found for one pair of distributions. Try BA instead of BB.\n"
        "- **Necessary is not sufficient.** Redwood Research tested the usual story of induction heads by causal "
        "scrubbing (Alignment Forum, December 2022): as first stated it recovered 35 % of the loss, refined 89 %.\n"
        "- **Not ACDC.** Here every edge is patched alone and the strongest stay. ACDC removes edges one by one, from "
        "the output back, and measures anew after each; for Greater-Than in GPT-2 small its authors keep 68 of some "
        "32,000."
    )
with st.expander("What about circuit tracing?", icon=":material/conversion_path:"):
    st.markdown(
        "Circuit tracing first trains a **replacement model**: sparse features (transcoders) that stand in for the "
        "MLPs, so that a node is a feature rather than a head. It then draws an attribution graph between features for "
        "one prompt, with attention patterns held fixed and an error node for what the replacement misses.\n\n"
        "This page computes nothing of that. Its nodes are heads, its model has no MLP, and its edges are measured by "
        "intervention, attention included. A replacement model explains itself first; how far it explains the original "
        "is again a matter for interventions."
    )

reference = cached.ablated(name, Source("BB"), "resample").each
ui.exercises(*questions.exercises(reference, previous))
ui.show_code(
    discovery.edge_effects, discovery.activation_patching, discovery.attribution_patching, discovery.circuit_metrics
)
ui.limits(
    "The graph explains one metric on one pair of prompts. Another corruption, or another position, may need other "
    "edges; and a faithful circuit may still contain parts that cancel."
)
ui.takeaways(
    "A circuit is a claim; an intervention is its test.",
    "Every edge can be patched here, because every input is a plain sum.",
    "Gradients estimate all patches at once, and are exact only where the metric is linear.",
)
ui.end(view)
