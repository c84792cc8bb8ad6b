"""The workbench of page 08: an induction head built by hand, with the gains and the key's source to move."""

import math

import streamlit as st

from circuits import hand_built, induction
from circuits.charts import induction as charts
from circuits.weights import forward
from pages.ui.controls import choice, slider, toggle
from pages.ui.frame import chart, check, measure

PERIOD = 12
SOURCES = {"itself": 0, "one before": 1, "two before": 2}


def workbench() -> None:
    """Draw the hand-built head's pattern, its accuracy and the formula for its attention."""
    st.markdown("#### Build one by hand")
    st.markdown("A stream of three blocks, `[token | earlier token | position]`, and two heads of zeros and gains.")
    knobs, figure = st.columns([1, 2], gap="medium")
    with knobs:
        offset = SOURCES[choice("Each key carries the token", list(SOURCES), name="offset", default=list(SOURCES)[1])]
        beta_0 = slider("β₀: how sharply layer 0 looks back", 0.0, 20.0, 12.0, name="beta0")
        beta_1 = slider("β₁: how sharply layer 1 matches", 0.0, 12.0, 6.0, name="beta1")
        gamma = slider("γ: how loudly it copies", 0.0, 30.0, 20.0, name="gamma")
        bos = toggle("Begin with BOS", True, name="built_bos")
    weights = hand_built.induction_head(beta_0=beta_0, beta_1=beta_1, gamma=gamma, offset=offset)
    tokens = induction.repeated(induction.distinct_tokens(PERIOD, weights.d_vocab), 3, bos)
    run, targets = forward(weights, tokens), induction.induction_targets(tokens)
    with figure:
        chart(
            charts.stripe(
                run.pattern[1, 0].numpy(),
                targets.numpy(),
                ["BOS" if token == 0 else f"t{token}" for token in tokens.tolist()],
                title=f"Layer 1 of the hand-built model: {hand_built.KEY_SOURCES[offset]}",
                height=280,
            ),
            "Twelve tokens, three times. Outlined: where an induction head looks. Move the key: the stripe moves "
            "off by one, and the copy is wrong.",
            "Attention pattern of the hand-built induction head",
            key="built",
        )
        copied = induction.copying(run.logits, tokens)
        measure("accuracy on the copies", f"{copied.accuracy:.1%}", f"loss `{copied.loss:.2f}` nats")
        if bos and offset == 1:
            i = 2 * PERIOD  # the last query with one match among i other keys
            match = math.exp(beta_1) / (math.exp(beta_1) + i)
            error = abs(run.pattern[1, 0, i, i - PERIOD + 1].item() - match)
            check("|attention on the match − e^β₁/(e^β₁ + i)|", error, 1e-3, f"i = {i}; needs a sharp layer 0")
    st.caption("**The period trap.** " + period_trap())


def period_trap() -> str:
    """Try a one-layer head that always looks ``PERIOD − 1`` back on five periods."""
    shortcut = hand_built.positional_head(PERIOD)
    probes = {p: induction.repeated(induction.distinct_tokens(p, shortcut.d_vocab), 3) for p in range(10, 15)}
    found = {p: induction.copying(forward(shortcut, tokens).logits, tokens).accuracy for p, tokens in probes.items()}
    return (
        f"One layer that always looks {PERIOD - 1} back has an accuracy of "
        + ", ".join(f"{accuracy:.0%} at period {period}" for period, accuracy in found.items())
        + ". So periods must vary, in training and in tests, or one layer seems to do it."
    )
