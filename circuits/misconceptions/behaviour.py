"""What the models do, and what the paper did: tests, evidence, dates."""

import math
from calendar import month_name

import torch

from circuits import heads, induction
from circuits.misconceptions.base import PERIOD, Fact, Scene, often_said
from circuits.weights import Head, Weights, forward

FRAMEWORK = (2021, 12)
"""Year and month in which the framework paper appeared on transformer-circuits.pub."""


@often_said(
    "The framework paper is arXiv 2112.04510.",
    "It has no arXiv number: it appeared on transformer-circuits.pub and nowhere else. That number belongs to a paper "
    "on the Hubble constant. Follow-ups do have numbers; the first four digits are the year and the month.",
    page="glossary",
)
def no_arxiv_number(scene: Scene) -> tuple[Fact, ...]:
    follow_ups = {"2209.11895": "induction heads", "2209.10652": "toy models of superposition"}
    return (
        Fact("framework paper", f"22 {month_name[FRAMEWORK[1]]} {FRAMEWORK[0]}, no number"),
        *(Fact(f"arXiv {number}, {what}", _distance(number)) for number, what in follow_ups.items()),
        Fact("arXiv 2012.14913, feed-forward layers as memories", _distance("2012.14913")),
    )


def _distance(arxiv: str) -> str:
    """Read the month in an arXiv number (YYMM.number) and count from the framework paper."""
    year, month = 2000 + int(arxiv[:2]), int(arxiv[2:4])
    months = 12 * (year - FRAMEWORK[0]) + month - FRAMEWORK[1]
    return f"{month_name[month]} {year}, {abs(months)} months {'later' if months > 0 else 'earlier'}"


@often_said(
    "The models were trained on sequences that repeat.",
    "The paper's were trained on ordinary text, and repeated random tokens were a test, far from anything seen. (Ours "
    "do see such rows, so that induction forms in a short run.) On the first copy no model can beat uniform guessing.",
    page="induction_heads",
)
def off_distribution(scene: Scene) -> tuple[Fact, ...]:
    tokens = scene.probe()
    log_probs = forward(scene.weights, tokens).logits[:, :-1].log_softmax(-1)
    losses = -log_probs.gather(-1, tokens[:, 1:, None])[..., 0]
    return (
        Fact("uniform guessing, ln V (nats)", math.log(scene.weights.d_vocab)),
        Fact("loss on the first copy (nats)", losses[:, :PERIOD].mean().item()),
        Fact("loss on the second copy (nats)", losses[:, PERIOD + 1 :].mean().item()),
    )


@often_said(
    "The induction circuit is necessary and sufficient; ablations in the paper show it.",
    "The 2021 paper argues from weights and patterns; ablations came in 2022. And need is not sufficiency: silence the "
    "previous-token head, then instead silence every head but it and the best induction head.",
    page="circuit_discovery",
)
def necessary_is_not_sufficient(scene: Scene) -> tuple[Fact, ...]:
    weights = scene.weights
    pattern = forward(weights, scene.probe()).pattern.mean(0)
    previous = scene.best_head(induction.previous_token_score(pattern))
    inducing = scene.best_head(induction.induction_score(pattern, PERIOD))
    others = [head for head in weights.heads if head not in (previous, inducing)]
    return (
        Fact("second copy right, whole model", _second_copy(scene, weights)),
        Fact(f"without {previous}", _second_copy(scene, heads.without_heads(weights, [previous]))),
        Fact(f"with {previous} and {inducing} alone", _second_copy(scene, heads.without_heads(weights, others))),
    )


def _second_copy(scene: Scene, weights: Weights) -> float:
    tokens = scene.probe()
    return induction.second_copy(forward(weights, tokens).logits, tokens, PERIOD).accuracy


@often_said(
    "The paper explains MLP layers as key-value memories.",
    "That is Geva et al. (2021). The framework paper leaves MLPs out and calls it a major weakness: they hold two "
    "thirds of a standard block's weights (d_mlp = 4 d_model, heads that fill d_model).",
    page="mlp_memories",
)
def mlps_left_out(scene: Scene) -> tuple[Fact, ...]:
    d = scene.weights.d_model
    attention, mlp = 4 * d * d, 2 * d * 4 * d
    return (
        Fact("weights of attention, one block", attention),
        Fact("weights of the MLP, one block", mlp),
        Fact("share of the MLP", mlp / (attention + mlp)),
        Fact("MLP weights in this model", 0 if scene.weights.W_in is None else 2 * scene.weights.W_in.numel()),
    )


@often_said(
    "One layer can never predict the second copy of a repeated sequence.",
    "With a fixed period it can: a head that always looks the same way back needs no composition. It fails at every "
    "period that does not divide that one. So periods must be random, in training and in tests, before 'one layer "
    "cannot' means anything.",
    page="induction_heads",
)
def positional_shortcut(scene: Scene) -> tuple[Fact, ...]:
    def accuracy(offset: int) -> float:
        tokens = scene.probe()
        copied = tokens[:, PERIOD + 1 - offset : -1 - offset]  # always attend `offset` positions back
        return (copied == tokens[:, PERIOD + 2 :]).float().mean().item()

    return (
        Fact(f"second copy right, always {PERIOD - 1} back", accuracy(PERIOD - 1)),
        Fact(f"second copy right, always {PERIOD} back (wrong by one)", accuracy(PERIOD)),
        Fact(f"second copy right, always {PERIOD - 2} back (wrong by one)", accuracy(PERIOD - 2)),
    )


@often_said(
    "'No MLPs and no LayerNorm' means that the model is linear.",
    "The softmax remains. With patterns frozen the model is linear in its tokens, with live patterns it is not. Here "
    "the mean of two streams is sent through head L0H0.",
    page="path_expansion",
)
def attention_is_not_linear(scene: Scene) -> tuple[Fact, ...]:
    weights, n = scene.weights, len(scene.tokens)
    other = torch.randint(1, weights.d_vocab, (n,), generator=torch.Generator().manual_seed(0))
    a, b = (forward(weights, tokens).resid_pre[0].double() for tokens in (scene.tokens, other))
    head = Head(0, 0)
    frozen = forward(weights, scene.tokens).pattern[head].double()
    live = [_head(weights, x, head) for x in (a, b, (a + b) / 2)]
    fixed = [_head(weights, x, head, frozen) for x in (a, b, (a + b) / 2)]
    return (
        Fact("largest error of the sum, live pattern", _mixing_error(*live)),
        Fact("largest error of the sum, frozen pattern", _mixing_error(*fixed)),
    )


def _head(weights: Weights, x: torch.Tensor, head: Head, pattern: torch.Tensor | None = None) -> torch.Tensor:
    W_Q, W_K, W_V, W_O = (W[head].double() for W in (weights.W_Q, weights.W_K, weights.W_V, weights.W_O))
    if pattern is None:
        pattern = heads.masked(x @ W_Q @ W_K.T @ x.T / weights.d_head**0.5).softmax(-1)
    return pattern @ x @ W_V @ W_O


def _mixing_error(of_a: torch.Tensor, of_b: torch.Tensor, of_mean: torch.Tensor) -> float:
    return (of_mean - (of_a + of_b) / 2).abs().max().item()
