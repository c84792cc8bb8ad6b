"""Every edge of an attention-only transformer, patched.

Nodes are the token embedding, the position embedding, every head and the logits.  A head reads the stream three
times (for its queries, keys and values) and the logits read it once; every reading is the sum of all earlier
nodes' outputs, and each summand is an *edge*.  With two layers of eight heads:
2·3·8 + 10·3·8 + 18 = 306 edges.  Patching an edge replaces one summand by its value on the corrupt prompt while
all other readers still see the clean one (path patching, Wang et al. 2022); what lies downstream is recomputed.

As the summands are added with no LayerNorm between, the patched q, k or v is the clean one plus
``δ_source W``, and a whole layer of edges is a few einsums over [source, head] instead of a forward pass an edge.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from circuits.discovery.pairs import Pair
from circuits.discovery.patching import Activations, activations, components, gradients, n_sources
from circuits.discovery.reaction import last_row_change, rows_read
from circuits.weights import Head, Weights, causal_mask


class Edge(NamedTuple):
    """One summand of one reading: ``L0H3 → L1H4.k``; ``reader`` is None for the logits."""

    source: str
    reader: Head | None
    input: str

    @property
    def target(self) -> str:
        """The reading: ``L1H4.k`` or ``logits``."""
        return f"{self.reader}.{self.input}" if self.reader else "logits"

    def __str__(self) -> str:
        return f"{self.source} → {self.target}"


def source_names(weights: Weights) -> list[str]:
    """Return the writers in the order of :func:`components`: embed, pos, L0H0, …"""
    return ["embed", "pos", *map(str, weights.heads)]


def graph(weights: Weights) -> tuple[Edge, ...]:
    """Return all edges, layer by layer, in the order [input q k v, source, head] and the logits last."""
    names = source_names(weights)
    edges = [
        Edge(source, Head(layer, head), kind)
        for layer in range(weights.n_layers)
        for kind in "qkv"
        for source in names[: n_sources(weights, layer)]
        for head in range(weights.n_heads)
    ]
    return (*edges, *(Edge(source, None, "logits") for source in names))


@torch.inference_mode()
def edge_effects(weights: Weights, pair: Pair) -> Float[Tensor, "edge"]:
    """Return the metric's change (logits, mean over prompts) when each edge alone carries the corrupt value.

    The order is that of :func:`graph`.

    Raises:
        ValueError: the model has an MLP: it would be a node of its own.
    """
    run, corrupt = activations(weights, pair.clean), activations(weights, pair.corrupt)
    clean = components(weights, run, pair.clean)
    delta, direction = components(weights, corrupt, pair.corrupt) - clean, pair.direction(weights)
    effects = []
    for layer in range(weights.n_layers):
        change = _output_changes(weights, run, layer, delta[:, : n_sources(weights, layer)])
        above = clean[:, : n_sources(weights, layer + 1)].sum(1)
        last = last_row_change(weights, layer, above, change)
        effects.append(torch.einsum("bishd,bd->bish", last, direction).flatten(1))
    effects.append(torch.einsum("bsd,bd->bs", delta[:, :, -1], direction))
    return torch.cat(effects, 1).mean(0)


def _output_changes(
    weights: Weights, run: Activations, layer: int, delta: Float[Tensor, "batch source pos d_model"]
) -> Float[Tensor, "batch input source head query d_model"]:
    """Return how each head's output changes when one source in its q, k or v input is replaced."""
    rows = rows_read(weights, layer)
    q, k, v, pattern = run.q[:, layer, :, rows], run.k[:, layer], run.v[:, layer], run.pattern[:, layer, :, rows]
    dq = torch.einsum("bsnd,hde->bshne", delta[:, :, rows], weights.W_Q[layer])
    dk, dv = (torch.einsum("bsnd,hde->bshne", delta, W[layer]) for W in (weights.W_K, weights.W_V))
    scores = torch.stack(
        [torch.einsum("bshqe,bhke->bshqk", q[:, None] + dq, k), torch.einsum("bhqe,bshke->bshqk", q, k[:, None] + dk)],
        1,
    )
    future = causal_mask(k.shape[-2])[rows]
    moved = (scores / weights.d_head**0.5).masked_fill(future, -torch.inf).softmax(-1) - pattern[:, None, None]
    by_pattern = torch.einsum("bishqk,bhke->bishqe", moved, v)
    by_value = torch.einsum("bhqk,bshke->bshqe", pattern, dv)
    dz = torch.cat([by_pattern, by_value[:, None]], 1)
    return torch.einsum("bishqe,hed->bishqd", dz, weights.W_O[layer])


def edge_attribution(weights: Weights, pair: Pair) -> Float[Tensor, "edge"]:
    """Return the first-order estimate of :func:`edge_effects` from one backward pass.

    ``Σ_pos δ_source W · ∂metric/∂q`` (k, v alike): edge attribution patching, Syed et al. 2023.
    """
    gradient = gradients(weights, pair)
    with torch.no_grad():
        clean, corrupt = (components(weights, activations(weights, t), t) for t in (pair.clean, pair.corrupt))
        delta = corrupt - clean
        estimates = []
        for layer in range(weights.n_layers):
            sources = delta[:, : n_sources(weights, layer)]
            for kind in "qkv":
                W = getattr(weights, f"W_{kind.upper()}")[layer]
                pulled = torch.einsum("bhne,hde->bhnd", gradient[kind][:, layer], W)
                estimates.append(torch.einsum("bsnd,bhnd->sh", sources, pulled).flatten())
        estimates.append(torch.einsum("bsd,bd->s", delta[:, :, -1], pair.direction(weights)) / len(delta))
    return torch.cat(estimates)
