"""The weights of a transformer as a value, and the forward pass written down once.

``TransformerBridge`` is the model that serves the app.  :class:`Weights` is what the mathematics acts on:
an immutable set of matrices, under TransformerLens' names and shapes, that can be rotated,
re-parametrised, taken from a checkpoint or built by hand, and then run without touching the served model.
:func:`forward` is the whole transformer of this family (no LayerNorm) in its own words; the tests hold it
against TransformerLens.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformer_lens.model_bridge import TransformerBridge


class Head(NamedTuple):
    """One attention head; prints as ``L1H4``."""

    layer: int
    head: int

    def __str__(self) -> str:
        return f"L{self.layer}H{self.head}"


@dataclass(frozen=True)
class Weights:
    """All matrices of one model; biases only where the family has them (the MLP).

    ``W_Q W_K W_V: [layer, head, d_model, d_head]``, ``W_O: [layer, head, d_head, d_model]``,
    ``W_E: [d_vocab, d_model]``, ``W_pos: [n_ctx, d_model]``, ``W_U: [d_model, d_vocab]``;
    with an MLP ``W_in: [layer, d_model, d_mlp]`` (keys are its columns) and ``W_out: [layer, d_mlp, d_model]``.
    """

    W_E: Float[Tensor, "d_vocab d_model"]
    W_pos: Float[Tensor, "n_ctx d_model"]
    W_Q: Float[Tensor, "layer head d_model d_head"]
    W_K: Float[Tensor, "layer head d_model d_head"]
    W_V: Float[Tensor, "layer head d_model d_head"]
    W_O: Float[Tensor, "layer head d_head d_model"]
    W_U: Float[Tensor, "d_model d_vocab"]
    W_in: Float[Tensor, "layer d_model d_mlp"] | None = None
    b_in: Float[Tensor, "layer d_mlp"] | None = None
    W_out: Float[Tensor, "layer d_mlp d_model"] | None = None
    b_out: Float[Tensor, "layer d_model"] | None = None

    @classmethod
    def of(cls, model: TransformerBridge) -> "Weights":
        """Return the weights of a model without LayerNorm, sharing no hook with it."""
        if model.cfg.normalization_type is not None:
            raise ValueError(f"{model.cfg.model_name} has LayerNorm: its weights alone are not the model")
        return cls.from_state_dict(model.state_dict(), model.cfg.n_layers, model.cfg.n_heads)

    @classmethod
    def from_state_dict(cls, state: dict[str, Tensor], n_layers: int, n_heads: int) -> "Weights":
        """Read ``boot_native`` key names (``blocks.0.attn.q.weight: [n_heads·d_head, d_model]``, …)."""
        d_model = state["embed.weight"].shape[1]

        def stack(name: str) -> Tensor:
            return torch.stack([state[f"blocks.{layer}.{name}"] for layer in range(n_layers)])

        def heads(name: str) -> Tensor:
            if n_layers == 0:
                return state["embed.weight"].new_zeros(0, n_heads, d_model, 1)
            return stack(f"attn.{name}.weight").unflatten(1, (n_heads, -1)).transpose(-1, -2)

        attention = {
            "W_Q": heads("q"),
            "W_K": heads("k"),
            "W_V": heads("v"),
            "W_O": stack("attn.o.weight").transpose(-1, -2).unflatten(1, (n_heads, -1))
            if n_layers
            else state["embed.weight"].new_zeros(0, n_heads, 1, d_model),
        }
        mlp = {}
        if "blocks.0.mlp.in.weight" in state:
            mlp = {
                "W_in": stack("mlp.in.weight").transpose(-1, -2),
                "b_in": stack("mlp.in.bias"),
                "W_out": stack("mlp.out.weight").transpose(-1, -2),
                "b_out": stack("mlp.out.bias"),
            }
        ends = {"W_E": state["embed.weight"], "W_pos": state["pos_embed.weight"], "W_U": state["unembed.weight"].T}
        return cls(**{name: value.detach() for name, value in (ends | attention | mlp).items()})

    def map(self, f: Callable[[Tensor], Tensor]) -> "Weights":
        """Return the weights with ``f`` applied to every matrix, e.g. ``map(torch.Tensor.double)``."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return replace(self, **{name: f(value) for name, value in values.items() if value is not None})

    def double(self) -> "Weights":
        return self.map(torch.Tensor.double)

    @property
    def n_layers(self) -> int:
        return self.W_Q.shape[0]

    @property
    def n_heads(self) -> int:
        return self.W_Q.shape[1]

    @property
    def d_head(self) -> int:
        return self.W_Q.shape[3]

    @property
    def d_model(self) -> int:
        return self.W_E.shape[1]

    @property
    def d_vocab(self) -> int:
        return self.W_E.shape[0]

    @property
    def n_ctx(self) -> int:
        return self.W_pos.shape[0]

    @property
    def heads(self) -> list[Head]:
        """All heads in reading order, L0H0 first."""
        return [Head(layer, head) for layer in range(self.n_layers) for head in range(self.n_heads)]


@dataclass(frozen=True)
class Run:
    """Everything one forward pass computed; leading dimensions are the batch, if there was one.

    ``resid_final = embed + pos_embed + Σ head_out (+ Σ mlp_out)`` and ``logits = resid_final @ W_U``.
    ``scores`` are divided by √d_head and −∞ above the diagonal; ``pattern = softmax(scores)``.
    """

    tokens: Int[Tensor, "*batch pos"]
    embed: Float[Tensor, "*batch pos d_model"]
    pos_embed: Float[Tensor, "*batch pos d_model"]
    scores: Float[Tensor, "*batch layer head query key"]
    pattern: Float[Tensor, "*batch layer head query key"]
    head_out: Float[Tensor, "*batch layer head pos d_model"]
    mlp_out: Float[Tensor, "*batch layer pos d_model"] | None
    resid_pre: Float[Tensor, "*batch layer pos d_model"]
    resid_final: Float[Tensor, "*batch pos d_model"]
    logits: Float[Tensor, "*batch pos d_vocab"]


def causal_mask(n: int) -> Tensor:
    """Return the boolean [n, n] mask that is True where a query would see the future."""
    return torch.ones(n, n, dtype=torch.bool).triu(1)


def attention_scores(
    x: Float[Tensor, "*batch pos d_model"],
    W_Q: Float[Tensor, "head d_model d_head"],
    W_K: Float[Tensor, "head d_model d_head"],
) -> Float[Tensor, "*batch head query key"]:
    """Return ``x W_Q W_Kᵀ xᵀ / √d_head`` for every head, before the mask."""
    x = x.unsqueeze(-3)
    return (x @ W_Q) @ (x @ W_K).transpose(-1, -2) / W_Q.shape[-1] ** 0.5


def forward(weights: Weights, tokens: Int[Tensor, "*batch pos"]) -> Run:
    """Run the transformer ``weights`` on ``tokens`` and keep everything.

    .. math:: x_{l+1} = x_l + \\sum_h A^{lh} x_l W_V^{lh} W_O^{lh}\\ [+\\ \\mathrm{MLP}],
              \\quad A^{lh} = \\mathrm{softmax}(\\mathrm{mask}(x_l W_Q^{lh} W_K^{lh\\top} x_l^\\top / \\sqrt{d_{head}}))

    Raises:
        ValueError: the prompt is longer than the position table.
    """
    n = tokens.shape[-1]
    if n > weights.n_ctx:
        raise ValueError(f"the prompt has {n} tokens, the model's limit is {weights.n_ctx}")
    embed = weights.W_E[tokens]
    pos_embed = weights.W_pos[:n].expand_as(embed)
    x = embed + pos_embed
    scores, patterns, head_outs, mlp_outs, resid_pres = [], [], [], [], []
    for layer in range(weights.n_layers):
        resid_pres.append(x)
        score = attention_scores(x, weights.W_Q[layer], weights.W_K[layer]).masked_fill(causal_mask(n), -torch.inf)
        pattern = score.softmax(-1)
        head_out = pattern @ x.unsqueeze(-3) @ weights.W_V[layer] @ weights.W_O[layer]
        x = x + head_out.sum(-3)
        scores.append(score), patterns.append(pattern), head_outs.append(head_out)
        if weights.W_in is not None:
            hidden = (x @ weights.W_in[layer] + weights.b_in[layer]).relu()
            mlp_outs.append(hidden @ weights.W_out[layer] + weights.b_out[layer])
            x = x + mlp_outs[-1]
    batch = tokens.shape[:-1]
    square, out = (*batch, 0, weights.n_heads, n, n), (*batch, 0, weights.n_heads, n, weights.d_model)

    def stack(parts: list[Tensor], dim: int, empty: tuple[int, ...]) -> Tensor:
        return torch.stack(parts, dim) if parts else embed.new_zeros(empty)

    return Run(
        tokens=tokens,
        embed=embed,
        pos_embed=pos_embed,
        scores=stack(scores, -4, square),
        pattern=stack(patterns, -4, square),
        head_out=stack(head_outs, -4, out),
        mlp_out=stack(mlp_outs, -3, ()) if mlp_outs else None,
        resid_pre=stack(resid_pres, -3, (*batch, 0, n, weights.d_model)),
        resid_final=x,
        logits=x @ weights.W_U,
    )
