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
from circuits.dictionary import autoencoder, features, measures, truth
from circuits.superposition import geometry
from pages import ui
from pages.ui import live
from pages.ui.cached import dictionary as cached
from pages.ui.passages import passage

view = ui.begin("dictionary_learning")
slug = view.page.slug


def draw(model: autoencoder.Autoencoder) -> None:
    """Look at any feature, not at a good one."""
    st.session_state[f"{slug}.feature"] = int(np.random.default_rng().integers(model.n_features))


control, figure = st.columns([1, 2.4], gap="medium")
with control:
    l1 = st.select_slider(
        "Sparsity penalty λ", cached.L1S, 0.2, format_func="{:g}".format, key=f"{slug}.l1", persist_state="session"
    )
    name = ui.choice("True features in dimensions", list(cached.TOYS), name="toy")
    expansion = ui.select(
        "Dictionary rows for each true feature", list(cached.EXPANSIONS), name="rows", default="as many"
    )
    resample = ui.toggle(
        "Restart silent rows", True, name="resample", help="At steps 300 and 600, rows that never fired begin anew."
    )
    key = (name, expansion, resample)
    found = live.train("dictionary search", key, lambda: cached.search(*key), "Training, all λ at once")
if found is None:
    st.stop()

at = cached.L1S.index(l1)
report, known = found.last.report, cached.known(name)
dictionary = found.last.model[at]
cosines = truth.match(known.W, dictionary.W_dec)
n, m = known.W.shape
n_stored = int(geometry.stored(known.W))
with figure:
    ready = ui.predict(
        ui.Prediction(
            "The autoencoder sees hidden vectors, never the features. With hardly any penalty it rebuilds them almost "
            "perfectly. Has it then found the features?",
            ("Yes", "No"),
            "No",
            "Many dictionaries rebuild the vectors. Only with enough penalty do the true directions pay best.",
        )
    )
    if ready:
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
                charts.frontier(cached.L1S, report.l0.tolist(), report.error.tolist(), report.true_l0, at),
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
    "The penalty has a price even where the direction is right: each activation comes out too small by $\\lambda/2$ "
    "(**shrinkage**).",
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
    if name == "20 in 10":
        ui.check("|a − f − λ/2|, measured on features present alone", abs(float(report.shrinkage[at]) - l1 / 2), 0.02)
    else:
        ui.measure("a − f, features present alone", f"{report.shrinkage[at]:.3f}", f"against λ/2 = `{l1 / 2:.3f}`")
with shrinks:
    ui.chart(
        charts.shrinkage(cached.L1S, report.shrinkage.tolist(), at),
        "Dashed: λ/2. With 20 in 10 (pairs, no other interference) the dots lie on it; interference adds to it.",
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
    effect, often, splice = st.columns(3, gap="medium")
    with effect:
        logits = features.logit_effect(weights, real.model, int(chosen))
        up, down = mlp.top_tokens(logits, 6)
        picked = torch.cat([up, down.flip(0)]).tolist()
        ui.chart(
            base.bars(
                tokens.labels(view.model, picked), logits[picked].tolist(), title=f"Feature {chosen} on the logits",
                unit="logit a unit of f", colours=[base.OV] * 6 + [base.REMOVED] * 6, height=260,
            ),
            f"Row of W_dec through W_out and W_U. Here it adds {shares[chosen]:+.2f} to the first choice, "
            f"{ui.code(tokens.label(view.model, target))}.",
            "Bars: what the feature makes more and less likely",
            key="effect",
        )  # fmt: skip
    with often:
        ui.chart(
            charts.density_histogram(real.density.numpy(), held_out["tokens"], float(real.density[chosen])),
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
                y_title="nats", x_labels=view.labels[1:], height=260,
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
    neurons = cached.neurons_on_prose()
    ui.measure(
        "neurons active at once, without any dictionary",
        f"{neurons.l0:.1f}",
        f"({neurons.silent} of {weights.W_in.shape[-1]:,} neurons are silent on this prose). Compare L0: a dictionary "
        "that needs more features than there are active neurons has not made the layer sparser.",
    )
    seen = text.contexts.activation[:, 0] > 0
    one_token = float((text.purity[seen] == 1).float().mean())
    st.markdown(
        f"**What they are worth.** {int((~seen).sum()):,} of {real.model.n_features:,} features are silent in all our "
        f"passages. Of the others, {one_token:.0%} have strongest passages that all peak on one and the same token: "
        "detectors of a token, for which no dictionary is needed. What the rest mean, if anything, is for you to judge."
    )

ui.exercises(
    ui.Exercise(
        "A feature points exactly along its row and has activation a = 1. With λ = 0.3, which f does the loss choose?",
        ui.Number(measures.shrunk(torch.tensor(1.0), 0.3).item(), 0.001),
        ("The loss is $(1 - f)^2 + 0.3 f$.", "Set its derivative to zero."),
        "$-2 (1 - f) + 0.3 = 0$ gives $f = 0.85$, that is $a - \\lambda/2$.",
    ),
    ui.Exercise(
        "Why must the rows of W_dec have length 1?",
        ui.Choice(
            (
                "Otherwise f shrinks, the rows grow, and the penalty is escaped",
                "Otherwise the encoder could not be linear",
                "Otherwise dead features could not be counted",
            ),
            "Otherwise f shrinks, the rows grow, and the penalty is escaped",
        ),
        ("What happens to the reconstruction if $f$ is halved and the row doubled?", "And to the penalty?"),
        "The reconstruction stays, the penalty halves. Without the constraint λ would mean nothing.",
    ),
    ui.Exercise(
        "There are 2m true features in m dimensions, and the dictionary has m rows. Can all of them be found?",
        ui.Choice(("Yes", "No"), "No"),
        ("One row has one direction.", "Choose 'half' as many rows above and count."),
        "m rows point at m features at most. How many there are to find, nobody knows in a real model.",
    ),
    ui.Exercise(
        "What is the density of a dead feature?",
        ui.Number(0),
        ("Density is the share of samples in which a feature is active.", "A dead one is active in none."),
        "Zero, on the samples that were looked at. On more text a very rare feature may turn out to be alive.",
    ),
    *(
        ui.Exercise(
            "From the table's three losses on the held-out novels: what share of the loss is recovered?",
            ui.Number(real.config["held_out"]["loss_recovered"], 0.006),
            ("Compare with having no MLP at all.", "$(L_{zero} - L_{dictionary}) / (L_{zero} - L_{model})$."),
            "How much of the way from no MLP to the whole MLP is kept. It does not say that the features are right.",
        )
        for _ in filter(None, [real])
    ),
)
ui.show_code(autoencoder.update, autoencoder.resample, truth.report, features.losses)
ui.limits(
    "A dictionary is not the truth: other λ, seeds and sizes give other features, and a good reconstruction makes "
    "none of them meaningful. Ours is small and was trained for minutes. What the error term does is counted in "
    "the losses, not explained."
)
ui.takeaways(
    "With the right penalty a sparse autoencoder finds features known to be there; with too little, others.",
    "L1 shrinks every activation by λ/2 or more; lower L0 is not better by itself.",
    "On a real model: measure L0, the loss recovered and the dead, and read random features, not chosen ones.",
)
ui.end(view)
