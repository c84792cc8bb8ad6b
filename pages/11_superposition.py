"""Claim: when features are sparse, a ReLU model stores more of them than it has dimensions, and pays in interference.

Elhage et al. 2022, "Toy Models of Superposition"; the framework paper only mentions superposition in passing.
"""

import pandas as pd
import streamlit as st
import torch

from circuits import tokens
from circuits.charts import base
from circuits.charts import superposition as charts
from circuits.superposition import geometry, phase, sweep, toy
from circuits.superposition.sweep import DENSITIES
from pages import ui
from pages.ui import live
from pages.ui.cached import superposition as cached
from pages.ui.questions import superposition as questions

view = ui.begin("superposition")

control, figure = st.columns([1, 2.6], gap="medium")
with control:
    density = st.select_slider(
        "Density 1 − S: how often a feature is present", DENSITIES, 0.05, format_func="{:g}".format,
        key=f"{view.page.slug}.density", persist_state="session",
    )  # fmt: skip
    left, right = st.columns(2)
    with left:
        n = ui.slider("Features n", 2, 20, 5, name="n")
    with right:
        m = ui.slider("Dimensions m", 1, 8, 2, name="m")
    activation = ui.choice("Output", toy.ACTIVATIONS, name="activation")
    with st.popover("Importance and pairs", icon=":material/tune:"):
        decay = ui.slider("Importance decay: Iᵢ = decay to the power i", 0.5, 1.0, 0.9, step=0.05, name="decay")
        pairs = ui.choice("Features 0 and 1, 2 and 3, … are", toy.PAIRS, name="pairs")
    asked = sweep.Problem(n, m, decay, activation, pairs)
    trained = live.train(
        "superposition.sweep",
        asked,
        lambda: sweep.train(asked),
        live.Trained(sweep.DEFAULT, cached.default_sweep()),
        "All densities at once",
    )

n, m, decay, activation, pairs = trained.key  # what is shown, which may be an earlier training
toys = trained.last.toys
stored, at = [int(geometry.stored(each.W)) for each in toys], DENSITIES.index(density)
model = toys[at]
D, norms = geometry.dimensionality(model.W), geometry.norms(model.W)
with figure:
    live.earlier(trained, asked, f"{n} features in {m}, importance {decay:g} to the i, {activation}, {pairs}")
    if ready := ui.predict(questions.PREDICTION):
        one, two, three = st.columns([1.25, 1, 0.9], gap="small")
        with one:
            ui.chart(
                charts.gram(model.W.numpy()),
                f"{n} features in {m}: what each output hears of each input.",
                "Heat map of W W transposed: norms on the diagonal, interference beside it",
                key="gram",
            )
        with two:
            if m <= 2:
                ui.chart(
                    charts.arrows(model.W.numpy()),
                    "Each arrow is one row of W.",
                    "Arrows: the direction of every feature in the hidden plane",
                    key="arrows",
                )
            else:
                ui.chart(
                    charts.norm_bars(norms.numpy(), geometry.interference(model.W).numpy()),
                    "Orange bars hear the others most.",
                    "Bars: the norm of every feature, coloured by interference",
                    key="norms",
                )
        with three:
            ui.chart(
                charts.share_bars(D.numpy()),
                f"{stored[at]} features stored; the shares sum to {D.sum():.2f}.",
                "Bars: the share of a dimension that each feature has",
                key="shares",
            )
    ui.check(f"Σ Dᵢ − m, at most 0 (m = {m})", max(0.0, float(D.sum()) - m), 1e-4)
    if trained.finished and activation == "linear" and decay < 1 and pairs == "independent":
        ui.check("|features stored − min(n, m)|, in a linear model", abs(stored[at] - min(n, m)), 0)
    if (
        ready
        and trained.finished
        and activation == "relu"
        and (n, m) == (5, 2)
        and decay >= 0.9
        and density <= 0.05
        and pairs == "independent"
    ):
        error = geometry.polygon_error(model.W)
        ui.check(f"worst angle − {360 / error.sides:.1f}°, in degrees", error.angle, 3)
        ui.check(f"worst |Dᵢ − 2/{error.sides}|", error.dimensionality, 0.02)

ui.idea(
    "A **feature** is something the input can have more or less of. Here there are $n$ of them, each a number from 0 "
    "to 1, and most are 0 most of the time: that is **sparsity**. The model must squeeze them through $m < n$ "
    "numbers and give them back.\n\n"
    "Row $W_i$ is the direction that stands for feature $i$. With more rows than dimensions the rows cannot be "
    "orthogonal: reading one feature picks up a little of others. That is **interference**, and storing features so "
    "is **superposition**.\n\n"
    "Two things make it pay: features that are rarely present together, and a ReLU that cuts small mix-ups off. "
    "Take either away (density 1, or a linear output) and only $m$ dimensions' worth is kept.",
    r"\hat x = \mathrm{relu}(x W W^\top + b),\quad L = \mathrm{E}\sum_i I_i (x_i - \hat x_i)^2,\quad "
    r"D_i = \frac{\|W_i\|^2}{\sum_j (\hat W_i \cdot W_j)^2}",
    {
        "x": f"the features, {n} numbers",
        "W": f"{n} × {m}, a row a feature",
        "I_i": "importance",
        "D_i": "share of a dimension",
    },
    r"x' = \mathrm{ReLU}(W^\top W x + b)",
)  # fmt: skip
ui.by_hand(
    "an antipodal pair in one dimension",
    "Let $W_0 = (1)$, $W_1 = (-1)$, $b = 0$. For $x = (0.6, 0)$ the hidden number is $0.6$; the outputs before the "
    "ReLU are $0.6$ and $-0.6$, after it $0.6$ and $0$: perfect. For $x = (0.6, 0.4)$ it is $0.2$, and the outputs are "
    "$0.2$ and $0$: both wrong. The pair works as long as the two rarely meet.\n\n"
    "$D_0 = 1^2 / (1^2 + (-1)^2) = 1/2$: two features share one dimension.",
)

st.markdown("#### Features need sparsity")
left, right = st.columns(2, gap="medium")
with left:
    ui.chart(
        charts.stored_by_density(DENSITIES, stored, m, n, density),
        "Dense on the left, sparse on the right. Only sparse features pass the dashed line; a linear model of "
        "independent features never.",
        "Curve: number of stored features by density",
        key="stored",
    )
with right:
    shares = [geometry.dimensionality(each.W)[geometry.norms(each.W) > geometry.STORED_NORM].tolist() for each in toys]
    ui.chart(
        charts.shares_by_density(DENSITIES, shares, "Stored features' shares"),
        "Few features: shares do not slide, they sit at the values of regular figures.",
        "Dots: the share of a dimension of every stored feature by density",
        key="strip",
    )

st.markdown("#### The phase diagram: two features, one dimension")
here, plot = st.columns([1, 2], gap="medium")
diagram = cached.diagram()
with here:
    p = ui.slider("Density p", 0.03, 1.0, 0.46, step=0.01, name="p")
    importance = ui.select(
        "Importance I of the second feature",
        ["0.1", "0.2", "0.5", "1", "2", "5", "10"],
        name="importance",
        default="0.5",
    )
    i = float(importance)
    exact = cached.solutions().at(p, i)
    point = torch.tensor(p), torch.tensor(i)
    st.dataframe(
        pd.DataFrame(
            {
                "solution": [f"best found: {exact.kinds[0]}", "dedicated (closed form)", "pair, b = 0 (closed form)"],
                "expected loss": [
                    exact.loss[0].item(),
                    phase.dedicated_loss(*point).item(),
                    phase.unbiased_pair_loss(*point).item(),
                ],
            }
        ),
        hide_index=True,
    )
    w1, w2, b1, b2 = exact.theta[0].tolist()
    st.caption(f"Best found: w = ({w1:.2f}, {w2:.2f}), b = ({b1:.2f}, {b2:.2f}).")
    shipped = live.Trained("grid", cached.Grid(1, 1, diagram.point_theta))  # the best of ten starts a point
    theta = live.train("superposition.grid", "grid", cached.grid, shipped, "All points, five starts each").last.theta
at_density, at_importance = diagram.point_density, diagram.point_importance
kinds = [phase.kind(*row[:2]) for row in theta.tolist()]
points = pd.DataFrame({"density": at_density.numpy(), "importance": at_importance.numpy(), "kind": kinds})
curves = {
    "boundary found by minimising the exact loss": (diagram.importance.numpy(), diagram.boundary.numpy()),
    "closed form for b = 0: p = 2I / (1 + 2.5 I), mirrored for I > 1": (
        diagram.importance.numpy(),
        phase.unbiased_boundary(diagram.importance).numpy(),
    ),
}
with plot:
    ui.chart(
        charts.phase_diagram(curves, points, (p, i)),
        "Left of the solid line the two features share the dimension as an antipodal pair. Dots are trained models, "
        "the diamond is your point. Near I = 1 and p = 1 several solutions are almost equally good.",
        "Phase diagram: trained models over the boundary between superposition and a dedicated dimension",
        key="phase",
        table=points,
    )
    expected = diagram.pair_wins(at_density, at_importance).tolist()
    wrong = sum((kind == phase.PAIR) != pair for kind, pair in zip(kinds, expected, strict=True))
    ui.measure("trained models on the other side of the boundary", f"{wrong} of {len(points)}")

st.markdown("#### Many features: 400 in 30 dimensions, all equally important")
with ui.readable_errors():
    many = cached.many()
    left, right = st.columns(2, gap="medium")
    with left:
        ui.chart(
            charts.dimensions_per_feature(many.densities, many.dimensions_per_feature),
            "D* = m / ‖W‖². Near 1, dense: all 400 share the dimensions a little, none has one. Then it "
            "rests near 1/2 (pairs), and falls.",
            "Curve: dimensions per stored feature by density",
            key="dstar",
        )
    with right:
        ui.chart(
            charts.shares_by_density(many.densities, many.shares, "Where the 400 features sit"),
            "One dot a value, larger for more features. Pairs first, then figures with more corners.",
            "Dots: shares of a dimension of 400 features by density",
            key="many",
        )
    st.caption("Trained beforehand by this page's own code. Make it again: `python -m circuits.superposition uniform`")

st.markdown("#### In a real model: token directions on your text")
W_E = view.weights.W_E
vocabulary = cached.embedding_shares(view.model_name)
unit = torch.nn.functional.normalize(W_E, dim=-1)
cosines = unit[list(view.ids)] @ unit[list(view.ids)].T
near = (unit @ unit[view.ids[view.focus]]).topk(9).indices[1:].tolist()
left, right = st.columns([1.5, 1], gap="medium")
with left:
    ui.chart(
        base.heatmap(
            cosines.numpy(),
            view.labels,
            view.labels,
            title="Overlap of token embeddings",
            unit="cosine",
            diverging=True,
            limit=1,
            row_title="token",
            column_title="token",
            height=330,
        ),
        f"{W_E.shape[0]:,} tokens in {W_E.shape[1]} dimensions: off the diagonal, what two directions share.",
        "Heat map: cosines between the embeddings of the prompt's tokens",
        key="cosines",
    )
with right:
    ui.measure("share of a dimension, the token in focus", f"{vocabulary[view.ids[view.focus]]:.3f}")
    ui.measure(
        "mean share over the vocabulary",
        f"{vocabulary.mean():.4f}",
        f"(the most it can be: {W_E.shape[1] / W_E.shape[0]:.4f})",
    )
    ui.check(
        f"Σ Dᵢ over the vocabulary − {W_E.shape[1]}, at most 0", max(0.0, float(vocabulary.sum()) - W_E.shape[1]), 1e-3
    )
    st.markdown(
        f"Nearest to {ui.code(view.labels[view.focus])}: " + ", ".join(map(ui.code, tokens.labels(view.model, near)))
    )
    st.caption(
        "Tokens are sparse by nature, one a position. So the first thing a language model does is the toy's problem."
    )

ui.exercises(*questions.exercises())
ui.show_code(toy.gradient, toy.train, geometry.dimensionality, phase.expected_loss)
ui.limits(
    "The features were put in by us, independent and uniform. Whether a language model's own features are like that, "
    "or are one-dimensional at all, no toy can say; overlapping embeddings alone do not prove it. And superposition is "
    "not the same as a neuron that answers to several things: here the hidden space has no neurons."
)
ui.takeaways(
    "Superposition means more features than dimensions. It needs sparse features and something that filters.",
    "It comes in steps: dropped, antipodal pairs, then polygons. Shares take the values of regular figures.",
    "A rotation of the hidden space changes nothing here; only angles between features count.",
)
ui.end(view)
