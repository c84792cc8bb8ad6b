"""The path expansion: a transformer's logits as a sum with one term per path through its heads.

With the attention patterns held fixed, every layer is a linear map, ``x ↦ x + Σ_h A^h x W_OV^h``, and a
product of sums can be multiplied out.  Two layers give (Elhage et al. 2021, "Path expansion")

.. math:: T = X W_U + \\sum_h A^h X W_{OV}^h W_U + \\sum_{h_1, h_2} A^{h_2} A^{h_1} X W_{OV}^{h_1} W_{OV}^{h_2} W_U

with ``X = W_E[tokens] + W_pos``: patterns act from the left, the latest first; matrices from the right, the
earliest first.  Since X is itself a sum, every path starts at the token or at the position:
``2 (1 + n_heads)^n_layers`` terms.  An MLP is not linear: what it wrote is taken as one more place to start.

The expansion is exact, and only given the patterns: they depend on the input too.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from circuits.weights import Head, Run, Weights, attention_scores, causal_mask

TOKEN, POSITION = "token", "position"

LIMIT_BYTES = 2**30
"""An expansion that would not fit into this is refused rather than begun."""


class Path(NamedTuple):
    """One term: where it starts (``token``, ``position``, ``MLP 0`` …) and the heads it takes, earliest first."""

    source: str
    heads: tuple[Head, ...] = ()

    @property
    def order(self) -> int:
        """How many heads the path goes through: 0 is the direct path, 2 a virtual head."""
        return len(self.heads)

    def __str__(self) -> str:
        return " → ".join([self.source, *map(str, self.heads)])


@dataclass(frozen=True)
class Expansion:
    """All paths of one run; ``Σ_path streams = resid_final``, and ``streams @ W_U`` are their logits.

    A term's ``[pos, d_vocab]`` logits are made when asked for: only ``[pos, d_model]`` is kept of each.
    """

    paths: tuple[Path, ...]
    streams: Float[Tensor, "path pos d_model"]
    W_U: Float[Tensor, "d_model d_vocab"]
    logits: Float[Tensor, "pos d_vocab"]
    tokens: Int[Tensor, "pos"]

    @torch.inference_mode()
    def effect(self, token: int) -> Float[Tensor, "path pos"]:
        """Return what every path adds to the logit of ``token`` at every position."""
        return self.streams @ self.W_U[:, token]

    @torch.inference_mode()
    def norms(self) -> Float[Tensor, "path pos"]:
        """Return the length of what every path adds to the stream at every position."""
        return self.streams.norm(dim=-1)

    @torch.inference_mode()
    def contribution(self, path: int) -> Float[Tensor, "pos d_vocab"]:
        """Return one path's whole term of the sum, ``streams[path] @ W_U``."""
        return self.streams[path] @ self.W_U

    @torch.inference_mode()
    def partial_logits(self, ticked: Bool[Tensor, "path"]) -> Float[Tensor, "pos d_vocab"]:
        """Return the logits of the ticked paths alone."""
        return self.streams[ticked].sum(0) @ self.W_U

    @torch.inference_mode()
    def residual_error(self, ticked: Bool[Tensor, "path"]) -> float:
        """Return ``max |logits − Σ ticked|``: rounding alone when all paths are ticked."""
        return (self.logits - self.partial_logits(ticked)).abs().max().item()

    @torch.inference_mode()
    def loss(self, ticked: Bool[Tensor, "path"]) -> float:
        """Return the loss of the ticked paths alone on the run's own tokens, in nats per predicted token.

        Raises:
            ValueError: there is one token only, and nothing to predict.
        """
        if len(self.tokens) < 2:
            raise ValueError("a loss needs at least two tokens: one to read and one to predict")
        return torch.nn.functional.cross_entropy(self.partial_logits(ticked)[:-1], self.tokens[1:]).item()

    def of_order(self, order: int) -> Bool[Tensor, "path"]:
        """Return which paths go through exactly ``order`` heads."""
        return torch.tensor([path.order == order for path in self.paths])


def n_paths(n_layers: int, n_heads: int) -> int:
    """Return ``(1 + n_heads)^n_layers``, the paths from one source to the logits."""
    return (1 + n_heads) ** n_layers


@torch.inference_mode()
def expand(weights: Weights, run: Run) -> Expansion:
    """Multiply out the model on one prompt, order by order: direct paths first.

    Raises:
        ValueError: the run is a batch, or the expansion has too many terms to be kept.
    """
    if run.tokens.ndim != 1:
        raise ValueError(f"one prompt at a time: these tokens have shape {tuple(run.tokens.shape)}")
    paths, streams = _multiply_out(weights, run)
    # Sorted by order; the sort is stable, so within an order the paths stay in reading order.
    order = sorted(range(len(paths)), key=lambda index: paths[index].order)
    ordered = tuple(paths[index] for index in order)
    return Expansion(ordered, streams[torch.tensor(order)], weights.W_U, run.logits, run.tokens)


def _multiply_out(weights: Weights, run: Run) -> tuple[list[Path], Float[Tensor, "path pos d_model"]]:
    """Walk up the layers: every path so far goes on as it is, or through one of the layer's heads."""
    paths, streams = [Path(TOKEN), Path(POSITION)], torch.stack([run.embed, run.pos_embed])
    needed = 2 * n_paths(weights.n_layers, weights.n_heads) * run.embed.nbytes
    if needed > LIMIT_BYTES:
        raise ValueError(
            f"{needed / run.embed.nbytes:,.0f} paths would take {needed / 2**30:.1f} GiB: use a short prompt"
        )
    for layer in range(weights.n_layers):
        through = attend(run.pattern[layer], streams, weights.W_V[layer], weights.W_O[layer])
        heads = [Head(layer, head) for head in range(weights.n_heads)]
        paths = paths + [Path(path.source, (*path.heads, head)) for path in paths for head in heads]
        streams = torch.cat([streams, through.flatten(0, 1)])
        if run.mlp_out is not None:
            paths = [*paths, Path(f"MLP {layer}")]
            streams = torch.cat([streams, run.mlp_out[layer][None]])
    return paths, streams


def attend(
    pattern: Float[Tensor, "head query key"],
    x: Float[Tensor, "*many key d_model"],
    W_V: Float[Tensor, "head d_model d_head"],
    W_O: Float[Tensor, "head d_head d_model"],
) -> Float[Tensor, "*many head query d_model"]:
    """Send ``x`` through every head of a layer with its pattern fixed: ``A (x W_V) W_O``, narrowest product first."""
    return pattern @ (x.unsqueeze(-3) @ W_V) @ W_O


@torch.inference_mode()
def frozen_logits(
    weights: Weights, x: Float[Tensor, "pos d_model"], pattern: Float[Tensor, "layer head query key"]
) -> Float[Tensor, "pos d_vocab"]:
    """Run the attention layers on a stream ``x`` with every pattern given: a linear function of ``x``."""
    for layer in range(weights.n_layers):
        x = x + attend(pattern[layer], x, weights.W_V[layer], weights.W_O[layer]).sum(-3)
    return x @ weights.W_U


@torch.inference_mode()
def live_logits(weights: Weights, x: Float[Tensor, "pos d_model"]) -> Float[Tensor, "pos d_vocab"]:
    """Run the attention layers on a stream ``x`` that makes its own patterns: not linear in ``x``."""
    for layer in range(weights.n_layers):
        scores = attention_scores(x, weights.W_Q[layer], weights.W_K[layer])
        pattern = scores.masked_fill(causal_mask(len(x)), -torch.inf).softmax(-1)
        x = x + attend(pattern, x, weights.W_V[layer], weights.W_O[layer]).sum(-3)
    return x @ weights.W_U


def start_of_stream(weights: Weights, tokens: Int[Tensor, "pos"]) -> Float[Tensor, "pos d_model"]:
    """Return ``W_E[tokens] + W_pos``: one-hot rows times the two tables, so a mix of streams is a soft token."""
    return weights.W_E[tokens] + weights.W_pos[: len(tokens)]


def linearity_gap(
    logits: Callable[[Tensor], Tensor],
    first: Float[Tensor, "pos d_model"],
    second: Float[Tensor, "pos d_model"],
    alpha: float,
    beta: float,
) -> float:
    """Return ``max |f(α x₁ + β x₂) − α f(x₁) − β f(x₂)|``: rounding where f is linear."""
    mixed = logits(alpha * first + beta * second)
    return (mixed - alpha * logits(first) - beta * logits(second)).abs().max().item()


class KronProduct(NamedTuple):
    """``(A ⊗ W) x`` both ways: one big matrix on one long vector, or a matrix on each side."""

    kron: np.ndarray
    flat: np.ndarray
    two_sided: np.ndarray


def kron_product(A: np.ndarray, W: np.ndarray, x: np.ndarray) -> KronProduct:
    """Return ``A ⊗ W``, ``((A ⊗ W) vec x)`` folded back, and ``A x Wᵀ``: the last two are equal.

    ``A: [n, n]`` mixes positions, ``W: [m, d]`` acts on each position's vector as the paper writes it (a
    column), ``x: [n, d]``.  vec reads row by row, as numpy's ``ravel`` does; a textbook that stacks columns
    has ``W ⊗ A``.
    """
    big = np.kron(A, W)
    return KronProduct(big, (big @ x.ravel()).reshape(len(A), len(W)), A @ x @ W.T)


class Places(NamedTuple):
    """Where the paths of a model of up to two layers stand on a board: ``cells[path] = (row, column)``."""

    cells: list[tuple[int, int]]
    rows: list[str]
    columns: list[str]


def board_places(paths: Iterable[Path], n_layers: int, n_heads: int) -> Places:
    """Lay out paths from token and position: rows by layer-0 head, columns by layer-1 head, token block first.

    An empty column name is the gap between the two blocks.

    Raises:
        ValueError: the model has more than two layers, and a board no room for the third head.
    """
    if n_layers > 2:
        raise ValueError(f"a board has two sides; paths of {n_layers} layers need {n_layers}")
    steps = [["direct", *(str(Head(layer, head)) for head in range(n_heads))] for layer in range(n_layers)]
    rows, block = [*steps, ["direct"], ["direct"]][:2] if n_layers != 1 else (steps[0], ["direct"])
    start = {TOKEN: 0, POSITION: len(block) + 1}

    def cell(path: Path) -> tuple[int, int]:
        taken = {head.layer: 1 + head.head for head in path.heads}
        return taken.get(0, 0), start[path.source] + taken.get(1, 0)

    return Places([cell(path) for path in paths], rows, [*block, "", *block])
