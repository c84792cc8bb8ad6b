"""The transformer that is trained: plain PyTorch, no hooks, no biases, no LayerNorm.

.. math:: \\mathrm{logits} = \\Big(x_0 + \\sum_{l,h} A^{lh} x_l W_V^{lh} W_O^{lh}\\,[+\\ \\mathrm{MLP}]\\Big) W_U,
          \\qquad x_0 = W_E[t] + W_{pos}

It exists beside ``TransformerBridge`` for speed alone: twenty thousand steps do not need hook points.
:func:`state_dict` hands the weights over in the bridge's own key names.
"""

import math
from dataclasses import asdict, dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn


@dataclass(frozen=True)
class Shape:
    """The sizes of one model; ``d_mlp`` 0 means attention-only."""

    n_layers: int
    d_mlp: int = 0
    d_model: int = 256
    n_heads: int = 8
    d_head: int = 32
    n_ctx: int = 256
    d_vocab: int = 4096

    def config(self) -> dict:
        """Return the fields of ``config.json``: what TransformerLens needs to build the same model."""
        sizes = asdict(self)
        d_mlp = sizes.pop("d_mlp")
        mlp = {"attn_only": False, "d_mlp": d_mlp, "act_fn": "relu"} if d_mlp else {"attn_only": True}
        return sizes | mlp | {"normalization_type": None, "positional_embedding_type": "standard"}


def sinusoids(n_ctx: int, d_model: int) -> Float[Tensor, "n_ctx d_model"]:
    """Return sin/cos of ``pos · 1000^(−i/d)``: a shift by one is a rotation, which W_QK can undo."""
    frequency = 1000.0 ** (-torch.arange(0, d_model, 2) / d_model)
    angle = torch.arange(n_ctx)[:, None] * frequency
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)


class Attention(nn.Module):
    """All heads of one layer: ``softmax(mask(q kᵀ / √d_head)) v W_O``."""

    def __init__(self, shape: Shape):
        super().__init__()
        self.n_heads = shape.n_heads
        inner = shape.n_heads * shape.d_head
        self.q, self.k, self.v = (nn.Linear(shape.d_model, inner, bias=False) for _ in range(3))
        self.o = nn.Linear(inner, shape.d_model, bias=False)
        for linear in (self.q, self.k, self.v):
            nn.init.normal_(linear.weight, std=shape.d_model**-0.5)
        nn.init.normal_(self.o.weight, std=shape.d_model**-0.5 / math.sqrt(2 * shape.n_layers))

    def heads(self, linear: nn.Linear, x: Tensor) -> Float[Tensor, "batch head pos d_head"]:
        return linear(x).unflatten(-1, (self.n_heads, -1)).transpose(1, 2)

    def forward(self, x: Float[Tensor, "batch pos d_model"]) -> Float[Tensor, "batch pos d_model"]:
        q, k, v = self.heads(self.q, x), self.heads(self.k, x), self.heads(self.v, x)
        # In float32 even under autocast: the fused backward pass is a fifth faster so, and exact scores are free.
        with torch.autocast(x.device.type, enabled=False):
            z = F.scaled_dot_product_attention(q.float(), k.float(), v.float(), is_causal=True)
        return self.o(z.transpose(1, 2).flatten(2))

    def pattern(self, x: Float[Tensor, "batch pos d_model"]) -> Float[Tensor, "batch head query key"]:
        """Return A itself, which the fused product above never writes down."""
        q, k = self.heads(self.q, x), self.heads(self.k, x)
        scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
        future = torch.ones(scores.shape[-2:], dtype=torch.bool, device=x.device).triu(1)
        return scores.masked_fill(future, -torch.inf).softmax(-1)


class MLP(nn.Module):
    """``relu(x W_in + b_in) W_out + b_out``; the only part of the family that has biases."""

    def __init__(self, shape: Shape):
        super().__init__()
        self.add_module("in", nn.Linear(shape.d_model, shape.d_mlp))
        self.out = nn.Linear(shape.d_mlp, shape.d_model)
        nn.init.normal_(self.get_submodule("in").weight, std=shape.d_model**-0.5)
        nn.init.normal_(self.out.weight, std=shape.d_mlp**-0.5 / math.sqrt(2 * shape.n_layers))
        nn.init.zeros_(self.get_submodule("in").bias)
        nn.init.zeros_(self.out.bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(F.relu(self.get_submodule("in")(x)))


class Block(nn.Module):
    """Attention, then (where the model has one) the MLP, each added to the stream."""

    def __init__(self, shape: Shape):
        super().__init__()
        self.attn = Attention(shape)
        if shape.d_mlp:
            self.mlp = MLP(shape)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(x)
        return x + self.mlp(x) if hasattr(self, "mlp") else x


class Transformer(nn.Module):
    """A small decoder whose ``forward`` returns the training loss (so that it can be distributed)."""

    def __init__(self, shape: Shape):
        super().__init__()
        self.shape = shape
        self.embed = nn.Embedding(shape.d_vocab, shape.d_model)
        self.pos_embed = nn.Embedding(shape.n_ctx, shape.d_model)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.n_layers))
        self.unembed = nn.Linear(shape.d_model, shape.d_vocab, bias=False)
        nn.init.normal_(self.embed.weight, std=0.3)
        self.pos_embed.weight.data = 1.4 * sinusoids(shape.n_ctx, shape.d_model)
        nn.init.normal_(self.unembed.weight, std=0.2 / math.sqrt(shape.d_model))

    def resid_final(self, tokens: Int[Tensor, "batch pos"]) -> Float[Tensor, "batch pos d_model"]:
        x = self.embed(tokens) + self.pos_embed.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return x

    def logits(self, tokens: Int[Tensor, "batch pos"]) -> Float[Tensor, "batch pos d_vocab"]:
        return self.unembed(self.resid_final(tokens))

    def patterns(self, tokens: Int[Tensor, "batch pos"]) -> Float[Tensor, "layer batch head query key"]:
        x, patterns = self.embed(tokens) + self.pos_embed.weight[: tokens.shape[1]], []
        for block in self.blocks:
            patterns.append(block.attn.pattern(x))
            x = block(x)
        return torch.stack(patterns)

    def forward(self, tokens: Int[Tensor, "batch pos"], weights: Float[Tensor, "batch pos"]) -> Float[Tensor, ""]:
        """Return ``Σ weights · loss`` in nats, ``weights[b, p]`` being that of predicting token ``p``."""
        x = self.resid_final(tokens)[:, :-1].flatten(0, 1)
        return UnembedLoss.apply(x, self.unembed.weight, tokens[:, 1:].flatten(), weights[:, 1:].flatten())


class UnembedLoss(torch.autograd.Function):
    """``Σ_i w_i · (−log softmax(x_i W_U)[t_i])`` in row blocks, gradients made on the way.

    The logits of a batch are 34 MB: written once and read six times, they cost more than every matrix
    product of the model.  In blocks of 256 rows they stay in the cache, and as the gradient of a
    cross-entropy is known with its value, the backward pass has nothing left to do.
    Under ``torch.autocast`` the products are taken in its low precision, sums stay in float32.
    """

    ROWS = 256

    @staticmethod
    def forward(ctx, x, W_U, targets, weights):
        device = x.device.type
        low = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else torch.float32
        x, W = x.to(low), W_U.to(low)
        loss, grad_x, grad_W = x.new_zeros((), dtype=torch.float32), torch.empty_like(x), torch.zeros_like(W_U)
        for first in range(0, len(x), UnembedLoss.ROWS):
            block = slice(first, first + UnembedLoss.ROWS)
            probs = (x[block] @ W.T).float().softmax(-1)
            own = probs.gather(1, targets[block, None])
            loss -= (own[:, 0].clamp_min(1e-30).log() * weights[block]).sum()
            grad = probs.scatter_(1, targets[block, None], own - 1).mul_(weights[block, None]).to(low)
            grad_x[block] = grad @ W
            grad_W += grad.T @ x[block]
        ctx.save_for_backward(grad_x.float(), grad_W)
        return loss

    @staticmethod
    def backward(ctx, upstream):
        grad_x, grad_W = ctx.saved_tensors
        return upstream * grad_x, upstream * grad_W, None, None


def state_dict(model: Transformer) -> dict[str, Tensor]:
    """Return the weights under ``boot_native``'s key names, float16, missing biases as zeros."""
    weights = {name: value.detach().cpu() for name, value in model.state_dict().items()}
    for name in [name for name in weights if ".attn." in name or name == "unembed.weight"]:
        weights.setdefault(name.replace("weight", "bias"), torch.zeros(len(weights[name])))
    return {name: value.to(torch.float16).contiguous() for name, value in weights.items()}


def restore(shape: Shape, weights: dict[str, Tensor]) -> Transformer:
    """Return the model of :func:`state_dict`'s weights, float32; the zero biases have no place in it and go."""
    model = Transformer(shape)
    own = model.state_dict().keys()
    model.load_state_dict({name: value.float() for name, value in weights.items() if name in own})
    return model.eval()
