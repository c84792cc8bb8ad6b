"""Counting and absolute discounting against the definition, pair by pair."""

import itertools

import pytest
import torch

from circuits import counts

D_VOCAB = 9
EXACT = 1e-12  # float64 sums of a few dozen terms


@pytest.fixture(scope="module")
def ids() -> torch.Tensor:
    ids = torch.randint(0, D_VOCAB - 1, (400,), generator=torch.Generator().manual_seed(0))  # token 8 never occurs
    ids[ids == 5] = torch.where(torch.arange(400)[ids == 5] < 200, 5, 4)
    return ids


@pytest.fixture(scope="module")
def table(ids) -> counts.BigramCounts:
    return counts.bigram_counts(ids, D_VOCAB)


def brute_force(ids: torch.Tensor) -> torch.Tensor:
    """Pair by pair; row 0 is how often each token occurs, and no pair crosses a seam."""
    dense = torch.zeros(D_VOCAB, D_VOCAB, dtype=torch.long)
    tokens = ids.tolist()
    for present, following in itertools.pairwise(tokens):
        if present and following:
            dense[present, following] += 1
    for token in tokens:
        dense[0, token] += token != 0
    return dense


def test_table_is_the_brute_force_count(ids, table):
    dense = brute_force(ids)
    assert torch.equal(table.dense(), dense)
    assert torch.equal(torch.stack([table.row(token) for token in range(D_VOCAB)]), dense)
    present, following = torch.meshgrid(torch.arange(D_VOCAB), torch.arange(D_VOCAB), indexing="ij")
    assert torch.equal(table.of(present, following), dense)
    assert torch.equal(table.unigrams, counts.unigram_counts(ids, D_VOCAB))
    assert table.n_tokens == int((ids != 0).sum())


def test_uint16_ids_are_counted(ids, table):
    assert torch.equal(counts.bigram_counts(ids.to(torch.uint16), D_VOCAB).counts, table.counts)


def test_discounted_rows_are_the_formula(ids, table):
    dense, discount = brute_force(ids).double(), 0.75
    unigram = dense[0]
    p1 = (unigram - discount).clamp_min(0) / unigram.sum()
    p1 = p1 + discount * (unigram > 0).sum() / unigram.sum() / D_VOCAB
    for present in range(D_VOCAB):
        row = dense[present]
        expected = p1
        if row.sum():
            expected = (row - discount).clamp_min(0) / row.sum() + discount * (row > 0).sum() / row.sum() * p1
        torch.testing.assert_close(counts.absolute_discount_rows(table, present), expected, rtol=0, atol=EXACT)


def test_every_discounted_row_is_a_distribution(table):
    rows = counts.absolute_discount_rows(table, torch.arange(D_VOCAB))
    assert rows.shape == (D_VOCAB, D_VOCAB)
    assert (rows > 0).all()
    torch.testing.assert_close(rows.sum(-1), torch.ones(D_VOCAB, dtype=torch.float64), rtol=0, atol=EXACT)


def test_unseen_token_has_the_unigram_row(table):
    unseen = counts.absolute_discount_rows(table, 8)
    torch.testing.assert_close(unseen, counts.unigram_probs(table), rtol=0, atol=EXACT)


def test_losses_are_means_over_pairs(table):
    windows = torch.randint(1, D_VOCAB, (3, 7), generator=torch.Generator().manual_seed(1))
    windows[:, 0] = 0
    losses, unigram = [], []
    for window in windows:
        for present, following in itertools.pairwise(window):
            losses.append(-counts.absolute_discount_rows(table, int(present))[following].log())
            unigram.append(-counts.unigram_probs(table)[following].log())
    assert counts.absolute_discount_loss(table, windows) == pytest.approx(torch.stack(losses).mean().item(), abs=EXACT)
    assert counts.unigram_loss(table, windows) == pytest.approx(torch.stack(unigram).mean().item(), abs=EXACT)


def test_stored_table_is_read_back(table, tmp_path):
    table.save(tmp_path / "corpus" / "bigrams.npz")
    stored = counts.BigramCounts.load(tmp_path)
    assert torch.equal(stored.pairs, table.pairs)
    assert torch.equal(stored.counts, table.counts)
    assert stored.d_vocab == table.d_vocab


@pytest.mark.parametrize("content", [None, b"", b"PK\x03\x04 half a file"])
def test_missing_or_damaged_table_names_file_and_command(tmp_path, content):
    path = tmp_path / "corpus" / "bigrams.npz"
    path.parent.mkdir()
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ValueError, match=r"bigrams\.npz.*git checkout -- assets/corpus/bigrams\.npz"):
        counts.BigramCounts.load(tmp_path)


@pytest.mark.parametrize("present", [-1, D_VOCAB])
def test_no_token_no_row(table, present):
    with pytest.raises(ValueError, match=str(present)):
        table.row(present)


def test_the_shipped_table():
    table = counts.BigramCounts.load()
    assert table.d_vocab == 4096
    assert table.n_tokens > 15_000_000
    # Rows of tokens sum to the unigrams, but for the last token of each of the 95 books.
    rows = table.counts[table.pairs >= table.d_vocab].sum()
    assert table.n_tokens - rows == 95
