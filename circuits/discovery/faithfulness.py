"""A set of edges as a circuit: run it alone, and say how much of the behaviour it keeps.

Every reading of a circuit takes each kept edge from the circuit's own run and every other edge from the corrupt
run.  So the graph with all edges *is* the clean model, the graph with none is the fully corrupted one, and
``faithfulness = (m(circuit) − m(corrupt)) / (m(clean) − m(corrupt))`` runs from 1 to 0 between them
(it may leave that range: edges that work against the behaviour are edges too).
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from circuits.discovery.edges import Edge, graph
from circuits.discovery.pairs import Pair
from circuits.discovery.patching import activations, components, metrics, n_sources
from circuits.discovery.reaction import rows_read
from circuits.weights import Weights, causal_mask


@torch.inference_mode()
def circuit_metrics(weights: Weights, pair: Pair, circuits: Iterable[Bool[Tensor, "edge"]]) -> Iterator[float]:
    """Yield the metric of each circuit in turn (edges in the order of :func:`circuits.discovery.graph`).

    One at a time, so that a caller can show progress and stop.

    Raises:
        ValueError: a circuit does not have one entry an edge.
    """
    clean, corrupt = (components(weights, activations(weights, t), t) for t in (pair.clean, pair.corrupt))
    direction, n_edges = pair.direction(weights), len(graph(weights))
    for keep in circuits:
        if keep.shape != (n_edges,):
            raise ValueError(f"the circuit has shape {tuple(keep.shape)}, the graph has {n_edges} edges")
        yield (_last_row(weights, clean, corrupt, keep) * direction).sum(-1).mean().item()


def _last_row(
    weights: Weights,
    clean: Float[Tensor, "batch source pos d_model"],
    corrupt: Float[Tensor, "batch source pos d_model"],
    keep: Bool[Tensor, "edge"],
) -> Float[Tensor, "batch d_model"]:
    """Run one circuit: kept edges carry its own values, the others the corrupt ones; return the stream's last row."""
    by_layer, to_logits = _unflatten(weights, keep.to(clean.dtype))
    own = torch.cat([clean[:, :2], corrupt[:, 2:]], 1)
    for layer, kept in enumerate(by_layer):
        read, rows = n_sources(weights, layer), rows_read(weights, layer)
        restored = torch.einsum("csh,bsnd->bchnd", kept, (own - corrupt)[:, :read])
        inputs = corrupt[:, :read].sum(1)[:, None, None] + restored
        own[:, read : read + weights.n_heads, rows] = _heads(weights, layer, inputs, rows)
    return corrupt[:, :, -1].sum(1) + torch.einsum("s,bsd->bd", to_logits, (own - corrupt)[:, :, -1])


def _unflatten(weights: Weights, keep: Float[Tensor, "edge"]) -> tuple[list[Tensor], Tensor]:
    """Split a vector over edges into ``[input, source, head]`` a layer, and ``[source]`` for the logits."""
    counts = [3 * n_sources(weights, layer) * weights.n_heads for layer in range(weights.n_layers)]
    *layers, logits = keep.split([*counts, n_sources(weights, weights.n_layers)])
    return [layer.view(3, -1, weights.n_heads) for layer in layers], logits


def _heads(
    weights: Weights, layer: int, inputs: Float[Tensor, "batch 3 head pos d_model"], rows: slice
) -> Float[Tensor, "batch head query d_model"]:
    """Return the heads' outputs when queries, keys and values are read from three different streams."""
    streams = (inputs[:, 0, :, rows], inputs[:, 1], inputs[:, 2])
    W = (weights.W_Q[layer], weights.W_K[layer], weights.W_V[layer])
    q, k, v = (torch.einsum("bhnd,hde->bhne", x, W_c) for x, W_c in zip(streams, W, strict=True))
    scores = q @ k.transpose(-1, -2) / weights.d_head**0.5
    pattern = scores.masked_fill(causal_mask(k.shape[-2])[rows], -torch.inf).softmax(-1)
    return pattern @ v @ weights.W_O[layer]


def faithfulness(weights: Weights, pair: Pair, circuits: Iterable[Bool[Tensor, "edge"]]) -> Iterator[float]:
    """Yield for each circuit the share of the metric's clean-to-corrupt difference that it keeps.

    Raises:
        ValueError: clean and corrupt prompts give the same metric, so that there is no behaviour to explain.
    """
    clean, corrupt = metrics(weights, pair)
    if clean == corrupt:
        raise ValueError("clean and corrupt prompts give the same metric: there is nothing to explain")
    for value in circuit_metrics(weights, pair, circuits):
        yield (value - corrupt) / (clean - corrupt)


def strongest(effects: Float[Tensor, "edge"], count: int) -> Bool[Tensor, "edge"]:
    """Return the mask of the ``count`` edges whose patch changes the metric most, either way."""
    order = effects.abs().argsort(descending=True, stable=True)
    keep = torch.zeros(len(effects), dtype=torch.bool)
    keep[order[:count]] = True
    return keep


@dataclass(frozen=True)
class Circuit:
    """A thinned graph with everything needed to read it elsewhere; :meth:`to_json` writes it down."""

    model: str
    prompts: dict[str, list[str]]
    threshold: float
    metrics: tuple[float, float]
    faithfulness: float
    edges: tuple[Edge, ...]
    effects: Float[Tensor, "edge"]
    keep: Bool[Tensor, "edge"]

    def to_json(self) -> str:
        """Return nodes and kept edges as JSON; an edge's effect is in logits and, beside it, as a share."""
        clean, corrupt = self.metrics
        kept = [(edge, float(effect)) for edge, effect, k in zip(self.edges, self.effects, self.keep, strict=True) if k]
        nodes = dict.fromkeys(name for edge, _ in kept for name in (edge.source, _node(edge)))
        return json.dumps(
            {
                "model": self.model,
                "prompts": self.prompts,
                "metric": {
                    "name": "logit[answer] - logit[wrong] at the last token",
                    "clean": clean,
                    "corrupt": corrupt,
                },
                "threshold": self.threshold,
                "faithfulness": self.faithfulness,
                "edges_in_graph": len(self.edges),
                "nodes": list(nodes),
                "edges": [
                    {
                        "label": str(edge),
                        "source": edge.source,
                        "target": _node(edge),
                        "input": edge.input,
                        "effect": effect,
                        "share": effect / (corrupt - clean) if corrupt != clean else None,
                    }
                    for edge, effect in kept
                ],
            },
            indent=2,
            ensure_ascii=False,
        )


def _node(edge: Edge) -> str:
    return str(edge.reader) if edge.reader else "logits"
