"""Ablation three ways, several heads together, and why one at a time can mislead."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from circuits.discovery.pairs import Pair
from circuits.discovery.patching import activation_patching, activations, shifted_forward
from circuits.weights import Head, Weights


class Ablation(NamedTuple):
    """What a head's z becomes when it is "removed", in three senses.

    *Zero* puts the head where the model never is.  *Mean* keeps what the head says whatever the prompt (its mean
    over reference prompts, position by position) and removes the rest.  *Resample* lets it speak of another
    prompt, in a state that it does reach.
    """

    zero: Float[Tensor, "batch layer head pos d_head"]
    mean: Float[Tensor, "layer head pos d_head"]
    resample: Float[Tensor, "batch layer head pos d_head"]

    @classmethod
    def of(cls, weights: Weights, pair: Pair, reference: Int[Tensor, "prompts pos"]) -> "Ablation":
        """Return the three replacements; the mean is over ``reference``, the resampled ones are the corrupt prompts."""
        if reference.shape[-1] != pair.clean.shape[-1]:
            lengths = f"{reference.shape[-1]} and {pair.clean.shape[-1]}"
            raise ValueError(f"reference prompts and clean prompts have {lengths} tokens: means are taken by position")
        resample = activations(weights, pair.corrupt).z
        return cls(torch.zeros_like(resample), activations(weights, reference).z.mean(0), resample)


def ablate_each(weights: Weights, pair: Pair, replacement: Float[Tensor, "*batch layer head pos d_head"]) -> Tensor:
    """Return the metric's change when each head's z in turn becomes its replacement, ``[layer, head]``."""
    shift = replacement - activations(weights, pair.clean).z
    return activation_patching(weights, pair, {"z": shift})["z"]


@torch.inference_mode()
def ablated_logits(
    weights: Weights, pair: Pair, replacement: Float[Tensor, "*batch layer head pos d_head"], heads: Iterable[Head]
) -> Float[Tensor, "batch d_vocab"]:
    """Return the logits at the last position when all of ``heads`` are replaced in the same run."""
    chosen = torch.zeros(weights.n_layers, weights.n_heads, 1, 1, dtype=torch.bool)
    for head in heads:
        chosen[head] = True
    own, resid = activations(weights, pair.clean).z, None
    shift = torch.zeros_like(own)
    for layer in range(weights.n_layers):  # upwards: what a head would say depends on the heads replaced below it
        shift[:, layer] = torch.where(chosen, replacement - own, 0)[:, layer]
        (*_, own), resid = shifted_forward(weights, pair.clean, {"z": shift})
    return resid[:, -1] @ weights.W_U


class Together(NamedTuple):
    """A run with some heads replaced: the metric in logits, and the mean probability of the answer."""

    metric: float
    probability: float


def ablate_together(
    weights: Weights, pair: Pair, replacement: Float[Tensor, "*batch layer head pos d_head"], heads: Iterable[Head]
) -> Together:
    """Replace all of ``heads`` in the same run.

    In logits, heads of the last layer add up exactly; a probability is saturated, and there one head can stand in
    for another.
    """
    logits = ablated_logits(weights, pair, replacement, heads)
    answer, wrong = (logits.gather(1, token[:, None]) for token in (pair.answer, pair.wrong))
    probability = logits.softmax(-1).gather(1, pair.answer[:, None])
    return Together((answer - wrong).mean().item(), probability.mean().item())


class Gate(NamedTuple):
    """A gate of two parts patched both ways; each entry is the output after patching ``a``, ``b``, both."""

    noising: tuple[float, float, float]
    denoising: tuple[float, float, float]


def gate_patching(gate: Callable[[Tensor, Tensor], Tensor]) -> Gate:
    """Patch the smallest circuit there is: ``gate(a, b)``, where both parts are 1 on clean and 0 on corrupt.

    *Noising* starts from the clean run and spoils a, b, both; *denoising* starts from the corrupt run and
    restores them.  For OR (``torch.maximum``) spoiling either part changes nothing; for AND (``torch.minimum``)
    restoring either part changes nothing.  So neither direction alone finds every circuit.
    """
    patched = torch.tensor([[1.0, 0, 1], [0, 1, 1]])  # columns: patch a, patch b, patch both
    noised, denoised = (tuple(gate(a, b).tolist()) for a, b in (1 - patched, patched))
    return Gate(noised, denoised)
