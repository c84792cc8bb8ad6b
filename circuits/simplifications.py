"""What the framework leaves out of a real transformer, and what each omission costs.

Three simplifications, each with a number computed on a small random model: biases (folding the value
biases into the logits is exact with one layer and not with two), LayerNorm (gain and mean fold into the
neighbouring weights, the division by the position's own standard deviation does not) and MLPs (two thirds
of a standard block's parameters).  Elhage et al. 2021, "Model simplifications".
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from circuits.weights import Weights, attention_scores, causal_mask

Norm = Callable[[int, Float[Tensor, "pos d_model"]], Float[Tensor, "pos d_model"]]
"""What stands between the stream and its reader: ``norm(layer, x)``; layer ``n_layers`` is the unembedding."""


def random_weights(n_layers: int, seed: int = 0) -> Weights:
    """Return a small random model in float64: 50 tokens, d_model 32, four heads of 8, no MLP."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int, fan_in: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64) / fan_in**0.5

    reads = [normal(n_layers, 4, 32, 8, fan_in=32) for _ in "QKV"]
    ends = normal(50, 32, fan_in=1), normal(16, 32, fan_in=1)
    return Weights(*ends, *reads, normal(n_layers, 4, 8, 32, fan_in=8), normal(32, 50, fan_in=32))


def random_tokens(weights: Weights, seed: int = 0) -> Int[Tensor, "pos"]:
    """Return ``n_ctx`` random tokens for such a model."""
    return torch.randint(weights.d_vocab, (weights.n_ctx,), generator=torch.Generator().manual_seed(seed))


@dataclass(frozen=True)
class Biases:
    """The biases on what attention moves: ``V`` on the values, ``O`` on a layer's output."""

    V: Float[Tensor, "layer head d_head"]
    O: Float[Tensor, "layer d_model"]  # noqa: E741  the field's name

    @classmethod
    def none(cls, weights: Weights) -> "Biases":
        zeros = weights.W_V.new_zeros
        return cls(zeros(weights.n_layers, weights.n_heads, weights.d_head), zeros(weights.n_layers, weights.d_model))

    @classmethod
    def random(cls, weights: Weights, seed: int = 0) -> "Biases":
        generator = torch.Generator().manual_seed(seed)
        shapes = cls.none(weights)
        return cls(*(torch.randn(x.shape, generator=generator, dtype=x.dtype) for x in (shapes.V, shapes.O)))


def writes(
    weights: Weights, tokens: Int[Tensor, "pos"], biases: Biases | None = None, norm: Norm = lambda layer, x: x
) -> Float[Tensor, "component pos d_model"]:
    """Run a transformer with biases and any normalisation; return everything written to the stream.

    Components: embedding, position, then each layer's attention.  ``logits = norm(L, Σ) @ W_U``.
    """
    biases = biases or Biases.none(weights)
    parts = [weights.W_E[tokens], weights.W_pos[: len(tokens)]]
    for layer in range(weights.n_layers):
        x = norm(layer, sum(parts))
        scores = attention_scores(x, weights.W_Q[layer], weights.W_K[layer])
        pattern = scores.masked_fill(causal_mask(len(tokens)), -torch.inf).softmax(-1)
        values = x @ weights.W_V[layer] + biases.V[layer][:, None]
        parts.append((pattern @ values @ weights.W_O[layer]).sum(0) + biases.O[layer])
    return torch.stack(parts)


# --- biases -------------------------------------------------------------------------------------------------


def folded_biases(weights: Weights, biases: Biases) -> Float[Tensor, "d_vocab"]:
    """Return the logits that the biases add while patterns stay as they are, one vector for all positions.

    .. math:: c_{l+1} = c_l + \\sum_h (c_l W_V^{lh} + b_V^{lh}) W_O^{lh} + b_O^l, \\qquad c_0 = 0, \\qquad c_L W_U

    A row of a pattern sums to 1, so what is the same at every position passes through values whole.
    """
    constant = torch.zeros(weights.d_model, dtype=weights.W_U.dtype)
    for layer in range(weights.n_layers):
        values = constant @ weights.W_V[layer] + biases.V[layer]
        constant = constant + (values.unsqueeze(1) @ weights.W_O[layer]).sum((0, 1)) + biases.O[layer]
    return constant @ weights.W_U


@torch.inference_mode()
def bias_folding_error(n_layers: int, seed: int = 0) -> float:
    """Return ``max |logits with biases − (logits without + folded biases)|`` on a random model.

    0 with one layer.  With two, the constant that layer 0 writes also enters layer 1's queries, and moves its
    patterns.  (In keys it adds the same to all scores of a row, which the softmax does not see; in values it folds.)
    """
    weights = random_weights(n_layers, seed)
    biases, tokens = Biases.random(weights, seed), random_tokens(weights, seed)
    with_biases = writes(weights, tokens, biases).sum(0) @ weights.W_U
    without = writes(weights, tokens).sum(0) @ weights.W_U
    return (with_biases - without - folded_biases(weights, biases)).abs().max().item()


# --- LayerNorm ----------------------------------------------------------------------------------------------


def layer_norm(gains: Float[Tensor, "norm d_model"]) -> Norm:
    """LayerNorm with a gain and no bias: ``g (x − mean) / sd``."""
    return lambda layer, x: gains[layer] * (x - x.mean(-1, keepdim=True)) / scale(x)


def divide(layer: int, x: Float[Tensor, "pos d_model"]) -> Float[Tensor, "pos d_model"]:
    """What folding leaves of LayerNorm: each position divided by its own standard deviation."""
    return x / scale(x)


def scale(x: Float[Tensor, "*pos d_model"]) -> Float[Tensor, "*pos 1"]:
    """Return the standard deviation over the stream's coordinates, one number a position."""
    return x.var(-1, keepdim=True, correction=0).add(1e-5).sqrt()


def fold_layer_norm(weights: Weights, gains: Float[Tensor, "norm d_model"]) -> Weights:
    """Move gain and mean of every LayerNorm into its neighbours.

    A reader takes the gain, ``W → diag(g) W``; a writer loses its mean over d_model, so that there is none
    left to subtract.  What cannot move is the division.
    """

    def centred(W: Tensor) -> Tensor:
        return W - W.mean(-1, keepdim=True)

    reads = gains[:-1, None, :, None]
    return replace(
        weights,
        W_E=centred(weights.W_E),
        W_pos=centred(weights.W_pos),
        W_Q=reads * weights.W_Q,
        W_K=reads * weights.W_K,
        W_V=reads * weights.W_V,
        W_O=centred(weights.W_O),
        W_U=gains[-1, :, None] * weights.W_U,
    )


@dataclass(frozen=True)
class NormErrors:
    """Four differences in logits, each a maximum over positions and vocabulary."""

    folded: float
    """Folded weights and the division left in, against true LayerNorm: 0, folding is exact."""
    undivided: float
    """Folded weights and no division: what "LayerNorm can be folded away" would be wrong by."""
    frozen: float
    """Sum of each component's logits, all divided by the *recorded* scale, against the logits: 0."""
    live: float
    """The same with each component divided by its *own* scale: the sum of paths breaks."""


@torch.inference_mode()
def norm_errors(n_layers: int = 2, seed: int = 0) -> NormErrors:
    """Compare LayerNorm, its folded form and the sum over components, on a random model with random gains."""
    weights = random_weights(n_layers, seed)
    tokens, generator = random_tokens(weights, seed), torch.Generator().manual_seed(seed)
    gains = 1 + 0.5 * torch.randn(n_layers + 1, weights.d_model, generator=generator, dtype=torch.float64)
    norm, folded = layer_norm(gains), fold_layer_norm(weights, gains)
    logits = norm(n_layers, writes(weights, tokens, norm=norm).sum(0)) @ weights.W_U
    parts = writes(folded, tokens, norm=divide)
    recorded = scale(parts.sum(0))

    def error(other: Tensor) -> float:
        return (logits - other).abs().max().item()

    return NormErrors(
        folded=error(parts.sum(0) / recorded @ folded.W_U),
        undivided=error(writes(folded, tokens).sum(0) @ folded.W_U),
        frozen=error((parts / recorded @ folded.W_U).sum(0)),
        live=error((parts / scale(parts) @ folded.W_U).sum(0)),
    )


# --- MLPs ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BlockParameters:
    """Matrix entries in one block (biases and LayerNorm left out)."""

    attention: int
    mlp: int

    @property
    def mlp_share(self) -> float:
        return self.mlp / (self.attention + self.mlp)


def block_parameters(d_model: int, d_attention: int | None = None, d_mlp: int | None = None) -> BlockParameters:
    """Count ``4 · d_model · d_attention`` (W_Q, W_K, W_V, W_O over all heads) and ``2 · d_model · d_mlp``.

    In a standard block all heads together have ``d_attention = d_model`` and ``d_mlp = 4 d_model``:
    4 d² against 8 d².
    """
    d_attention = d_model if d_attention is None else d_attention
    d_mlp = 4 * d_model if d_mlp is None else d_mlp
    return BlockParameters(4 * d_model * d_attention, 2 * d_model * d_mlp)
