"""What the layers above make of a head's changed output, when only the last row is read."""

import torch
from jaxtyping import Float
from torch import Tensor

from circuits.weights import Weights, causal_mask


def rows_read(weights: Weights, layer: int) -> slice:
    """Return the queries that matter: the metric reads one row, so the last layer needs only that one."""
    return slice(-1, None) if layer == weights.n_layers - 1 else slice(None)


def last_row_change(
    weights: Weights,
    layer: int,
    above: Float[Tensor, "batch pos d_model"],
    change: Float[Tensor, "batch *patch query d_model"],
) -> Float[Tensor, "batch *patch d_model"]:
    """Return the change of the final stream's last row when a head of ``layer`` writes ``change`` more.

    ``above`` is the undisturbed stream after ``layer``; the layers from there on react, one patch at a time.
    """
    if layer == weights.n_layers - 1:
        return change[..., -1, :]
    above = above.view(len(above), *[1] * (change.dim() - 3), *above.shape[1:])
    with_change, without = above + change, above
    for later in range(layer + 1, weights.n_layers):
        with_change, without = layer_output(weights, later, with_change), layer_output(weights, later, without)
    return (with_change - without)[..., -1, :]


def layer_output(
    weights: Weights, layer: int, x: Float[Tensor, "*batch pos d_model"]
) -> Float[Tensor, "*batch query d_model"]:
    """Run one layer, only for the queries that matter; keys and values are never written down.

    ``(x_q W_Q W_Kᵀ) xᵀ`` and ``(A x) W_V W_O`` cost one product with the whole ``x`` each, where projecting every
    position first would cost d_model / n_heads times as much when a single query is wanted.
    """
    rows = rows_read(weights, layer)
    queries = x[..., rows, :]
    reads = torch.einsum("...qd,hde,hfe->...hqf", queries, weights.W_Q[layer], weights.W_K[layer])
    scores = torch.einsum("...hqd,...kd->...hqk", reads, x) / weights.d_head**0.5
    pattern = scores.masked_fill(causal_mask(x.shape[-2])[rows], -torch.inf).softmax(-1)
    mixed = torch.einsum("...hqk,...kd->...hqd", pattern, x)
    return queries + torch.einsum("...hqd,hde,hef->...qf", mixed, weights.W_V[layer], weights.W_O[layer])
