"""The two conventions side by side, and a checker that knows what a product of matrices is.

The paper writes column vectors and ``W x``; this app, like TransformerLens, rows and ``x @ W``.  Nearly every
matrix is the other's transpose.  Multiplying in the wrong order is often no error at all: ``W_Q.T @ W_K`` with our
shapes is a perfectly good [d_head, d_head] matrix, and not the QK matrix.  :func:`check` multiplies axes instead of
numbers, so it can say so.
"""

import re
from dataclasses import dataclass
from functools import reduce
from typing import Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from circuits.weights import Head, Run, Weights

Convention = Literal["ours", "paper"]
Axes = tuple[str, str]


@dataclass(frozen=True)
class Sizes:
    """What the four letters stand for; numbers of one model and one prompt."""

    n: int
    V: int
    d: int
    r: int

    def __post_init__(self):
        for name, size in vars(self).items():
            if size < 1:
                raise ValueError(f"{name} = {size}: a size is at least 1")

    def of(self, axes: Axes) -> tuple[int, int]:
        return getattr(self, axes[0]), getattr(self, axes[1])


class Factor(NamedTuple):
    """One letter of a product, perhaps transposed."""

    name: str
    transposed: bool = False

    def __str__(self) -> str:
        return self.name + ".T" * self.transposed

    @property
    def T(self) -> "Factor":
        return Factor(self.name, not self.transposed)


MATRICES: dict[str, dict[Convention, Axes]] = {
    "t": {"ours": ("n", "V"), "paper": ("n", "V")},
    "x": {"ours": ("n", "d"), "paper": ("d", "n")},
    "A": {"ours": ("n", "n"), "paper": ("n", "n")},
    "W_E": {"ours": ("V", "d"), "paper": ("d", "V")},
    "W_U": {"ours": ("d", "V"), "paper": ("V", "d")},
    "W_pos": {"ours": ("n", "d"), "paper": ("d", "n")},
    "W_Q": {"ours": ("d", "r"), "paper": ("r", "d")},
    "W_K": {"ours": ("d", "r"), "paper": ("r", "d")},
    "W_V": {"ours": ("d", "r"), "paper": ("r", "d")},
    "W_O": {"ours": ("r", "d"), "paper": ("d", "r")},
}
"""What may stand in a product: the axes of each matrix, rows first."""

SHORT: dict[str, dict[Convention, str]] = {
    "W_QK": {"ours": "W_Q @ W_K.T", "paper": "W_Q.T @ W_K"},
    "W_OV": {"ours": "W_V @ W_O", "paper": "W_O @ W_V"},
}
"""Names for a product of two of them; the checker spells them out."""


class Row(NamedTuple):
    """One line of the table of conventions; a product is written as one would type it."""

    name: str
    meaning: str
    paper: str
    ours: str
    relation: str


TABLE = (
    Row("tokens", "one-hot, a row a position", "t", "t", "same"),
    Row("stream", "the residual stream", "x", "x", "transposed"),
    Row("W_E", "embedding", "W_E", "W_E", "transposed"),
    Row("W_pos", "position embedding", "W_pos", "W_pos", "transposed"),
    Row("W_U", "unembedding", "W_U", "W_U", "transposed"),
    Row("W_Q", "stream to query, one head", "W_Q", "W_Q", "transposed"),
    Row("W_K", "stream to key, one head", "W_K", "W_K", "transposed"),
    Row("W_V", "stream to value, one head", "W_V", "W_V", "transposed"),
    Row("W_O", "value back to the stream", "W_O", "W_O", "transposed"),
    Row("pattern", "attention, rows = destination", "A", "A", "same"),
    Row("QK matrix", "scores a pair of stream vectors", "W_Q.T @ W_K", "W_Q @ W_K.T", "same"),
    Row("OV matrix", "moves a stream vector", "W_O @ W_V", "W_V @ W_O", "transposed"),
    Row("scores", "before mask, softmax and 1/√r", "x.T @ W_Q.T @ W_K @ x", "x @ W_Q @ W_K.T @ x.T", "same"),
    Row("head output", "what a head adds to the stream", "W_O @ W_V @ x @ A.T", "A @ x @ W_V @ W_O", "transposed"),
    Row("logits", "of the final stream", "W_U @ x", "x @ W_U", "transposed"),
    Row("direct path", "token to next token, no layer", "W_U @ W_E", "W_E @ W_U", "transposed"),
    Row("QK circuit", "[query token, key token]", "W_E.T @ W_Q.T @ W_K @ W_E", "W_E @ W_Q @ W_K.T @ W_E.T", "same"),
    Row("OV circuit", "source token to output token", "W_U @ W_O @ W_V @ W_E", "W_E @ W_V @ W_O @ W_U", "transposed"),
    Row(
        "position QK", "[query position, key position]",
        "W_pos.T @ W_Q.T @ W_K @ W_pos", "W_pos @ W_Q @ W_K.T @ W_pos.T", "same",
    ),
)  # fmt: skip
"""Every object of the app in both conventions; "transposed" means: ours is the transpose of the paper's."""


def parse(expression: str) -> tuple[Factor, ...]:
    """Read a product such as ``W_E @ W_Q @ W_K.T``; ``ᵀ`` and ``^T`` transpose too, ``·`` and spaces multiply.

    Raises:
        ValueError: nothing was typed, or a piece is none of :data:`MATRICES` or :data:`SHORT`.
    """
    pieces = [piece for piece in re.split(r"[@·*×\s]+", expression) if piece]
    if not pieces:
        raise ValueError("type a product, such as W_Q @ W_K.T")
    return tuple(map(_factor, pieces))


def _factor(piece: str) -> Factor:
    name, transposed = re.fullmatch(r"(.*?)(\.T|ᵀ|\^T|\^\{T\})?", piece, re.DOTALL).groups()
    known = (*MATRICES, *SHORT)
    if name not in known:
        raise ValueError(f"{piece!r} is no matrix of this table: use {', '.join(known)}, each with .T if you like")
    return Factor(name, transposed is not None)


def spelled_out(factors: tuple[Factor, ...], convention: Convention) -> tuple[Factor, ...]:
    """Return the product with ``W_QK`` and ``W_OV`` written as the two matrices that they are."""
    spelled: tuple[Factor, ...] = ()
    for factor in factors:
        whole = parse(SHORT[factor.name][convention]) if factor.name in SHORT else (factor._replace(transposed=False),)
        spelled += transpose(whole) if factor.transposed else whole
    return spelled


def axes(factor: Factor, convention: Convention) -> Axes:
    """Return the axes of one factor, rows first."""
    rows, columns = MATRICES[factor.name][convention]
    return (columns, rows) if factor.transposed else (rows, columns)


def transpose(factors: tuple[Factor, ...]) -> tuple[Factor, ...]:
    """``(A B)ᵀ = Bᵀ Aᵀ``."""
    return tuple(factor.T for factor in reversed(factors))


@dataclass(frozen=True)
class Product:
    """What a product of shapes gives: its axes if the shapes allow it, and what the matrix is."""

    factors: tuple[Factor, ...]
    axes: Axes | None
    mismatch: str
    verdict: str
    silent: bool
    """The shapes fit, and still it is not what it looks like."""


def check(expression: str, convention: Convention, sizes: Sizes) -> Product:
    """Multiply the shapes of ``expression`` and say what the result is.

    Raises:
        ValueError: the expression cannot be read.
    """
    factors = spelled_out(parse(expression), convention)
    shapes = [axes(factor, convention) for factor in factors]
    accident = ""
    for left, right, (_, inner), (outer, _) in zip(factors, factors[1:], shapes, shapes[1:], strict=False):
        size, other = getattr(sizes, inner), getattr(sizes, outer)
        if size != other:
            mismatch = f"{left} ends in {inner} = {size}, {right} begins with {outer} = {other}"
            return Product(factors, None, mismatch, f"Not allowed: {mismatch}.", silent=False)
        if inner != outer:
            accident = f"{inner} and {outer} only happen to be equal here ({size}): with other sizes this fails."
    verdict, silent = _meaning(factors, convention)
    result = (shapes[0][0], shapes[-1][1])
    return Product(factors, result, "", accident or verdict, silent=silent or bool(accident))


def _meaning(factors: tuple[Factor, ...], convention: Convention) -> tuple[str, bool]:
    """Say what an allowed product is, and whether it only looks like something it is not."""
    other: Convention = "paper" if convention == "ours" else "ours"
    known, foreign = _known(convention), _known(other)
    if factors in known:
        return f"This is the {known[factors]}.", False
    if transpose(factors) in known:
        return f"This is the transpose of the {known[transpose(factors)]}: its two sides have changed places.", True
    if factors in foreign:
        return f"Not the {foreign[factors]}, though it is written like it in the other convention.", True
    return "Allowed, but none of the objects in the table.", False


def _known(convention: Convention) -> dict[tuple[Factor, ...], str]:
    return {parse(getattr(row, convention)): row.name for row in TABLE}


class ShapeRow(NamedTuple):
    """One line of the table with its shapes in numbers; the paper's shape is ours turned round, or the same."""

    row: Row
    ours: tuple[int, int]
    paper: tuple[int, int]


def shapes(sizes: Sizes) -> list[ShapeRow]:
    """Return every object of the table with the shape it has in both conventions."""
    return [
        ShapeRow(
            row,
            sizes.of(check(row.ours, "ours", sizes).axes),
            sizes.of(check(row.paper, "paper", sizes).axes),
        )
        for row in TABLE
    ]


def matrices(weights: Weights, run: Run, head: Head, n_tokens: int = 32) -> dict[str, Tensor]:
    """Return the matrices of :data:`MATRICES` for one head and one prompt, in our shapes, float64.

    Of the vocabulary only the first ``n_tokens`` are taken: the relations hold token by token.
    """
    n = len(run.tokens)
    named = {
        "t": torch.nn.functional.one_hot(run.tokens % n_tokens, n_tokens),
        "x": run.resid_pre[head.layer],
        "A": run.pattern[head],
        "W_E": weights.W_E[:n_tokens],
        "W_U": weights.W_U[:, :n_tokens],
        "W_pos": weights.W_pos[:n],
    } | {name: getattr(weights, name)[head] for name in ("W_Q", "W_K", "W_V", "W_O")}
    return {name: matrix.double() for name, matrix in named.items()}


def as_in_paper(ours: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the same matrices in the paper's orientation."""
    turned = {name for name, axes in MATRICES.items() if axes["ours"] != axes["paper"]}
    return {name: matrix.T if name in turned else matrix for name, matrix in ours.items()}


def multiply(expression: str, named: dict[str, Tensor]) -> Float[Tensor, "rows columns"]:
    """Return the product that ``expression`` writes, of the given matrices."""
    factors = [named[factor.name].T if factor.transposed else named[factor.name] for factor in parse(expression)]
    return reduce(torch.matmul, factors)


def disagreement(row: Row, ours: dict[str, Tensor]) -> float:
    """Return the largest difference between our product and the paper's, related as ``row.relation`` says."""
    paper = multiply(row.paper, as_in_paper(ours))
    return (multiply(row.ours, ours) - (paper if row.relation == "same" else paper.T)).abs().max().item()
