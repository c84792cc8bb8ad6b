"""Claim: induction heads form within a small part of the run, and the second copy becomes predictable then.

Olsson et al. 2022, "In-context Learning and Induction Heads", arguments 1 and 2.
"""

import math

import streamlit as st
import torch

from circuits import history, induction, tokens, transition
from circuits import live_training as live
from circuits.charts import base
from circuits.charts import induction as corner_charts
from circuits.charts import phase_change as charts
from pages import ui
from pages.ui.cached import induction as probes
from pages.ui.cached import phase_change as cached
from pages.ui.live_training import live_training
from pages.ui.playback import moment_of

view = ui.begin("phase_change")
metrics, steps, (previous, best) = cached.metrics(), history.steps(), cached.roles()
heads = [f"L{layer}H{head}" for layer, head in torch.ones(metrics.previous.shape[1:]).nonzero().tolist()]
curve = {"previous": metrics.previous[(slice(None), *previous)], "induction": metrics.induction[(slice(None), *best)]}
rise = transition.transition(metrics.step, curve["induction"])
gained = ui.cached.held_out(history.NAME)["in_context"]

control, figure = st.columns([1, 3], gap="medium")
with control:
    half = transition.reached(metrics.step, curve["induction"], 0.5)
    step = moment_of(steps, default=min(steps, key=lambda each: abs(each - half)))
    row = int((metrics.step == step).argmax())
    random = ui.choice("Patterns on", ["Random, twice", "Your text"], name="source") == "Random, twice"
    st.caption(
        f"{len(metrics.step)} rows of numbers were logged; weights were kept at {len(steps)} moments, close together "
        "where the model changes. In-context score: below."
    )
right = "Less than a fifth" if rise.share < 0.2 else "About half" if rise.share < 0.7 else "Nearly all of it"
with figure:
    if ui.predict(
        ui.Prediction(
            f"The run has {rise.steps:,} steps. How much of it does the best induction head need to go from 10 % to "
            "90 % of its score?",
            ("Less than a fifth", "About half", "Nearly all of it"),
            right,
            f"From step {rise.start:,} to step {rise.end:,}: {rise.share:.0%} of the run.",
        )
    ):
        losses, scores = st.columns(2)
        with losses:
            ui.chart(
                charts.over_steps(
                    {"novels": metrics.held_out, "second copy": metrics.copy_loss},
                    metrics.step.tolist(),
                    step,
                    title="Loss: novels, second copy",
                    unit="nats a token",
                    colours=(base.DIRECT, base.INDUCTION),
                    zero=True,
                ),
                f"At step {step:,}: novels {metrics.held_out[row]:.2f}, second copy {metrics.copy_loss[row]:.2f}.",
                "Curves: loss on held-out novels and on the second copy of random tokens, by training step",
                key="losses",
            )
        with scores:
            ui.chart(
                charts.over_steps(
                    {
                        f"{previous}": curve["previous"],
                        f"{best}": curve["induction"],
                        "accuracy": metrics.copy_accuracy,
                    },
                    metrics.step.tolist(),
                    step,
                    title="Two heads, and accuracy",
                    unit="share",
                    colours=(base.PREVIOUS, base.INDUCTION, base.OV),
                    domain=(0, 1),
                ),
                f"{previous}: attention to the token before, {curve['previous'][row]:.2f}. {best}: to the token after "
                f"an earlier copy, {curve['induction'][row]:.2f}. "
                f"Accuracy on the second copy: {metrics.copy_accuracy[row]:.2f}.",
                "Curves: previous-token score, induction score and second-copy accuracy by training step",
                key="scores",
            )
    now = cached.measured(step)
    logged = torch.from_numpy(metrics.induction[row])
    ui.check(
        "max |induction scores now − as logged in training|", (now.scores.induction - logged).abs().max().item(), 5e-3
    )
    ui.measure("second-copy accuracy of this checkpoint", f"{now.copy.accuracy:.0%}")

early, late = induction.IN_CONTEXT_EARLY, induction.IN_CONTEXT_LATE
ids = probes.probe(20, 2, True, 0, view.weights.d_vocab, 0) if random else view.ids
labels, sequence = tokens.labels(view.model, ids), torch.tensor(ids)
patterns = cached.patterns(step, ids)

st.markdown(f"#### The two heads at step {step:,}, on {'20 random tokens, twice' if random else 'your text'}")
columns = st.columns(3, gap="small")
for column, head, wanted, what in (
    (columns[0], previous, torch.eye(len(ids), dtype=torch.bool).roll(-1, -1).tril(), "the token before"),
    (columns[1], best, induction.induction_targets(sequence), "the token after an earlier copy"),
):
    with column:
        ui.chart(
            corner_charts.stripe(
                patterns[head].numpy(), wanted.numpy(), labels, title=f"Attention of {head}", height=300
            ),
            f"Outlined: {what}. Rows: query (destination); columns: key (source).",
            f"Attention pattern of {head} at step {step}",
            key=f"pattern {head.layer}",
        )
with columns[2]:
    eigen = cached.corner(step)
    nulls = (eigen.matching_null, eigen.copying_null)
    ui.chart(
        corner_charts.corner(
            list(map(str, eigen.heads)),
            eigen.matching.numpy(),
            eigen.copying.numpy(),
            (now.scores.induction[1] >= induction.INDUCTION_THRESHOLD).tolist(),
            tuple((null.mean - 2 * null.sd, null.mean + 2 * null.sd) for null in nulls),
            title=f"Matching through {previous}, and copying",
            height=300,
        ),
        f"From weights alone. Triangles: induction score {induction.INDUCTION_THRESHOLD} or more. Bands: chance.",
        "Scatter of layer-1 heads by matching and copying eigenvalue score at this step",
        key="corner",
    )

st.markdown("#### Every head, and the use of context")
board, context = st.columns([3, 2], gap="medium")
with board:
    rows = charts.thinned(metrics.step)
    ui.chart(
        charts.head_scores(
            {
                name: scores[rows].reshape(len(rows), -1)
                for name, scores in (("previous-token score", metrics.previous), ("induction score", metrics.induction))
            },
            heads,
            metrics.step[rows],
            step,
            title=f"All {len(heads)} heads on random tokens of period {cached.PERIOD}",
            colours=(base.PREVIOUS, base.INDUCTION),
        ),
        "Each line is one head. Most lines stay down: few heads take these roles.",
        "Curves: previous-token and induction score of every head by training step",
        key="every head",
    )
with context:
    ui.chart(
        charts.over_steps(
            {"in-context score": metrics.in_context},
            metrics.step.tolist(),
            step,
            title="In-context score on novels",
            unit="late − early, nats (below 0: helps)",
            colours=(base.QK,),
            zero=True,
            height=300,
        ),
        f"Mean loss at tokens {late.start + 1}-{late.stop} minus at tokens {early.start + 1}-{early.stop}, in the same "
        f"windows every time. Now {metrics.in_context[row]:+.2f}; highest {metrics.in_context.max():+.2f} at step "
        f"{metrics.step[metrics.in_context.argmax()]:,}; at the end {metrics.in_context[-1]:+.2f}. These are "
        f"64 windows, good to ±0.1; on all held-out novels the finished model has {gained:+.2f}. "
        "The hump: young induction heads copy too eagerly, most where there is most to copy. On the sample text they "
        "raise the score by 0.10 at step 2,500, and lower it by 0.14 at the end.",
        "Curve: in-context score by training step",
        key="in context",
    )

ui.idea(
    "While it trains, a model's loss falls more or less smoothly, but not everything in it grows so. An **induction "
    "head** needs two parts that are useless alone: a previous-token head below, and a head above that reads it. "
    "Until both are there, neither has much to gain, and the second copy of random tokens stays a guess: a "
    "**plateau**. Once each has a little, each makes the other worth more, and within a short part of the run both "
    "are done: a **phase change**.\n\nOlsson and others saw it in models of every size, together with a step in the "
    "**in-context score**: the loss late in a text minus the loss early in it. *Negative means that context helps.* "
    "(In their runs it drops at the change; in ours, on short windows of novels, it first rises.) The paper compares "
    "the 500th token with the 50th; our windows are shorter, so we take the "
    f"{(late.start + late.stop) // 2}th.\n\nThey also changed the architecture: **smeared keys** give each key a "
    "share of the one before. Then one layer can do what took two.",
    r"\begin{aligned} k_j &\leftarrow \sigma(\alpha)\, k_j + (1-\sigma(\alpha))\, k_{j-1} \\ "
    r"\text{score} &= \overline{\ell}_{\,\text{late}} - \overline{\ell}_{\,\text{early}} \end{aligned}",
    {
        "k_j": "key of position j, one head, $[d_{head}]$",
        r"\alpha": "one number a head, learnt",
        r"\overline{\ell}": "mean loss over positions and windows, nats a token",
    },
)
live_training()
ui.by_hand(
    "the plateau, and a fixed period",
    "`A B C D A B C ?` with 63 possible tokens. Knowing nothing costs $\\ln 63 = 4.14$ nats. A model that has "
    "learnt only *tokens come back* picks among A, B, C, D: $\\ln 4 = 1.39$. Which of the four needs the pair "
    "*C then D*.\n\nIf the period is always 4 there is a cheaper way: look 3 places back from the query C, at D's "
    "place, whatever stands there. One layer can do that with positions alone. At period 5 the same head looks at the "
    "wrong token every time.",
)

first = {name: transition.reached(metrics.step, values, 0.5) for name, values in curve.items()}
ORDER = (f"{previous}, the previous-token head", f"{best}, the induction head", "Both at the same logged step")
order = ORDER[2] if first["previous"] == first["induction"] else ORDER[first["previous"] > first["induction"]]
SMEAR = ("Yes: its keys then carry the token before", "No: it still has only one layer", "Only if the period is fixed")
ui.exercises(
    ui.Exercise(
        "A text of 384 different tokens comes a second time. A model that only picks *any token seen* has which loss?",
        ui.Number(math.log(384), 0.06),
        ("It gives each of the 384 tokens the same probability.", "−ln(1/384)."),
        "ln 384 = 5.95 nats.",
    ),
    ui.Exercise(
        "And a model that knows nothing, with a vocabulary of 20,000?",
        ui.Number(math.log(20_000), 0.02),
        ("Uniform over the vocabulary.", "ln 20,000."),
        "ln 20,000 = 9.90 nats: 3.95 more than picking a token seen.",
    ),
    ui.Exercise(
        f"In the shipped run, which head was first to reach half of its rise: {previous} or {best}?",
        ui.Choice(ORDER, order),
        ("Follow both curves of “Two heads, and accuracy” to half their height.", "Which needs the other?"),
        f"{previous} at step {first['previous']:,}, {best} at step {first['induction']:,}. "
        "The reader needs something to read.",
    ),
    ui.Exercise(
        "One layer, smeared keys, σ(α) = 0.5 in every head, random periods. Can it do induction?",
        ui.Choice(SMEAR, SMEAR[0]),
        ("What does the key at j contain now?", "Train it above: one layer, smeared keys."),
        "The key at j holds half of t_{j−1}, so a query can match it and copy t_j. "
        "It matches its own token as well; the direct path can take that back.",
    ),
    ui.Exercise(
        "A model's loss is 3.0 at the 50th token and 2.6 at the 500th. What is its in-context score?",
        ui.Number(-0.4, 0.001),
        ("Late minus early.", "The sign says whether context helps."),
        "2.6 − 3.0 = −0.4. Negative: later tokens are cheaper.",
    ),
)
ui.show_code(
    live.SmearedKeys.forward,
    live.batch,
    live.LiveRun.advance,
    transition.reached,
    induction.in_context_score,
    call="from circuits import history\nmetrics = history.metrics()\n"
    f"reached(metrics.step, metrics.induction[:, {best.layer}, {best.head}], share=0.1)",
    gives=rise.start,
)
ui.limits(
    "One run of one small model, trained on text of which a share was made to repeat; without it, heads may form "
    f"later or not at all. Its in-context score is {gained:+.2f}: on novels, in windows this short, copying is "
    + ("worth little. " if gained > -0.05 else "worth something. ")
    + "That two curves rise together does not prove that one causes the other; changing the architecture, as above "
    "with smeared keys, is better evidence. A bump in the loss at the change is not overfitting: the novels are held "
    "out, and the loss falls on."
)
ui.takeaways(
    f"In this run the best induction head rose between steps {rise.start:,} and {rise.end:,} of {rise.steps:,}.",
    "Parts that are useless alone make a plateau; then they form together.",
    "What one layer cannot learn at random periods, it can with smeared keys, or with a fixed period by cheating.",
)
ui.end(view)
