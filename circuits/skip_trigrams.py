"""Skip-trigrams: the tables that a one-layer attention-only model is.

A head that sits at a *destination* token and looks back at a *source* token raises an *output* token:
``source … destination → out``.  Each head holds two tables with the source in common,

* QK[source, destination]: the score, centred over keys for each destination and divided by √d_head;
* OV[source, out]: the logits added where the source is fully attended.

Centred, because adding any function of the destination alone to the scores changes no pattern.  Only the
token–token part is ranked: with positions in the stream the score has three more parts
(:func:`circuits.heads.score_split`).

A ranking over all ``d_vocab³`` triples never needs more than a few rows of a table at once.  The k largest
entries of a matrix lie in the k rows with the largest maxima: one blocked pass finds the maxima, and only
those rows are then looked into.  Elhage et al. 2021, "Interpretation as skip-trigrams".
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformer_lens import FactoredMatrix

from circuits.counts import BigramCounts
from circuits.heads import centred_qk_circuit, ov_circuit, row, summed_ov_circuit
from circuits.weights import Head, Run, Weights

BY = ("qk", "ov", "product")
"""What a ranking may be by; ``product`` means QK · OV where both are positive."""

BLOCK_ENTRIES = 1 << 22
"""Entries of a vocabulary table that exist at once: 16 MB in float32."""


@dataclass(frozen=True)
class Tables:
    """A head's two tables, factored, rows = source in both."""

    qk: FactoredMatrix
    ov: FactoredMatrix

    @classmethod
    def of(cls, weights: Weights, head: Head, ov_heads: Iterable[Head] | None = None) -> "Tables":
        """Return the tables of one head; with ``ov_heads``, OV is the sum over those heads.

        QK stays one head's: a softmax stands between the scores of two heads, so they do not add.  The sum
        of OV is what the heads would say together if all of them looked at the same source.
        """
        ov = ov_circuit(weights, head) if ov_heads is None else summed_ov_circuit(weights, ov_heads)
        return cls(qk=centred_qk_circuit(weights, head).T, ov=ov)


class Ranking(NamedTuple):
    """Skip-trigrams in order, best first; one entry of every field per trigram."""

    source: Int[Tensor, "k"]
    destination: Int[Tensor, "k"]
    out: Int[Tensor, "k"]
    qk: Float[Tensor, "k"]
    ov: Float[Tensor, "k"]


@torch.inference_mode()
def rank(
    tables: Tables,
    source: int | None = None,
    destination: int | None = None,
    out: int | None = None,
    by: str = "product",
    k: int = 20,
    among: Int[Tensor, "token"] | None = None,
) -> Ranking:
    """Rank the skip-trigrams that agree with the tokens given, over the whole vocabulary or ``among`` some.

    By ``product`` all free triples compete.  By ``qk`` the (source, destination) pairs compete and each is
    shown with its best output; by ``ov`` the (source, out) pairs, each with its best destination.  Where only
    one table can vary, that one is ranked.  Fewer than ``k`` come back where fewer exist.

    Raises:
        ValueError: a token outside the vocabulary, or an unknown ``by``.
    """
    by = _the_table_that_varies(source, destination, out, by)
    to, said = (among if token is None else _one(token, tables) for token in (destination, out))
    every = torch.arange(tables.qk.A.shape[0]) if among is None else among
    sources = every if source is None else _one(source, tables)
    best_qk, best_ov = row_maxima(tables.qk, sources, to), row_maxima(tables.ov, sources, said)
    rows = sources[_top(_value(best_qk, best_ov, by), k)]
    destinations, qk = top_columns(tables.qk, rows, to, 1 if by == "ov" else k)
    outs, ov = top_columns(tables.ov, rows, said, 1 if by == "qk" else k)
    value = _value(qk.unsqueeze(2), ov.unsqueeze(1), by)
    r, d, o = torch.unravel_index(_top(value.flatten(), k), value.shape)
    return Ranking(rows[r], destinations[r, d], outs[r, o], qk[r, d], ov[r, o])


def _the_table_that_varies(source: int | None, destination: int | None, out: int | None, by: str) -> str:
    if by not in BY:
        raise ValueError(f"cannot rank by {by!r}: choose qk, ov or product")
    if source is None or by == "product":
        return by
    return "ov" if destination is not None else "qk" if out is not None else by


def _one(token: int, tables: Tables) -> Int[Tensor, "1"]:
    d_vocab = tables.ov.B.shape[1]
    if not 0 <= token < d_vocab:
        raise ValueError(f"token {token} is not in the vocabulary 0 … {d_vocab - 1}")
    return torch.tensor([token])


def _value(qk: Tensor, ov: Tensor, by: str) -> Tensor:
    """Return what is ranked; −∞ where a product would hide that a factor is not positive."""
    qk, ov = torch.broadcast_tensors(qk, ov)
    if by == "product":
        return torch.where((qk > 0) & (ov > 0), qk * ov, -torch.inf)
    return qk if by == "qk" else ov


def _top(values: Float[Tensor, "n"], k: int) -> Int[Tensor, "k"]:
    """Return where the k largest finite values stand, largest first."""
    top = values.topk(min(k, len(values)))
    return top.indices[top.values > -torch.inf]


# ── Blocks ───────────────────────────────────────────────────────────────────────────────────────────────


@torch.inference_mode()
def row_maxima(
    circuit: FactoredMatrix, rows: Int[Tensor, "row"], columns: Int[Tensor, "column"] | None = None
) -> Float[Tensor, "row"]:
    """Return the largest entry of each row, over all columns or the given ones, a block of rows at a time."""
    B = circuit.B if columns is None else circuit.B[:, columns]
    block = max(1, BLOCK_ENTRIES // B.shape[1])
    return torch.cat([(circuit.A[part] @ B).amax(-1) for part in rows.split(block)])


@torch.inference_mode()
def top_columns(
    circuit: FactoredMatrix, rows: Int[Tensor, "row"], columns: Int[Tensor, "column"] | None, k: int
) -> tuple[Int[Tensor, "row k"], Float[Tensor, "row k"]]:
    """Return the k largest entries of each given row, among the given columns."""
    entries = circuit.A[rows] @ (circuit.B if columns is None else circuit.B[:, columns])
    top = entries.topk(min(k, entries.shape[1]))
    return (top.indices if columns is None else columns[top.indices]), top.values


class Entries(NamedTuple):
    """Entries of a table, largest first."""

    rows: Int[Tensor, "k"]
    columns: Int[Tensor, "k"]
    values: Float[Tensor, "k"]


@torch.inference_mode()
def top_entries(circuit: FactoredMatrix, k: int = 50) -> Entries:
    """Return the k largest entries of a whole ``[d_vocab, d_vocab]`` circuit without ever holding it."""
    rows = _top(row_maxima(circuit, torch.arange(circuit.A.shape[0])), k)
    columns, values = top_columns(circuit, rows, None, k)
    best = _top(values.flatten(), k)
    return Entries(rows[best // values.shape[1]], columns.flatten()[best], values.flatten()[best])


# ── One trigram, all heads ───────────────────────────────────────────────────────────────────────────────


class ByHead(NamedTuple):
    """One skip-trigram in every head of layer 0."""

    heads: list[Head]
    qk: Float[Tensor, "head"]
    ov: Float[Tensor, "head"]
    raised_more: Int[Tensor, "head"]
    """How many other outputs the same source raises more: 0 is its favourite."""


@torch.inference_mode()
def by_head(weights: Weights, source: int, destination: int, out: int) -> ByHead:
    """Return the centred QK score and the OV logit of one skip-trigram in every layer-0 head."""
    heads = [head for head in weights.heads if head.layer == 0]
    x, y = weights.W_E[destination], weights.W_E[source]
    key = y - weights.W_E.mean(0)
    qk = (x @ weights.W_Q[0] * (key @ weights.W_K[0])).sum(-1) * weights.d_head**-0.5
    logits = ((y @ weights.W_V[0]).unsqueeze(1) @ weights.W_O[0] @ weights.W_U).squeeze(1)
    own = logits[:, out]
    return ByHead(heads, qk, own, (logits > own.unsqueeze(1)).sum(1))


class Active(NamedTuple):
    """What one layer-0 head does at one position of a text: where it looks most, and what that raises."""

    head: Head
    source: int
    """The position it looks at most."""
    attention: float
    outs: Int[Tensor, "k"]
    logits: Float[Tensor, "k"]
    """attention · OV of the source token, above the mean over all outputs (a constant changes no probability)."""


@torch.inference_mode()
def active(weights: Weights, run: Run, position: int, k: int = 5) -> list[Active]:
    """Read a text as skip-trigrams: for every layer-0 head the source it looks at most from ``position``."""
    found = []
    for head in (head for head in weights.heads if head.layer == 0):
        attention, source = run.pattern[head][position].max(0)
        raised = row(ov_circuit(weights, head), int(run.tokens[source]))
        top = (attention * (raised - raised.mean())).topk(k)
        found.append(Active(head, int(source), attention.item(), top.indices, top.values))
    return found


# ── Held against the corpus, and against the definition ─────────────────────────────────────────────────


class Support(NamedTuple):
    """What the corpus's own pairs say about ``destination → out``, whatever the source."""

    pairs: Int[Tensor, "k"]
    """How often the pair occurs."""
    share: Float[Tensor, "k"]
    """p(out | destination) by counting."""
    lift: Float[Tensor, "k"]
    """That share over the share of ``out`` among all tokens: above 1, the destination attracts it."""


def support(ranking: Ranking, counts: BigramCounts) -> Support:
    """Look up the pair counts that stand behind a ranking; a token the corpus never has counts as 0."""
    pairs, unigrams = counts.of(ranking.destination, ranking.out), counts.unigrams.double()
    share = pairs / unigrams[ranking.destination].clamp_min(1)
    lift = share * counts.n_tokens / unigrams[ranking.out].clamp_min(1)
    return Support(pairs, share, lift)


@torch.inference_mode()
def definition_error(weights: Weights, head: Head, ranking: Ranking) -> float:
    """Return how far the listed QK scores are from their definition, in float64, one trigram at a time."""
    query = weights.W_E[ranking.destination].double() @ weights.W_Q[head].double()
    key = (weights.W_E[ranking.source].double() - weights.W_E.double().mean(0)) @ weights.W_K[head].double()
    error = (query * key).sum(-1) * weights.d_head**-0.5 - ranking.qk
    return error.abs().max().item() if len(error) else 0.0
