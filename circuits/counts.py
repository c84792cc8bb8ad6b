"""What counting alone predicts: unigrams, bigrams, and bigrams smoothed by absolute discounting.

A zero-layer transformer can do no better than the bigram table of its corpus, so the table is the thing to
hold it against.  BOS (token 0) is a row of the table too: a window of text may begin anywhere, so what follows
BOS is the unigram distribution, and row 0 *is* the unigram counts.
"""

import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int, Integer
from torch import Tensor

ASSETS = Path(__file__).resolve().parent.parent / "assets"
DISCOUNT = 0.75
"""The count taken from every pair that was seen, to be spread over those that were not."""

RESTORE = "git checkout -- assets/corpus/bigrams.npz   (or: python -m circuits.training corpus --corpus DIR)"


def unigram_counts(ids: Integer[Tensor, "token"], d_vocab: int) -> Int[Tensor, "d_vocab"]:
    """Count every token of a text; BOS (the seams between files) counts as none."""
    counts = torch.bincount(ids.long(), minlength=d_vocab)
    counts[0] = 0
    return counts


@dataclass(frozen=True)
class BigramCounts:
    """A sparse table of pair counts, sorted by ``present · d_vocab + next``; row 0 (BOS) is the unigram counts."""

    pairs: Int[Tensor, "pair"]
    counts: Int[Tensor, "pair"]
    d_vocab: int

    @classmethod
    def load(cls, assets: Path = ASSETS) -> "BigramCounts":
        """Read the table of the training corpus, ``assets/corpus/bigrams.npz``.

        Raises:
            ValueError: the file is missing or damaged; the message says which and how to restore it.
        """
        path = Path(assets) / "corpus" / "bigrams.npz"
        try:
            with np.load(path) as stored:
                lengths, columns = stored["lengths"].astype(np.int64), stored["columns"].astype(np.int64)
                counts = stored["counts"].astype(np.int64)
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            raise ValueError(f"{path} is missing or damaged ({error}). Restore it: {RESTORE}") from error
        pairs = np.repeat(np.arange(len(lengths)), lengths) * len(lengths) + columns
        return cls(torch.from_numpy(pairs), torch.from_numpy(counts), len(lengths))

    def save(self, path: Path) -> None:
        """Write the table as compressed rows: how many entries each has, their columns, their counts."""
        lengths = torch.bincount(self.pairs // self.d_vocab, minlength=self.d_vocab).numpy()
        columns, counts = (self.pairs % self.d_vocab).numpy(), self.counts.numpy()
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(
            path, lengths=lengths.astype(np.uint16), columns=columns.astype(np.uint16), counts=counts.astype(np.uint32)
        )

    @property
    def unigrams(self) -> Int[Tensor, "d_vocab"]:
        """How often each token occurs: row 0."""
        return self.row(0)

    @property
    def n_tokens(self) -> int:
        return int(self.unigrams.sum())

    def row(self, present: int) -> Int[Tensor, "d_vocab"]:
        """Return how often each token follows ``present``.

        Raises:
            ValueError: ``present`` is no token.
        """
        if not 0 <= present < self.d_vocab:
            raise ValueError(f"{present} is no token: ids run from 0 to {self.d_vocab - 1}")
        ends = torch.tensor([present, present + 1]) * self.d_vocab
        first, last = torch.searchsorted(self.pairs, ends).tolist()
        dense = torch.zeros(self.d_vocab, dtype=torch.long)
        dense[self.pairs[first:last] % self.d_vocab] = self.counts[first:last]
        return dense

    def of(self, present: Int[Tensor, "*#n"], following: Int[Tensor, "*#n"]) -> Int[Tensor, "*n"]:
        """Return the counts of many pairs at once; 0 where a pair never occurred."""
        wanted = present * self.d_vocab + following
        at = torch.searchsorted(self.pairs, wanted).clamp_max(len(self.pairs) - 1)
        return torch.where(self.pairs[at] == wanted, self.counts[at], 0)

    def dense(self) -> Int[Tensor, "d_vocab d_vocab"]:
        """Return the whole table, for training: 128 MB at 4,096 tokens."""
        table = torch.zeros(self.d_vocab**2, dtype=torch.long)
        table[self.pairs] = self.counts
        return table.unflatten(0, (self.d_vocab, self.d_vocab))


def bigram_counts(ids: Integer[Tensor, "token"], d_vocab: int) -> BigramCounts:
    """Count adjacent pairs of a text; pairs across a seam (BOS inside ``ids``) are left out."""
    ids = ids.long()
    present, following = ids[:-1], ids[1:]
    inside = (present != 0) & (following != 0)
    pairs, counts = torch.unique(present[inside] * d_vocab + following[inside], return_counts=True)
    unigrams = unigram_counts(ids, d_vocab)
    seen = unigrams.nonzero().flatten()
    return BigramCounts(torch.cat([seen, pairs]), torch.cat([unigrams[seen], counts]), d_vocab)


def unigram_probs(table: BigramCounts, discount: float = DISCOUNT) -> Float[Tensor, "d_vocab"]:
    """Return discounted unigram probabilities, float64: what is taken off is spread evenly over all tokens.

    .. math:: p(t) = \\frac{\\max(c_t - D, 0)}{N} + \\frac{D\\,|\\{t : c_t > 0\\}|}{N} \\cdot \\frac{1}{V}
    """
    counts = table.unigrams.double()
    spare = discount * (counts > 0).sum() / counts.sum()
    return (counts - discount).clamp_min(0) / counts.sum() + spare / table.d_vocab


def absolute_discount_rows(
    table: BigramCounts, present: int | Int[Tensor, "row"], discount: float = DISCOUNT
) -> Float[Tensor, "*row d_vocab"]:
    """Return ``p(next | present)`` by absolute discounting, for one token ([V]) or several ([row, V]); float64.

    .. math:: p(b \\mid a) = \\frac{\\max(c_{ab} - D, 0)}{c_a} + \\frac{D\\,|\\{b : c_{ab} > 0\\}|}{c_a}\\, p(b)

    A token that was never followed by anything has the unigram row.  Source: Ney, Essen and Kneser (1994),
    interpolated form.
    """
    rows = torch.stack([table.row(int(token)) for token in torch.as_tensor(present).reshape(-1)]).double()
    total = rows.sum(-1, keepdim=True)
    spare = torch.where(total > 0, discount * (rows > 0).sum(-1, keepdim=True), 1.0)
    probs = ((rows - discount).clamp_min(0) + spare * unigram_probs(table, discount)) / total.clamp_min(1)
    return probs.reshape(*torch.as_tensor(present).shape, table.d_vocab)


def absolute_discount_loss(
    table: BigramCounts, windows: Int[Tensor, "window pos"], discount: float = DISCOUNT
) -> float:
    """Return the loss of the smoothed bigram table on windows of text, in nats per predicted token.

    The probabilities of :func:`absolute_discount_rows`, read pair by pair so that no row is built.
    """
    present, following = windows[:, :-1].flatten(), windows[:, 1:].flatten()
    of_row = table.pairs // table.d_vocab
    totals = torch.zeros(table.d_vocab, dtype=torch.long).index_add_(0, of_row, table.counts)[present]
    spare = discount * torch.bincount(of_row, minlength=table.d_vocab)[present].double()
    spare = torch.where(totals > 0, spare, 1.0)
    seen = (table.of(present, following) - discount).clamp_min(0)
    probs = (seen + spare * unigram_probs(table, discount)[following]) / totals.clamp_min(1)
    return -probs.log().mean().item()


def unigram_loss(table: BigramCounts, windows: Int[Tensor, "window pos"], discount: float = DISCOUNT) -> float:
    """Return the loss of the unigram probabilities on windows of text, in nats per predicted token."""
    return -unigram_probs(table, discount).log()[windows[:, 1:]].mean().item()
