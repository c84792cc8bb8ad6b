"""Cached calls of pages 01 and 08."""

from dataclasses import dataclass

import numpy as np
import streamlit as st
import torch

from circuits import induction, interventions, models, simplifications
from circuits.heads import without_heads
from circuits.induction import HeadScores, SecondCopy
from circuits.mechanism import Formation, Mechanism, ScoreComponents, formation, mechanism, score_components
from circuits.weights import Head, Run, forward
from pages.ui import cached

PERIOD = 50
"""The period of the probe on which heads are recognised."""


@dataclass(frozen=True)
class Roles:
    """Which head of a model is what, by its scores on random repeats."""

    scores: HeadScores
    previous: Head
    best: Head
    induction: tuple[Head, ...]
    copy: SecondCopy


@st.cache_resource(show_spinner=False, max_entries=4)
def roles(name: str) -> Roles:
    model = cached.model(name)
    tokens = induction.repeat_probe(PERIOD, d_vocab=model.cfg.d_vocab)
    run = models.run(model, tokens)
    scores = induction.head_scores(run.pattern, PERIOD)
    last = model.cfg.n_layers - 1
    return Roles(
        scores=scores,
        previous=induction.best_head(scores.previous, range(max(1, last))),
        best=induction.best_head(scores.induction, [last]),
        induction=induction.induction_heads(scores),
        copy=induction.second_copy(run.logits, tokens, PERIOD),
    )


@st.cache_data(show_spinner=False, max_entries=4)
def copy_accuracy(name: str) -> float:
    """Accuracy on the second copy of random repeats; any model of the family."""
    model = cached.model(name)
    tokens = induction.repeat_probe(PERIOD, d_vocab=model.cfg.d_vocab)
    return induction.second_copy(models.run(model, tokens).logits, tokens, PERIOD).accuracy


@st.cache_data(show_spinner=False, max_entries=128)
def probe(period: int, repeats: int, bos: bool, swap: int, d_vocab: int, seed: int) -> tuple[int, ...]:
    """Random tokens, repeated; ``swap`` > 0 replaces that token of the last copy by one that occurs nowhere."""
    once = induction.distinct_tokens(period, d_vocab, seed)
    tokens = induction.repeated(once, repeats, bos)
    if swap:
        tokens = induction.with_stranger(tokens, len(tokens) - period + swap - 1, d_vocab)
    return tuple(tokens.tolist())


@st.cache_data(show_spinner=False, max_entries=64)
def strongest(name: str, ids: tuple[int, ...], heads: tuple[Head, ...]) -> Head:
    """The head with the most attention on its targets in one text (the best on random tokens may be silent here)."""
    pattern, targets = cached.run(name, ids).pattern, induction.induction_targets(torch.tensor(ids))
    return max(heads, key=lambda head: induction.target_score(pattern[head], targets).item())


@st.cache_resource(show_spinner=False, max_entries=32)
def ablated(name: str, ids: tuple[int, ...], heads: tuple[Head, ...]) -> Run:
    model = cached.model(name)
    return interventions.run(model, torch.tensor(ids), interventions.zero_ablation(model, heads))


@st.cache_data(show_spinner=False, max_entries=64)
def losses(name: str, ids: tuple[int, ...], heads: tuple[Head, ...] = ()) -> np.ndarray:
    """Loss of every predicted token, without ``heads``."""
    run = ablated(name, ids, heads) if heads else cached.run(name, ids)
    return induction.position_losses(run.logits, torch.tensor(ids)).numpy()


@st.cache_data(show_spinner=False, max_entries=64)
def ablation_gap(name: str, ids: tuple[int, ...], heads: tuple[Head, ...]) -> float:
    """max |logits of the hooked model − logits of the matrices without those heads|."""
    weights = without_heads(cached.weights(name), heads)
    with torch.inference_mode():
        logits = forward(weights, torch.tensor(ids)).logits
    return (logits - ablated(name, ids, heads).logits).abs().max().item()


@dataclass(frozen=True)
class StandIn:
    """Copying losses of a model: as it is, without some heads, and with ideal patterns in their place."""

    clean: float
    removed: float
    ideal: float

    @property
    def share(self) -> str:
        """How much of the heads' effect the ideal patterns bring back; a dash where removing them costs nothing."""
        if self.removed <= self.clean:
            return "–"
        return f"{interventions.recovered(self.clean, self.removed, self.ideal):.0%}"


@st.cache_data(show_spinner=False, max_entries=64)
def idealised(name: str, ids: tuple[int, ...]) -> dict[str, StandIn]:
    """Replace the patterns of the two kinds of heads by ideal ones; the text must repeat."""
    model, tokens, found = cached.model(name), torch.tensor(ids), roles(name)
    ideal = {
        "previous token": ((found.previous,), induction.ideal_previous_pattern(len(ids))),
        "induction": (found.induction or (found.best,), induction.ideal_induction_pattern(tokens)),
    }

    def loss(hooks: list[interventions.Hook]) -> float:
        return induction.copying(interventions.run(model, tokens, hooks).logits, tokens).loss

    return {
        role: StandIn(
            loss([]),
            loss(interventions.zero_ablation(model, heads)),
            loss(interventions.replace_patterns(model, dict.fromkeys(heads, pattern))),
        )
        for role, (heads, pattern) in ideal.items()
    }


@st.cache_resource(show_spinner=False, max_entries=4)
def components(name: str, ids: tuple[int, ...], head: Head) -> ScoreComponents:
    """Up to 100 terms of n × n scores (23 MB at 241 tokens)."""
    return score_components(cached.weights(name), cached.run(name, ids), head)


@st.cache_data(show_spinner=False, max_entries=32)
def formed(name: str, head: Head) -> Formation:
    """How ``head`` was built, on the standard probe."""
    model = cached.model(name)
    ids = probe(PERIOD, 2, True, 0, model.cfg.d_vocab, seed=0)
    targets = induction.induction_targets(torch.tensor(ids))
    return formation(cached.weights(name), components(name, ids, head), targets)


@st.cache_resource(show_spinner=False, max_entries=16)
def eigenvalue_scores(name: str, previous: Head) -> Mechanism:
    return mechanism(cached.weights(name), previous)


@dataclass(frozen=True)
class LeftOut:
    """What the simplifications of page 01 cost, on one random model."""

    bias_one_layer: float
    bias_two_layers: float
    norm: simplifications.NormErrors


@st.cache_data(show_spinner=False, max_entries=32)
def left_out(seed: int) -> LeftOut:
    one, two = (simplifications.bias_folding_error(layers, seed) for layers in (1, 2))
    return LeftOut(one, two, simplifications.norm_errors(seed=seed))
