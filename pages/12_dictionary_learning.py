"""Claim: a sparse autoencoder finds known features again; on a real model it finds some that mean something, many not.

Bricken et al. 2023, "Towards Monosemanticity"; after the framework paper.
"""

import numpy as np
import pandas as pd
import streamlit as st
import torch

from circuits import mlp, tokens
from circuits.charts import base
from circuits.charts import dictionary as charts
from circuits.charts import superposition as toy_charts
from circuits.dictionary import autoencoder, features, search, truth
from circuits.dictionary.search import L1S
from circuits.superposition import geometry
from pages import ui
from pages.ui import live
from pages.ui.cached import dictionary as cached
from pages.ui.passages import passage
from pages.ui.questions import dictionary_learning as questions

FROM = 0.1
"""The least λ at which the rows are the true features, so that shrinkage can be read off them."""

view = ui.begin("dictionary_learning")
slug = view.page.slug


def draw(model: autoencoder.Autoencoder) -> None:
    """Look at any feature, not at a good one."""
    st.session_state[f"{slug}.feature"] = int(np.random.default_rng().integers(model.n_features))


control, figure = st.columns([1, 2.4], gap="medium")
with control:
    l1 = st.select_slider(
        "Sparsity penalty λ", L1S, 0.2, format_func="{:g}".format, key=f"{slug}.l1", persist_state="session"
    )
    name = ui.choice("True features in dimensions", list(search.TOYS), name="toy")
    expansion = ui.select(
        "Dictionary rows for each true feature", list(search.EXPANSIONS), name="rows", default="as many"
    )
    resample = ui.toggle(
        "Restart silent rows", True, name="resample", help="At steps 300 and 600, rows that never fired begin anew."
    )
    asked = search.Question(name, expansion, resample)
    trained = live.train(
        "dictionary_learning.search",
        asked,
        lambda: cached.train(asked),
        live.Trained(search.DEFAULT, cached.default_search()),
        "All λ at once",
    )

name, expansion, resample = trained.key  # what is shown, which may be an earlier training
at = L1S.index(l1)
report, known = trained.last.report, trained.last.known
dictionary = trained.last.model[at]
cosines = truth.match(known.W, dictionary.W_dec)
n, m = known.W.shape
n_stored = int(geometry.stored(known.W))
shrinkage = float(report.shrinkage[at])
with figure:
    silent = "restarted" if resample else "left alone"
    live.earlier(trained, asked, f"{name}, {expansion} rows, silent ones {silent}")
    if ui.predict(questions.PREDICTION):
        left, right = st.columns([1.2, 1], gap="small")
        with left:
            if m == 2:
                ui.chart(
                    toy_charts.arrows(known.W.numpy(), 290, dictionary.W_dec.numpy()),
                    "Blue: true features. Dashed orange: rows of the dictionary, of length 1.",
                    "Arrows: true features and dictionary rows in the plane",
                    key="plane",
                )
            else:
                ui.chart(
                    charts.match_matrix(cosines.numpy(), truth.order(cosines).tolist()),
                    "A clean diagonal: every feature has its row. Small λ blurs it, large λ thins it out.",
                    "Heat map: cosine of true features with dictionary rows",
                    key="match",
                )
        with right:
            ui.chart(
                charts.frontier(L1S, report.l0.tolist(), report.error.tolist(), report.true_l0, at),
                "More λ: fewer active features, more error.",
                "Curve: reconstruction error against L0 for every λ",
                key="frontier",
            )
    ui.measure(
        "true features found",
        f"{int(report.recovered[at])} of {n_stored}",
        f"mean max cosine `{report.mean_max_cosine[at]:.3f}`, dead rows `{int(report.dead[at])}`, "
        f"explained variance `{report.explained[at]:.3f}`",
    )
    ui.check("max | ‖W_dec[i]‖ − 1 |", float((dictionary.W_dec.norm(dim=-1) - 1).abs().max()), 1e-5)

ui.idea(
    "In superposition no single coordinate is a feature. **Dictionary learning** looks for directions such that every "
    "vector is nearly a sum of *few* of them. A **sparse autoencoder** does it with one hidden layer: the encoder "
    "decides how active each dictionary feature is, and the decoder adds that much of each row.\n\n"
    "The penalty $\\lambda \\sum f_i$ (**L1**) makes most activations zero. **L0** counts those that are not. Rows "
    "have length 1: otherwise halving $f$ and doubling the row would escape the penalty. A row that never fires is "
    "**dead**.\n\n"
    "The penalty has a price even where the direction is right: an activation comes out too small (**shrinkage**), "
    "by exactly $\\lambda/2$ where nothing interferes. "
    f"Here, at $\\lambda = {l1:g}$, it is `{shrinkage:.3f}`, against $\\lambda/2 =$ `{l1 / 2:.3f}`"
    + ("." if name == "20 in 10" else ": features that are not orthogonal add their interference."),
    r"f = \mathrm{relu}((x - b_{dec}) W_{enc} + b_{enc}),\ \hat x = f\,W_{dec} + b_{dec},\quad "
    r"L = \|x - \hat x\|^2 + \lambda \sum_i f_i",
    {"x": f"a vector, {m} numbers", "f": f"activations, {dictionary.n_features}", "W_{dec}": "one row a feature"},
    r"f = \mathrm{ReLU}(W_{enc} (x - b_{dec}) + b_{enc}),\quad \hat x = W_{dec} f + b_{dec}",
)  # fmt: skip
by_hand, shrinks = st.columns(2, gap="medium")
with by_hand:
    ui.by_hand(
        "why λ/2",
        "One feature, the right direction, activation $a = 1$, $\\lambda = 0.3$. The loss $(1 - f)^2 + 0.3 f$ has "
        "the derivative $-2 (1 - f) + 0.3$, zero at $f = 1 - 0.15 = 0.85$.\n\nIf $a < \\lambda/2$, the best is "
        "$f = 0$: weak features vanish altogether.",
    )
    if name == "20 in 10" and l1 >= FROM and trained.finished:  # below, the directions are not the features yet
        ui.check("|a − f − λ/2|, measured on features present alone", abs(shrinkage - l1 / 2), 0.02)
    else:
        ui.measure("a − f, features present alone", f"{shrinkage:.3f}", f"against λ/2 = `{l1 / 2:.3f}`")
with shrinks:
    ui.chart(
        charts.shrinkage(L1S, report.shrinkage.tolist(), at),
        f"Dashed: λ/2. With 20 in 10 (pairs, no other interference) the dots lie on it from λ = {FROM:g} on; "
        "elsewhere interference moves them, most of all at small λ, where the rows are not the true features.",
        "Points: measured shrinkage for every λ, with the closed form",
        key="shrinkage",
    )

real = None
st.markdown("#### A dictionary of a real model: the MLP of `one-layer-mlp`")
with ui.readable_errors():
    real = cached.dictionary()
    text = cached.text()
    weights, run, here = view.weights, view.run, view.focus
    hidden = mlp.activations(weights, mlp.inputs(run))
    f = real.model.encode(hidden)
    strongest = f[here].argsort(descending=True)
    n_active = int((f[here] > 0).sum())
    held_out = real.config["held_out"]
    target = int(run.logits[here].argmax())
    shares = features.logit_shares(weights, real.model, f[here], target)

    left, right = st.columns([1, 1.5], gap="medium")
    with left:
        top = strongest[: min(10, n_active)].tolist()
        ui.chart(
            base.bars(
                [str(i) for i in top], f[here, top].tolist(), title="Active features", unit="activation f", height=300
            ),
            f"After {ui.code(view.labels[here])}, {n_active} of {real.model.n_features:,} features are active.",
            "Bars: the most active dictionary features at the focused position",
            key="active",
        )
        spliced = features.splice(weights, run, real.model(hidden))
        whole = features.splice(weights, run, real.model(hidden) + (hidden - real.model(hidden)))
        ui.check("max |logits(features + error) − logits|", float((whole - run.logits).abs().max()), 1e-3)
    with right:
        chosen = st.number_input(
            "Look at feature",
            0,
            real.model.n_features - 1,
            top[0] if top else 0,
            key=f"{slug}.feature",
            persist_state="session",
        )
        st.button("A random feature", icon=":material/casino:", key=f"{slug} random", on_click=draw, args=(real.model,))
        shown = cached.passages(int(chosen))
        with st.container(border=True):
            for one in shown:
                st.markdown(
                    f"`{max(one.activation):.2f}` … {passage(tokens.labels(view.model, one.ids), one.activation)} …"
                )
            if not shown:
                st.markdown("Silent in all our passages. Nothing can be said about this feature.")
        st.caption(
            f"Its strongest passages of {len(text.windows)} (our sample prose; text sampled from our models). "
            f"{text.purity[chosen]:.0%} of them peak on the same token. Look at random ones before you believe."
        )
    effect, often, splice = st.columns([1, 1, 1.35], gap="medium")
    with effect:
        logits = features.logit_effect(weights, real.model, int(chosen))
        up, down = mlp.top_tokens(logits, 6)
        picked = torch.cat([up, down.flip(0)]).tolist()
        ui.chart(
            base.bars(
                tokens.labels(view.model, picked), logits[picked].tolist(), title=f"Feature {chosen} on the logits",
                unit="logit a unit of f", colours=[base.OV] * 6 + [base.REMOVED] * 6, height=300,
            ),
            f"Row of W_dec through W_out and W_U. Here it adds {shares[chosen]:+.2f} to the first choice, "
            f"{ui.code(tokens.label(view.model, target))}.",
            "Bars: what the feature makes more and less likely",
            key="effect",
        )  # fmt: skip
    with often:
        ui.chart(
            charts.density_histogram(real.density.numpy(), held_out["tokens"], float(real.density[chosen]), 300),
            f"{held_out['dead']:,} were never active on {held_out['tokens']:,} held-out tokens. Violet: {chosen}.",
            "Histogram: share of tokens on which features are active",
            key="density",
        )
    with splice:
        zero = features.splice(weights, run, torch.zeros_like(hidden))
        predicted = torch.tensor(view.ids[1:], dtype=torch.long)
        series = {
            title: torch.nn.functional.cross_entropy(logits[:-1], predicted, reduction="none").tolist()
            for title, logits in (("model", run.logits), ("dictionary", spliced), ("no MLP", zero))
        }
        ui.chart(
            base.curves(
                series, range(len(predicted)), title="Loss on your text, spliced in", x_title="predicted token",
                y_title="nats", x_labels=view.labels[1:], height=300,
            ),
            "The MLP's activations replaced by the dictionary's reconstruction, or by zero.",
            "Curves: loss at every token of the prompt for the model, the spliced dictionary, and no MLP",
            key="splice",
        )  # fmt: skip
    columns = {"l0": "L0", "explained_variance": "explained variance", "loss_clean": "loss, model"}
    columns |= {"loss_spliced": "loss, dictionary", "loss_zero": "loss, no MLP"}
    rows = pd.DataFrame({"held-out novels, stored": held_out, "sample prose, computed here": cached.on_prose()}).T
    st.dataframe(rows[list(columns)].rename(columns=columns), width="stretch")
    ui.measure("loss recovered on the sample prose", f"{cached.on_prose()['loss_recovered']:.3f}")
    neurons, l0 = cached.neurons_on_prose(), cached.on_prose()["l0"]
    ui.measure(
        "neurons active at once, without any dictionary",
        f"{neurons.l0:.1f}",
        f"({neurons.silent} of {weights.W_in.shape[-1]:,} neurons are silent on this prose). "
        f"The dictionary has `{l0:.1f}` features active at once on the same prose, `{l0 / neurons.l0:.2f}` times as "
        "many: " + ("it makes the layer sparser." if l0 < neurons.l0 else "it does **not** make the layer sparser."),
    )
    seen = text.contexts.activation[:, 0] > 0
    one_token = float((text.purity[seen] == 1).float().mean())
    st.markdown(
        f"**What they are worth.** {int((~seen).sum()):,} of {real.model.n_features:,} features are silent in all our "
        f"passages. Of the others, {one_token:.0%} have strongest passages that all peak on one and the same token: "
        "detectors of a token, for which no dictionary is needed. What the rest mean, if anything, is for you to judge."
    )

ui.exercises(*questions.exercises(real and real.config["held_out"]["loss_recovered"]))
ui.show_code(autoencoder.update, autoencoder.resample, truth.report, features.losses)
ui.limits(
    "A dictionary is not the truth: other λ, seeds and sizes give other features, and a good reconstruction makes "
    "none of them meaningful. Ours is small and was trained for minutes. What the error term does is counted in "
    "the losses, not explained."
)
ui.takeaways(
    "With the right penalty a sparse autoencoder finds features known to be there; with too little, others.",
    "L1 makes activations too small: by λ/2 where features do not interfere. Lower L0 is not better by itself.",
    "On a real model: measure L0, the loss recovered and the dead, and read random features, not chosen ones.",
)
ui.end(view)
