"""What a head is worth: the loss on text with it, and without it."""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from circuits.heads import without_heads
from circuits.weights import Head, Weights, forward

BATCH = 8
"""Windows run at once: their logits are 8 · 256 · 4,096 floats, 34 MB."""


@torch.inference_mode()
def text_loss(weights: Weights, windows: Int[Tensor, "window pos"]) -> float:
    """Return the loss in nats per predicted token, over windows that begin with BOS."""
    losses = [
        torch.nn.functional.cross_entropy(
            forward(weights, part[:, :-1]).logits.flatten(0, 1), part[:, 1:].flatten(), reduction="sum"
        )
        for part in windows.split(BATCH)
    ]
    return (sum(losses) / windows[:, 1:].numel()).item()


class Costs(NamedTuple):
    """Loss of the whole model, and how much it rises when one head writes nothing."""

    loss: float
    heads: list[Head]
    rise: Float[Tensor, "head"]


def ablation_costs(weights: Weights, windows: Int[Tensor, "window pos"]) -> Costs:
    """Zero every head's W_O in turn and measure the loss again.

    The rises do not add up: heads share work, and what one stops doing another may already do.
    """
    loss = text_loss(weights, windows)
    rises = [text_loss(without_heads(weights, [head]), windows) - loss for head in weights.heads]
    return Costs(loss, weights.heads, torch.tensor(rises))
