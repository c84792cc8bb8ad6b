"""Activation patching, exactly; attribution patching, its first-order estimate; one forward pass for both.

A patch adds a difference to one activation.  Let δ = a(corrupt) − a(clean) for one activation a of one head, and
m the metric.  *Activation patching* measures ``m(a + δ) − m(a)``, a forward pass a head.  *Attribution patching*
(Nanda 2023) is its linear term ``δ · ∂m/∂a``: one backward pass gives every head at once.  The two agree where
m is linear in a: without LayerNorm that is so for v, pattern and z of the last layer, and nowhere else.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from circuits.discovery.pairs import Pair
from circuits.discovery.reaction import last_row_change
from circuits.weights import Weights, causal_mask

KINDS = ("q", "k", "v", "pattern", "z")
"""The activations of a head: what it asks, what it offers, what it carries, where it looks, what it collects."""


class Activations(NamedTuple):
    """Every head's inner activations, stacked over layers; leading dimensions are the batch."""

    q: Float[Tensor, "*batch layer head pos d_head"]
    k: Float[Tensor, "*batch layer head pos d_head"]
    v: Float[Tensor, "*batch layer head pos d_head"]
    pattern: Float[Tensor, "*batch layer head query key"]
    z: Float[Tensor, "*batch layer head pos d_head"]


def shifted_forward(
    weights: Weights, tokens: Int[Tensor, "*batch pos"], shifts: dict[str, Tensor]
) -> tuple[Activations, Float[Tensor, "*batch pos d_model"]]:
    """Run the model with ``shifts[kind]`` added to the activations of that kind; return them and ``resid_final``.

    A shift has the shape of its activation, or broadcasts to it.  Differentiable in the shifts.

    Raises:
        ValueError: the model has an MLP, whose activations are not among the kinds.
    """
    if weights.W_in is not None:
        raise ValueError("patching here is for attention-only models: this one has an MLP")
    x = weights.W_E[tokens] + weights.W_pos[: tokens.shape[-1]]
    layers = []
    for layer in range(weights.n_layers):
        shift = {kind: value[..., layer, :, :, :] for kind, value in shifts.items()}
        W = (weights.W_Q[layer], weights.W_K[layer], weights.W_V[layer])
        q, k, v = (torch.einsum("...nd,hde->...hne", x, W_c) for W_c in W)
        layers.append(_attend(q, k, v, shift))
        x = x + torch.einsum("...hne,hed->...nd", layers[-1].z, weights.W_O[layer])
    return Activations(*(torch.stack(kind, -4) for kind in zip(*layers, strict=True))), x


def _attend(q: Tensor, k: Tensor, v: Tensor, shift: dict[str, Tensor]) -> Activations:
    """Return the activations of one layer's heads, ``[*batch, head, …]``, the shifts added as they are made."""
    q, k, v = q + shift.get("q", 0), k + shift.get("k", 0), v + shift.get("v", 0)
    scores = (q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5).masked_fill(causal_mask(q.shape[-2]), -torch.inf)
    pattern = scores.softmax(-1) + shift.get("pattern", 0)
    return Activations(q, k, v, pattern, pattern @ v + shift.get("z", 0))


def activations(weights: Weights, tokens: Int[Tensor, "*batch pos"]) -> Activations:
    """Return the activations of an undisturbed run."""
    return shifted_forward(weights, tokens, {})[0]


def n_sources(weights: Weights, layer: int) -> int:
    """How many writers layer ``layer`` reads (``n_layers`` stands for the logits)."""
    return 2 + layer * weights.n_heads


def components(
    weights: Weights, run: Activations, tokens: Int[Tensor, "batch pos"]
) -> Float[Tensor, "batch source pos d_model"]:
    """Return what every node wrote in a run; the first ``n_sources`` of them sum to a layer's input."""
    embed = weights.W_E[tokens]
    ends = torch.stack([embed, weights.W_pos[: tokens.shape[-1]].expand_as(embed)], 1)
    heads = torch.einsum("blhne,lhed->blhnd", run.z, weights.W_O)
    return torch.cat([ends, heads.flatten(1, 2)], 1)


def differences(weights: Weights, pair: Pair) -> dict[str, Tensor]:
    """Return ``activation(corrupt) − activation(clean)`` of every kind, ``[batch, layer, head, …]``."""
    both = activations(weights, torch.stack([pair.clean, pair.corrupt]))
    return {kind: value[1] - value[0] for kind, value in both._asdict().items()}


def metric(resid: Float[Tensor, "*patch batch pos d_model"], direction: Float[Tensor, "batch d_model"]) -> Tensor:
    """Return the logit difference at the last position, the mean over prompts: ``[*patch]``."""
    return (resid[..., -1, :] * direction).sum(-1).mean(-1)


@torch.inference_mode()
def metrics(weights: Weights, pair: Pair) -> tuple[float, float]:
    """Return the metric of the clean and of the corrupt run, in logits."""
    direction = pair.direction(weights)
    clean, corrupt = (shifted_forward(weights, tokens, {})[1] for tokens in (pair.clean, pair.corrupt))
    return metric(clean, direction).item(), metric(corrupt, direction).item()


@torch.inference_mode()
def activation_patching(
    weights: Weights, pair: Pair, shifts: dict[str, Tensor]
) -> dict[str, Float[Tensor, "layer head"]]:
    """Return, for each kind of shift, the metric's change when it is added to one head at a time.

    With ``shifts = differences(weights, pair)`` this is activation patching, corrupt into clean.  Heads of one
    layer do not see each other: their changed outputs come from one pass, and each is then sent upwards alone.
    """
    run = activations(weights, pair.clean)
    written = components(weights, run, pair.clean)
    effects = []
    for layer in range(weights.n_layers):
        q, k, v, _, z = (activation[:, layer] for activation in run)
        changed = [_attend(q, k, v, {kind: shift[:, layer]}).z - z for kind, shift in shifts.items()]
        change = torch.einsum("bkhne,hed->bkhnd", torch.stack(changed, 1), weights.W_O[layer])
        above = written[:, : n_sources(weights, layer + 1)].sum(1)
        last = last_row_change(weights, layer, above, change)
        effects.append(torch.einsum("bkhd,bd->kh", last, pair.direction(weights)) / len(pair.clean))
    return dict(zip(shifts, torch.stack(effects, 1), strict=True))


def gradients(weights: Weights, pair: Pair) -> dict[str, Tensor]:
    """Return ``∂ metric / ∂ activation`` of every kind on the clean prompts: one forward and one backward pass."""
    with torch.inference_mode(False), torch.enable_grad():
        # Tensors born in inference mode cannot take part in a backward pass; their copies can.
        weights, tokens = weights.map(torch.clone), pair.clean.clone()
        direction = pair.direction(weights)
        shapes = activations(weights, tokens)._asdict()
        shifts = {kind: torch.zeros_like(value, requires_grad=True) for kind, value in shapes.items()}
        _, resid = shifted_forward(weights, tokens, shifts)
        return dict(zip(shifts, torch.autograd.grad(metric(resid, direction), list(shifts.values())), strict=True))


def attribution_patching(weights: Weights, pair: Pair) -> dict[str, Float[Tensor, "layer head"]]:
    """Return the first-order estimate of :func:`activation_patching` for every kind and head.

    Two forward passes and one backward pass, however many heads there are.
    """
    gradient = gradients(weights, pair)
    return {kind: (shift * gradient[kind]).sum((0, -2, -1)) for kind, shift in differences(weights, pair).items()}
