"""Term importance: what the paths of each order, and each layer's and head's own term, are worth in loss.

The paper's algorithm (Elhage et al. 2021, "Term importance analysis") never lists the paths.  Freeze the
patterns of a normal run.  Run again, and let every head compute its output but add nothing: that is the
direct path, order 0.  Run again, adding the outputs *saved from the run before*: paths through at most one
head.  Each further run admits one head more; after n_layers runs the model is whole.

Since the patterns stay those of the whole model, this measures V-composition alone: a pattern that owes its
shape to K-composition is given for free.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import log
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from circuits.weights import Head, Weights, attention_scores, causal_mask

Progress = Callable[[float], None]
"""Called with the share of the work that is done, 0 … 1."""

BLOCK = 8
"""Windows worked on at once: their logits, not the stream, are what needs memory."""


class PaperOrder(NamedTuple):
    """What one step of the paper's figure was worth, read from published notes on it, not from our models."""

    order: int
    reduction: float


PAPER_ORDERS = (PaperOrder(0, 1.8), PaperOrder(1, 5.2), PaperOrder(2, 0.3))
"""Nats of loss, order by order from a uniform guess (a two-layer model; Graves's notes on the paper's figure)."""


@dataclass(frozen=True)
class Importance:
    """What a group of heads is worth at first order, in nats per token.

    ``alone``: how much the loss falls when the group is added to the direct path.
    ``marginal``: how much it rises when the group is taken from the direct path and all heads.
    """

    alone: float
    marginal: float


PAPER_LAYERS = (Importance(alone=1.3, marginal=0.05), Importance(alone=5.2, marginal=4.0))
"""First and second layer's heads in the paper's two-layer model (same source)."""


@dataclass(frozen=True)
class OrderLosses:
    """Losses with paths of order 0, ≤ 1, ≤ 2, …; the last is the whole model's."""

    losses: tuple[float, ...]
    uniform: float

    @property
    def reductions(self) -> tuple[float, ...]:
        """What each order takes off the loss, beginning from a uniform guess; they sum to ln V − loss."""
        steps = (self.uniform, *self.losses)
        return tuple(before - after for before, after in pairwise(steps))


@torch.inference_mode()
def losses_by_order(
    weights: Weights, tokens: Int[Tensor, "window pos"], progress: Progress | None = None
) -> OrderLosses:
    """Return the loss on ``tokens`` of the model's paths up to each order (freeze, run, replace).

    Raises:
        ValueError: the model has an MLP, or ``tokens`` is no batch of windows that fit.
    """
    total = torch.zeros(weights.n_layers + 1, dtype=torch.float64)
    for block, done in _blocks(weights, tokens):
        start, patterns = start_and_patterns(weights, block)
        for order, stream in enumerate(streams_by_order(weights, start, patterns)):
            total[order] += _summed_loss(weights, stream, block)
        _report(progress, done)
    return OrderLosses(tuple((total / tokens[:, 1:].numel()).tolist()), log(weights.d_vocab))


def streams_by_order(
    weights: Weights,
    start: Float[Tensor, "window pos d_model"],
    patterns: Sequence[Float[Tensor, "window head query key"]],
) -> Iterator[Float[Tensor, "window pos d_model"]]:
    """Yield the final stream of the paths of order 0, ≤ 1, …, ≤ n_layers, with the patterns frozen."""
    saved: list[Tensor | float] = [0.0] * weights.n_layers
    for order in range(weights.n_layers + 1):
        stream, outputs = start, []
        for layer in range(weights.n_layers):
            if order < weights.n_layers:  # nobody reads what the last run would save
                outputs.append(layer_output(weights, layer, stream, patterns[layer]))
            stream = stream + saved[layer]
        yield stream
        saved = outputs


@torch.inference_mode()
def group_importance(
    weights: Weights,
    tokens: Int[Tensor, "window pos"],
    groups: Sequence[Sequence[Head]],
    progress: Progress | None = None,
) -> list[Importance]:
    """Return every group's loss at first order, alone and marginal; a group is a layer's heads, or one head.

    Virtual heads take no part: the whole is the direct path and all heads, each reading the direct path.

    Raises:
        ValueError: the model has an MLP, or ``tokens`` is no batch of windows that fit.
    """
    # losses: the direct path, all heads, then for each group with it alone and with all but it.
    total = torch.zeros(2 + 2 * len(groups), dtype=torch.float64)
    for block, done in _blocks(weights, tokens):
        for index, stream in enumerate(_first_order_streams(weights, block, groups)):
            total[index] += _summed_loss(weights, stream, block)
            _report(progress, done - (1 - (index + 1) / len(total)) * len(block) / len(tokens))
    direct, everything, *rest = (total / tokens[:, 1:].numel()).tolist()
    pairs = zip(rest[::2], rest[1::2], strict=True)
    return [Importance(alone=direct - alone, marginal=without - everything) for alone, without in pairs]


def _first_order_streams(
    weights: Weights, tokens: Int[Tensor, "window pos"], groups: Sequence[Sequence[Head]]
) -> Iterator[Float[Tensor, "window pos d_model"]]:
    start, patterns = start_and_patterns(weights, tokens)
    layers = range(weights.n_layers)
    everything = start + sum(layer_output(weights, layer, start, patterns[layer]) for layer in layers)
    yield start
    yield everything
    for group in groups:
        part = sum(head_output(weights, head, start, patterns[head.layer][:, head.head]) for head in group)
        yield start + part
        yield everything - part


def by_layer(weights: Weights) -> list[list[Head]]:
    """Return the groups "all heads of a layer", for :func:`group_importance`."""
    return [[head for head in weights.heads if head.layer == layer] for layer in range(weights.n_layers)]


def by_head(weights: Weights) -> list[list[Head]]:
    """Return the groups "one head", for :func:`group_importance`."""
    return [[head] for head in weights.heads]


def start_and_patterns(
    weights: Weights, tokens: Int[Tensor, "window pos"]
) -> tuple[Float[Tensor, "window pos d_model"], list[Float[Tensor, "window head query key"]]]:
    """Return ``W_E[tokens] + W_pos`` and the whole model's patterns, layer by layer."""
    start = stream = weights.W_E[tokens] + weights.W_pos[: tokens.shape[1]]
    patterns = []
    for layer in range(weights.n_layers):
        scores = attention_scores(stream, weights.W_Q[layer], weights.W_K[layer])
        patterns.append(scores.masked_fill_(causal_mask(tokens.shape[1]), -torch.inf).softmax(-1))
        if layer + 1 < weights.n_layers:
            stream = stream + layer_output(weights, layer, stream, patterns[layer])
    return start, patterns


def layer_output(
    weights: Weights,
    layer: int,
    x: Float[Tensor, "window pos d_model"],
    pattern: Float[Tensor, "window head query key"],
) -> Float[Tensor, "window pos d_model"]:
    """Return ``Σ_h A^h x W_V^h W_O^h`` as one product: concatenated heads times stacked W_O (the same sum)."""
    z = pattern @ (x.unsqueeze(1) @ weights.W_V[layer])
    return z.transpose(1, 2).flatten(2) @ weights.W_O[layer].flatten(0, 1)


def head_output(
    weights: Weights, head: Head, x: Float[Tensor, "window pos d_model"], pattern: Float[Tensor, "window query key"]
) -> Float[Tensor, "window pos d_model"]:
    """Return ``A x W_V W_O`` of one head."""
    return pattern @ (x @ weights.W_V[head]) @ weights.W_O[head]


def _summed_loss(
    weights: Weights, stream: Float[Tensor, "window pos d_model"], tokens: Int[Tensor, "window pos"]
) -> float:
    """Return the summed loss of predicting every token after the first."""
    logits = stream[:, :-1].flatten(0, 1) @ weights.W_U
    return torch.nn.functional.cross_entropy(logits, tokens[:, 1:].flatten(), reduction="sum").item()


def _blocks(weights: Weights, tokens: Int[Tensor, "window pos"]) -> Iterator[tuple[Tensor, float]]:
    """Yield blocks of windows, each with the share of the windows done after it."""
    if weights.W_in is not None:
        raise ValueError("the model has an MLP: its paths are not a sum of heads' terms")
    if tokens.ndim != 2 or not len(tokens) or not 1 < tokens.shape[1] <= weights.n_ctx:
        raise ValueError(f"windows of 2 to {weights.n_ctx} tokens are needed, not {tuple(tokens.shape)}")
    done = 0
    for block in tokens.split(BLOCK):
        done += len(block)
        yield block, done / len(tokens)


def _report(progress: Progress | None, share: float) -> None:
    if progress is not None:
        progress(share)
