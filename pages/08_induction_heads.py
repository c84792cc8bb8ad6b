"""Claim: a previous-token head and a matching head together continue a pattern seen once.

Elhage et al. 2021, "Induction heads": behaviour, mechanism, checks; ablations after Olsson et al. 2022.
"""

import math

import pandas as pd
import streamlit as st
import torch

from circuits import hand_built, induction, interventions, mechanism, tokens
from circuits.charts import base
from circuits.charts import induction as charts
from pages import ui
from pages.ui.cached import induction as cached
from pages.ui.workbench import workbench

view = ui.begin("induction_heads")
name, weights, model = view.model_name, view.weights, view.model
roles = cached.roles(name)
previous, best = roles.previous, roles.best
STRONGEST = "the strongest on these tokens"

control, figure = st.columns([1, 3], gap="medium")
with control:
    random = ui.choice("Tokens", ["Random", "Your text"], name="source") == "Random"
    if random:
        period = ui.slider("Period", 4, 60, 20, name="period", help="So many random tokens, then the same again.")
    ablate = ui.toggle(f"Take away {previous}", False, name="ablate", help="The previous-token head of layer 0.")
    with st.popover("More", icon=":material/tune:", width="stretch"):
        upper = [head for head in weights.heads if head.layer > previous.layer]
        asked = ui.select("Head in the picture", [STRONGEST, *map(str, upper)], name="head")
        if random:
            repeats = ui.slider("Copies", 2, 4, 2, name="repeats")
            bos = ui.toggle("Begin with BOS", True, name="bos", help="Every text in training began with it.")
            swap = ui.slider("Replace a token of the last copy (0: none)", 0, period, 0, name="swap")
            seed = ui.slider("Draw", 0, 99, 0, name="seed")

ids = cached.probe(period, repeats, bos, swap, weights.d_vocab, seed) if random else view.ids
labels, sequence = tokens.labels(model, ids), torch.tensor(ids)
targets, copies = induction.induction_targets(sequence), induction.predictable(sequence)
clean, without = ui.cached.run(name, ids), cached.ablated(name, ids, (previous,))
strongest = cached.strongest(name, ids, tuple(upper)) if targets.any() else best
shown = strongest if asked == STRONGEST else next(head for head in upper if str(head) == asked)
if targets.any():
    before, after = (induction.target_score(run.pattern[shown], targets).item() for run in (clean, without))
    outcome = "It goes out" if after < before / 3 else "It fades a little" if after < 0.9 * before else "Nothing"
    question = ui.Prediction(
        f"Take away {previous}, a head of layer 0 that looks one token back. What happens to the stripe of {shown} "
        "in layer 1?",
        ("Nothing", "It fades a little", "It goes out"),
        outcome,
        f"Attention on the stripe goes from {before:.2f} to {after:.2f}: its keys are made below.",
    )
else:
    question = ui.Prediction(
        "Nothing repeats in these tokens. Where will an induction head look?",
        ("At the beginning", "At the last token"),
        "At the beginning" if clean.pattern[shown][-1].argmax() == 0 else "At the last token",
        "There is no match, and attention has to go somewhere.",
    )

with figure:
    if ui.predict(question):
        stripe, curves = st.columns(2)
        with stripe:
            ui.chart(
                charts.stripe(
                    (without if ablate else clean).pattern[shown].numpy(),
                    targets.numpy(),
                    labels,
                    title=f"Attention of {shown}" + (f", without {previous}" if ablate else ""),
                    height=290,
                ),
                "Outlined: the token after an earlier copy of the query's.",
                f"Attention pattern of {shown} with the predicted cells outlined",
                key="pattern",
            )
        with curves:
            series = {"1 layer": cached.losses("one-layer", ids), "2 layers": cached.losses(name, ids)}
            if ablate:
                series[f"no {previous}"] = cached.losses(name, ids, (previous,))
            ui.chart(
                charts.losses(
                    series,
                    dict(zip(series, (base.DIRECT, base.INDUCTION, base.REMOVED), strict=False)),
                    title="Loss of every token",
                    labels=None if random else labels,
                    repeats_from=int(copies.int().argmax()) + 1 if copies.any() else None,
                    height=290,
                ),
                f"Guessing costs ln V = {math.log(weights.d_vocab):.1f} nats.",
                "Loss by position for the one-layer and the two-layer model",
                key="losses",
            )
        score, accuracy = st.columns(2)
        if targets.any():
            with score:
                ui.measure(f"induction score of {shown}", f"{before:.2f}", f"→ `{after:.2f}` without {previous}")
        else:
            st.caption("Nothing repeats here. Type a text in which a word comes back.")
        if copies.any():
            with accuracy:
                first, second = (induction.copying(run.logits, sequence).accuracy for run in (clean, without))
                ui.measure("second-copy accuracy", f"{first:.0%}", f"→ `{second:.0%}` without {previous}")
    gone = (previous,) if ablate else ()
    ui.check("max |hooked model − matrices|, logits", cached.ablation_gap(name, ids, gone), 1e-3)

formed = cached.formed(name, best)
heads_found = ", ".join(map(str, roles.induction)) or f"none above {induction.INDUCTION_THRESHOLD}"
ui.idea(
    "At *… A B … A* an **induction head** looks from the second A at **B**, the token *after* the first A, and "
    "copies it.\n\nHow does B know that A stood before it? By itself it cannot. A **previous-token head** in layer 0 "
    "has written A into B's stream, and the layer-1 head reads that in its **keys**. Its query is just its own "
    "token. *The key is one step late, and that is the whole trick.*\n\n"
    f"In `{name}`, by its numbers on random repeats of period {cached.PERIOD}: previous-token head **{previous}** "
    f"({roles.scores.previous[previous]:.2f} of its attention one back), induction heads **{heads_found}**. "
    f"{best} works by **{formed}** ({formed.margins[formed.kind]:.1f} of the {sum(formed.margins.values()):.1f} "
    "nats by which its score favours the stripe).",
    r"\begin{aligned} s_{ij} &= \cdots + t_i\, M\, t_{j-1}^{\top} / \sqrt{r} \\ "
    r"M &= W_E W_Q W_K^{\top} (W_V^{p} W_O^{p})^{\top} W_E^{\top} \end{aligned}",
    {
        "s_{ij}": "score of query i, key j; one term of many",
        "t_i": "one-hot row $[V]$ of the token at i",
        "W_E": f"$[V, d] = [{weights.d_vocab}, {weights.d_model}]$",
        "W_Q, W_K": f"induction head, $[d, r] = [{weights.d_model}, {weights.d_head}]$",
        "W_V^p W_O^p": "previous-token head $p$, $[d, d]$",
    },
    paper=r"\mathrm{Id}\otimes A^{h_{-1}}\otimes\left(W_E^{\top} W_{QK}\, W_{OV}^{h_{-1}} W_E\right)",
)

st.markdown("#### Who is what")
ui.chart(
    charts.scoreboard(
        {field: getattr(roles.scores, field).flatten().numpy() for field in ("previous", "duplicate", "induction")},
        list(map(str, weights.heads)),
        title="Attention on the token before, on the earlier copy, on the token after that",
    ),
    f"Means on {cached.PERIOD} random tokens, twice. Looking everywhere alike would give an induction score of "
    f"{induction.uniform_floor(cached.PERIOD):.4f}.",
    "Previous-token, duplicate-token and induction score of every head",
    key="scores",
)
if not random:
    read = induction.readout(weights, clean, shown)
    rows = {
        "query": view.unique_labels,
        "an induction head would look at": [
            ", ".join(view.unique_labels[j] for j in row.nonzero().flatten()[-3:]) for row in targets
        ],
        f"attention of {shown} there": read.on_target.numpy(),
        f"{shown} looks at": [view.unique_labels[j] for j in read.looks_at],
        "and raises most": tokens.labels(model, read.boosts.tolist()),
    }
    with st.expander(f"{shown} on your text, token by token", icon=":material/table_rows:"):
        st.dataframe(pd.DataFrame(rows), hide_index=True)

st.markdown(f"#### The circuit in {shown}'s scores")
parts = cached.components(name, ids, shown)
tables = {"Spread": parts.spread()} | ({"Margin on the stripe": parts.margin(targets)} if targets.any() else {})
by = ui.choice("Show", list(tables), name="measure", default=list(tables)[-1])
table = tables[by].numpy()


def pick_term() -> None:
    """Take a click on the table as the choice of a term."""
    for point in st.session_state["terms"].selection["term"]:
        st.session_state["induction_heads.term"] = (point["query"], point["key"])


grid, term = st.columns(2)
with grid:
    ui.chart(
        charts.component_table(table, parts.names, title=f"{by} of each term", unit="nats", diverging=by != "Spread"),
        "One strong cell is the circuit. Spread: standard deviation over all visible pairs. Margin: how far the term "
        "lifts the stripe above the rest. Click a cell.",
        "Table of score terms: rows what wrote the query, columns what wrote the key",
        key="terms",
        on_select=pick_term,
    )
a, b = st.session_state.get("induction_heads.term", divmod(int(table.argmax()), len(parts.names)))
with term:
    title = f"Query from {parts.names[a]}, key from {parts.names[b]}"
    terms = parts.terms[a, b].numpy()
    ui.chart(
        base.heatmap(terms, labels, labels, title=title, unit="nats", diverging=True, causal=True, height=370),
        f"One of the {parts.terms[..., 0, 0].numel()} terms of {shown}'s score, before the softmax.",
        "Score map of one term",
        key="one term",
    )
error = (parts.terms.sum((0, 1)) - clean.scores[shown]).tril().abs().max().item()
ui.check("max |Σ terms − scores|", error, 1e-3)

st.markdown("#### From the weights alone, and by intervention")
eigen = cached.eigenvalue_scores(name, previous)
plot, swap_in = st.columns([3, 2], gap="medium")
with plot:
    nulls = (eigen.matching_null, eigen.copying_null)
    edge = eigen.copying_null.mean + 2 * eigen.copying_null.sd
    weak = [
        str(h) for h, score in zip(eigen.heads, eigen.copying, strict=True) if h in roles.induction and score < edge
    ]
    note = f" Not all: {', '.join(weak)} matches, and copies by this score no more than chance may." if weak else ""
    ui.chart(
        charts.corner(
            list(map(str, eigen.heads)),
            eigen.matching.numpy(),
            eigen.copying.numpy(),
            [head in roles.induction for head in eigen.heads],
            tuple((null.mean - 2 * null.sd, null.mean + 2 * null.sd) for null in nulls),
            title=f"Matching through {previous}, and copying",
        ),
        "Triangles: heads whose behaviour is induction. Do they sit in the upper right corner? Grey bands: random "
        f"heads between the same embeddings, ± 2 sd.{note}",
        "Scatter of layer-1 heads by matching and copying eigenvalue score",
        key="corner",
    )
with swap_in:
    st.markdown("**Is that all these heads do?** Give them ideal patterns and leave their values alone.")
    if copies.any():
        rows = {
            role: [f"{each.clean:.2f}", f"{each.removed:.2f}", f"{each.ideal:.2f}", each.share]
            for role, each in cached.idealised(name, ids).items()
        }
        st.table(pd.DataFrame(rows, index=["as trained", "removed", "ideal pattern", "recovered"]))
        st.caption(
            "Loss on the second copy, in nats. Above 100 %: the ideal pattern is better than the head's own. "
            "The idea of the test is Redwood Research's."
        )
    else:
        st.caption("Nothing repeats, so there is no second copy to measure on.")

workbench()

ui.by_hand(
    "three tokens and BOS",
    "`BOS A B C A`: the query is the last **A**, at position 4. Layer 0 has written into each key the token before "
    "it: position 1 carries BOS, 2 carries **A**, 3 carries B, 4 carries C. Only position 2 matches. With gain β the "
    "scores are 0, 0, β, 0, 0, so position 2 gets $e^β/(e^β+4)$; with β = 5 that is $148/152 = 0.97$. The head "
    "copies what stands *at* position 2: **B**.",
)
ui.exercises(
    ui.Exercise(
        "Which gain β puts 90 % of the attention on one match among 25 visible tokens?",
        ui.Number(math.log(9 * 24), 0.06),
        ("Attention on the match is e^β / (e^β + 24).", "Solve e^β = 9 · 24."),
        "0.9 (e^β + 24) = e^β gives e^β = 216, so β = ln 216 ≈ 5.4.",
    ),
    ui.Exercise(
        "A head attends to all visible tokens alike. What induction score does it get at period 50?",
        ui.Number(induction.uniform_floor(50), 0.0005),
        ("At query i it gives each key 1/(i+1).", "Average 1/(i+1) over the second copy: close to ln 2 / 50."),
        "The mean of 1/(i+1) over i = 51 … 100, about ln 2 / 50 = 0.0139.",
    ),
    ui.Exercise(
        "By hand above: let the key carry its own token t_j. What is the layer-1 head now?",
        ui.Choice(tuple(hand_built.KEY_SOURCES.values()), hand_built.KEY_SOURCES[0]),
        ("Which earlier keys does the query A match?", "Try it: the stripe moves by one."),
        "It finds the earlier A itself, and copies A. The shift by one was the induction head.",
    ),
    ui.Exercise(
        "Without BOS the hand-built head makes one mistake in every sequence, however large the gains. Why?",
        ui.Choice(
            (
                "Position 0 can only look at itself, and so claims to be its own predecessor",
                "The first token is rare",
                "Without BOS the attention does not sum to 1",
            ),
            "Position 0 can only look at itself, and so claims to be its own predecessor",
        ),
        ("What does layer 0 write at position 0?", "Which keys does the first token of the second copy match?"),
        "The key at 0 matches the first token of the second copy, and votes for that token itself.",
    ),
    ui.Exercise(
        f"Which layer-1 head of `{name}` has the highest induction score at period {cached.PERIOD}?",
        ui.HeadName((best,)),
        ("Read the third row of the board.", "The largest number in it."),
        f"The board says {best}, {roles.scores.induction[best]:.2f}.",
    ),
)
ui.show_code(
    induction.induction_targets,
    induction.target_score,
    mechanism.mechanism,
    mechanism.score_components,
    interventions.hooked,
    hand_built.induction_head,
    call=f"target_score(run.pattern[{shown.layer}, {shown.head}], induction_targets(run.tokens)).item()"
    if targets.any()
    else "induction_targets(run.tokens).sum().item()",
    gives=before if targets.any() else 0,
    ids=ids if random else None,
)
ui.limits(
    "Random repeats show that a head copies, not how much that helps on prose: the head that is strongest on random "
    "tokens can be silent on your text. Taking a head away shows that it is "
    "needed, not that it is enough. And what formed here is one training run: other seeds and sizes differ."
)
ui.takeaways(
    "An induction head looks at the token *after* an earlier copy, because of the token *before* it.",
    "It needs two layers: the key must carry something that its own position does not know.",
    "Behaviour, weights and interventions are three separate checks; a good claim passes all of them.",
)
ui.end(view)
