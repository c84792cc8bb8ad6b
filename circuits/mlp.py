"""An MLP layer as key-value memories.

.. math:: \\mathrm{MLP}(x) = \\sum_i f(x \\cdot k_i + b_i)\\, v_i + b_{out}

Neuron ``i`` is one memory.  Its *key* ``k_i`` is column ``i`` of ``W_in`` and decides how strongly the memory
answers to the stream ``x``; its *value* ``v_i`` is row ``i`` of ``W_out`` and is what it then adds to the stream.
In the shipped model ``f`` is ReLU: most memories are silent at a position, and the layer's output is a weighted sum
of the others.

The reading is that of Geva et al. 2021, "Transformer feed-forward layers are key-value memories" (arXiv 2012.14913);
"A Mathematical Framework for Transformer Circuits" leaves MLPs out.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from circuits.weights import Run, Weights, attention_scores, causal_mask

DELETION_SDS = 4.0
"""How many standard deviations (of a random pair's cosine, 1/√d_model) below zero a deletion neuron lies."""


def keys(weights: Weights, layer: int = 0) -> Float[Tensor, "d_mlp d_model"]:
    """Return the keys, one a row: the **columns** of ``W_in``."""
    return _with_mlp(weights).W_in[layer].T


def values(weights: Weights, layer: int = 0) -> Float[Tensor, "d_mlp d_model"]:
    """Return the values, one a row: the rows of ``W_out``."""
    return _with_mlp(weights).W_out[layer]


def _with_mlp(weights: Weights) -> Weights:
    if weights.W_in is None:
        raise ValueError("this model has no MLP: its layers are attention only")
    return weights


def inputs(run: Run, layer: int = 0) -> Float[Tensor, "*batch pos d_model"]:
    """Return what the MLP of ``layer`` reads: the stream after that layer's heads have written."""
    return run.resid_pre[..., layer, :, :] + run.head_out[..., layer, :, :, :].sum(-3)


def activations(
    weights: Weights,
    x: Float[Tensor, "*batch d_model"],
    layer: int = 0,
    nonlinearity: Callable[[Tensor], Tensor] = torch.relu,
) -> Float[Tensor, "*batch d_mlp"]:
    """Return how strongly each memory answers, ``f(x · k_i + b_i)``."""
    return nonlinearity(x @ _with_mlp(weights).W_in[layer] + weights.b_in[layer])


@torch.inference_mode()
def activations_on(weights: Weights, tokens: Int[Tensor, "*batch pos"]) -> Float[Tensor, "*batch pos d_mlp"]:
    """Return the first layer's activations on ``tokens``, and nothing else: logits are most of a small model's work."""
    x = weights.W_E[tokens] + weights.W_pos[: tokens.shape[-1]]
    scores = attention_scores(x, weights.W_Q[0], weights.W_K[0]).masked_fill(causal_mask(x.shape[-2]), -torch.inf)
    heads = scores.softmax(-1) @ x.unsqueeze(-3) @ weights.W_V[0] @ weights.W_O[0]
    return activations(weights, x + heads.sum(-3))


def writes(
    weights: Weights, activation: Float[Tensor, "*batch d_mlp"], layer: int = 0
) -> Float[Tensor, "*batch d_mlp d_model"]:
    """Return what each memory adds to the stream, ``a_i v_i``; with ``b_out`` they sum to the layer's output."""
    return activation.unsqueeze(-1) * values(weights, layer)


def strength(weights: Weights, activation: Float[Tensor, "*batch d_mlp"], layer: int = 0) -> Tensor:
    """Return the length of each memory's write, ``|a_i| ‖v_i‖``: by this the memories are ranked."""
    return activation.abs() * values(weights, layer).norm(dim=-1)


class Kept(NamedTuple):
    """What is left of one position when only the strongest memories write; one row a count.

    ``error`` is ``‖Σ_kept a_i v_i − Σ_all a_i v_i‖ / ‖Σ_all a_i v_i‖``, ``kl`` is KL(all ‖ kept) of the next-token
    distributions in nats, ``prediction`` the most likely token and ``probs`` its distribution.
    """

    count: Int[Tensor, "row"]
    error: Float[Tensor, "row"]
    kl: Float[Tensor, "row"]
    prediction: Int[Tensor, "row"]
    probs: Float[Tensor, "row d_vocab"]


@torch.inference_mode()
def keep_strongest(weights: Weights, run: Run, position: int, counts: Sequence[int]) -> Kept:
    """Keep the strongest ``counts`` memories at one position of one prompt; ``b_out`` always stays.

    Raises:
        ValueError: the MLP is not the last layer's, or a count is not in ``0 … d_mlp``.
    """
    layer = _only_layer(weights)
    d_mlp = weights.W_in.shape[-1]
    for count in counts:
        if not 0 <= count <= d_mlp:
            raise ValueError(f"{count} memories cannot be kept: there are {d_mlp}")
    activation = activations(weights, inputs(run, layer)[position], layer)
    order = strength(weights, activation, layer).argsort(descending=True, stable=True)
    written = writes(weights, activation, layer)[order]
    sums = torch.cat([torch.zeros_like(written[:1]), written.cumsum(0)])[torch.as_tensor(counts)]
    missing = written.sum(0) - sums
    error = missing.norm(dim=-1) / written.sum(0).norm().clamp_min(torch.finfo(written.dtype).tiny)
    probs, kl = _compare(weights, run, position, missing)
    return Kept(torch.as_tensor(counts), error, kl, probs.argmax(-1), probs)


def _only_layer(weights: Weights) -> int:
    """The layer whose output goes to the logits and nowhere else."""
    if _with_mlp(weights).n_layers != 1:
        raise ValueError(f"memories are edited in the last layer of one-layer models; this one has {weights.n_layers}")
    return 0


def _compare(
    weights: Weights, run: Run, position: int, removed: Float[Tensor, "row d_model"]
) -> tuple[Float[Tensor, "row d_vocab"], Float[Tensor, "row"]]:
    """Return the next-token distributions with ``removed`` taken from the stream, and KL(whole ‖ that)."""
    whole = run.logits[position].log_softmax(-1)
    rest = ((run.resid_final[position] - removed) @ weights.W_U).log_softmax(-1)
    return rest.exp(), (whole.exp() * (whole - rest)).sum(-1)


class Ablated(NamedTuple):
    """One position with one memory removed, for each of ``neuron``; ``kl`` in nats against the whole model."""

    neuron: Int[Tensor, "row"]
    kl: Float[Tensor, "row"]
    prediction: Int[Tensor, "row"]
    probs: Float[Tensor, "row d_vocab"]


@torch.inference_mode()
def ablate(weights: Weights, run: Run, position: int, neurons: Sequence[int]) -> Ablated:
    """Remove one memory at a time at ``position``: its write is left out of the stream, all else stays."""
    layer = _only_layer(weights)
    for neuron in neurons:
        if not 0 <= neuron < weights.W_in.shape[-1]:
            raise ValueError(f"there is no neuron {neuron}: they are 0 … {weights.W_in.shape[-1] - 1}")
    chosen = torch.as_tensor(neurons, dtype=torch.long)
    activation = activations(weights, inputs(run, layer)[position], layer)
    probs, kl = _compare(weights, run, position, writes(weights, activation, layer)[chosen])
    return Ablated(chosen, kl, probs.argmax(-1), probs)


def value_logits(weights: Weights, neuron: int, layer: int = 0) -> Float[Tensor, "d_vocab"]:
    """Return ``v_i W_U``: what one unit of activation adds to every logit, its mean removed.

    A constant added to all logits changes no probability, so only differences from the mean mean anything.
    """
    logits = values(weights, layer)[neuron] @ weights.W_U
    return logits - logits.mean()


def key_matches(weights: Weights, neuron: int, layer: int = 0) -> Float[Tensor, "d_vocab"]:
    """Return ``W_E k_i``: how much each token's embedding alone excites the memory (position and heads aside)."""
    return weights.W_E @ keys(weights, layer)[neuron]


def top_tokens(scores: Float[Tensor, "d_vocab"], k: int) -> tuple[Int[Tensor, "k"], Int[Tensor, "k"]]:
    """Return the ``k`` tokens with the largest and the ``k`` with the smallest score, most extreme first."""
    return scores.topk(k).indices, scores.topk(k, largest=False).indices


def key_value_cosines(weights: Weights, layer: int = 0) -> Float[Tensor, "d_mlp"]:
    """Return ``cos(k_i, v_i)``: +1 writes what it reads, −1 erases it; a random pair has sd ``1/√d_model``."""
    return torch.cosine_similarity(keys(weights, layer), values(weights, layer), dim=-1)


def deletion_neurons(weights: Weights, layer: int = 0) -> Bool[Tensor, "d_mlp"]:
    """Return which memories remove what they read: cosine below ``−DELETION_SDS / √d_model``.

    "Memory management" in the paper's words (section "The residual stream is a communication channel").
    """
    return key_value_cosines(weights, layer) < -DELETION_SDS * weights.d_model**-0.5


class Agreement(NamedTuple):
    """How the layer's favourite token relates to its memories' favourites, position by position.

    ``active`` counts the memories that answer, ``sharing`` those whose own favourite is the layer's favourite.
    """

    active: Int[Tensor, "pos"]
    sharing: Int[Tensor, "pos"]


@torch.inference_mode()
def agreement(weights: Weights, run: Run, layer: int = 0) -> Agreement:
    """Count active memories and those that would alone promote what the layer promotes
    (Geva et al. 2021 ask this of their models).  A favourite is the arg max of a write through ``W_U``.
    """
    active = activations(weights, inputs(run, layer), layer) > 0
    own = (values(weights, layer) @ weights.W_U).argmax(-1)
    favourite = (run.mlp_out[layer] @ weights.W_U).argmax(-1)
    return Agreement(active.sum(-1), (active & (own == favourite[:, None])).sum(-1))


class Through(NamedTuple):
    """Each source's share of the MLP's output at one position, under two rules; ``bias`` belongs to no source.

    ``frozen``: with the gates (which memories are on) held where they are, ``(s W_in ⊙ gate) W_out``; these and
    ``bias`` sum to the output exactly.  ``live``: what is lost when the source is removed and the gates react,
    ``MLP(x) − MLP(x − s)``; these sum to nothing in particular.
    """

    frozen: Float[Tensor, "source d_model"]
    live: Float[Tensor, "source d_model"]
    bias: Float[Tensor, "d_model"]
    flipped: Int[Tensor, "source"]


@torch.inference_mode()
def through(weights: Weights, run: Run, position: int, layer: int = 0) -> Through:
    """Split the MLP's output over embed, pos and the heads below: where the path expansion stops being linear.

    ``flipped`` counts the gates that change when a source is removed.
    """
    heads = run.head_out[: layer + 1, :, position].flatten(0, 1)
    sources = torch.cat([run.embed[None, position], run.pos_embed[None, position], heads])
    x = inputs(run, layer)[position]
    W_in, W_out, b_in, b_out = weights.W_in[layer], weights.W_out[layer], weights.b_in[layer], weights.b_out[layer]
    gate = (x @ W_in + b_in) > 0
    without = (x - sources) @ W_in + b_in
    return Through(
        frozen=(sources @ W_in * gate) @ W_out,
        live=(activations(weights, x, layer) - without.relu()) @ W_out,
        bias=(b_in * gate) @ W_out + b_out,
        flipped=((without > 0) != gate).sum(-1),
    )
