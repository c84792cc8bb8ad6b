"""Zero-layer tables against brute force: every number recomputed from the dense d_vocab × d_vocab product."""

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from circuits import bigrams
from circuits.counts import BigramCounts, bigram_counts, unigram_probs
from circuits.weights import Weights

EXACT = 1e-12
"""float64, sums of a few hundred terms of order 1."""

D_VOCAB, D_MODEL = 40, 6


def zero_layer(seed: int = 0, W_E=None, W_U=None) -> Weights:
    generator = torch.Generator().manual_seed(seed)
    W_E = torch.randn(D_VOCAB, D_MODEL, dtype=torch.double, generator=generator) if W_E is None else W_E
    W_U = torch.randn(D_MODEL, D_VOCAB, dtype=torch.double, generator=generator) if W_U is None else W_U
    none = torch.zeros(0, 1, W_E.shape[1], 1, dtype=torch.double)
    return Weights(W_E, torch.zeros(8, W_E.shape[1], dtype=torch.double), none, none, none, none.transpose(-1, -2), W_U)


@pytest.fixture
def weights() -> Weights:
    return zero_layer()


@pytest.fixture
def text() -> torch.Tensor:
    ids = torch.randint(1, D_VOCAB - 3, (900,), generator=torch.Generator().manual_seed(1))
    ids[::100] = 0  # seams between files
    return ids


@pytest.fixture
def table(text) -> BigramCounts:
    return bigram_counts(text, D_VOCAB)


def test_direct_logits_are_rows_of_the_product(weights):
    present = torch.tensor([[3, 5], [5, 0]])
    torch.testing.assert_close(bigrams.direct_logits(weights, present), (weights.W_E @ weights.W_U)[present])


def test_following_probs_are_relative_frequencies(table, text):
    present = int(text[1])
    pairs = [(int(a), int(b)) for a, b in itertools.pairwise(text) if int(a) == present and int(b)]
    probs = bigrams.following_probs(table, present)
    assert probs[pairs[0][1]] == pytest.approx(pairs.count(pairs[0]) / len(pairs), abs=EXACT)
    assert probs.sum() == pytest.approx(1, abs=EXACT)


def test_a_token_that_nothing_follows_has_no_distribution(table):
    with pytest.raises(ValueError, match=str(D_VOCAB - 1)):
        bigrams.following_probs(table, D_VOCAB - 1)


def test_kl_of_two_known_distributions():
    p, q = torch.tensor([0.5, 0.5, 0.0]).double(), torch.tensor([0.25, 0.25, 0.5]).double()
    assert bigrams.kl(p, q.log()).item() == pytest.approx(torch.tensor(2.0).log().item(), abs=1e-7)
    assert bigrams.kl(p, p.log()).item() == 0, "0 · log 0 is 0"


@given(st.integers(0, 2**20))
def test_kl_is_never_negative(seed):
    p, q = torch.randn(2, 12, dtype=torch.double, generator=torch.Generator().manual_seed(seed)).softmax(-1)
    assert bigrams.kl(p, q.log()) >= 0


def test_compare_row_holds_the_model_against_the_counts(weights, table, text):
    present = int(text[5])
    row = bigrams.compare_row(weights, table, present)
    counts = table.row(present)
    model = (weights.W_E @ weights.W_U)[present].softmax(-1)
    assert row.n == counts.sum()
    assert row.counts.tolist() == sorted(counts[counts > 0].tolist(), reverse=True)
    torch.testing.assert_close(row.counts, counts[row.following])
    torch.testing.assert_close(row.model, model[row.following])
    assert row.unseen_mass == pytest.approx(1 - row.model.sum().item(), abs=EXACT)
    assert row.kl == pytest.approx((row.corpus * (row.corpus / row.model).log()).sum().item(), abs=EXACT)


def test_fit_is_the_loss_on_every_pair(weights, table, text, monkeypatch):
    monkeypatch.setattr(bigrams, "ROWS_AT_ONCE", 7)  # blocks must not show
    present, following = text[:-1], text[1:]
    inside = (present != 0) & (following != 0)
    loss = torch.nn.functional.cross_entropy((weights.W_E @ weights.W_U)[present[inside]], following[inside])
    fit = bigrams.fit(weights, table)
    assert fit.cross_entropy == pytest.approx(loss.item(), abs=EXACT)
    rows = [bigrams.compare_row(weights, table, a) for a in range(1, D_VOCAB) if table.row(a).sum()]
    mean = sum(row.n * row.kl for row in rows) / sum(row.n for row in rows)
    assert fit.kl == pytest.approx(mean, abs=EXACT), "count-weighted mean of the rows' KL"


def test_no_table_is_better_than_the_counts_themselves(table):
    """Log-counts as logits reach the conditional entropy; the identity embedding makes them a zero-layer model."""
    smoothed = table.dense().double().clamp_min(1e-300).log()
    perfect = zero_layer(W_E=torch.eye(D_VOCAB, dtype=torch.double), W_U=smoothed)
    fit = bigrams.fit(perfect, table)
    assert fit.cross_entropy == pytest.approx(fit.entropy, abs=EXACT)
    assert bigrams.fit(zero_layer(3), table).kl > 0


def test_unigram_fit_is_that_of_a_table_whose_rows_are_alike(table):
    alike = zero_layer(W_E=torch.ones(D_VOCAB, 1).double(), W_U=unigram_probs(table).log()[None])
    assert bigrams.unigram_fit(table).cross_entropy == pytest.approx(bigrams.fit(alike, table).cross_entropy, abs=EXACT)
    assert bigrams.unigram_fit(table).kl > 0


def test_direct_loss_is_the_mean_over_predicted_tokens(weights):
    windows = torch.randint(0, D_VOCAB, (5, 9), generator=torch.Generator().manual_seed(2))
    logits = (weights.W_E @ weights.W_U)[windows[:, :-1]]
    expected = torch.nn.functional.cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten())
    assert bigrams.direct_loss(weights, windows) == pytest.approx(expected.item(), abs=EXACT)


def test_singular_values_are_those_of_the_dense_product(weights):
    dense = torch.linalg.svdvals(weights.W_E @ weights.W_U)
    torch.testing.assert_close(bigrams.singular_values(weights), dense[:D_MODEL])
    assert dense[D_MODEL:].max() < EXACT * dense[0]


def test_rank_is_at_most_d_model_and_sees_what_is_missing(weights):
    assert bigrams.rank(weights) == D_MODEL == torch.linalg.matrix_rank(weights.W_E @ weights.W_U)
    W_U = weights.W_U.clone()
    W_U[0] = W_U[1] + W_U[2]
    assert bigrams.rank(zero_layer(W_U=W_U)) == D_MODEL - 1


def test_a_row_constant_changes_no_probability(weights):
    logits = bigrams.direct_logits(weights, torch.arange(D_VOCAB))
    assert 0 <= bigrams.shift_error(logits, 5.0) < EXACT
    assert bigrams.shift_error(logits.float(), 1e6) > 1e-3, "float32 has no room for the differences beside a million"


def test_antisymmetric_share_is_that_of_the_dense_product(weights):
    centre = torch.eye(D_VOCAB, dtype=torch.double) - 1 / D_VOCAB
    M = centre @ weights.W_E @ weights.W_U @ centre
    dense = ((M - M.T) / 2).square().sum() / M.square().sum()
    assert bigrams.antisymmetric_share(weights) == pytest.approx(dense.item(), abs=EXACT)


def test_tied_embeddings_are_symmetric_and_row_constants_do_not_count(weights):
    assert bigrams.antisymmetric_share(zero_layer(W_U=weights.W_E.T)) == pytest.approx(0, abs=EXACT)
    shifted = zero_layer(W_U=weights.W_U + torch.randn(D_MODEL, 1, dtype=torch.double))
    assert bigrams.antisymmetric_share(shifted) == pytest.approx(bigrams.antisymmetric_share(weights), abs=EXACT)


def test_order_matters_between_a_palindrome_and_a_cycle():
    there_and_back = torch.tensor([1, 2, 3, 2, 1, 2, 3, 2, 1])
    assert bigrams.order_matters(bigram_counts(there_and_back, 4)) == 0
    assert bigrams.order_matters(bigram_counts(torch.tensor([1, 2, 3] * 5), 4)) == 0.5


def test_predicts_itself_counts_own_maxima(weights):
    dense = weights.W_E @ weights.W_U
    own = (dense.argmax(1) == torch.arange(D_VOCAB)).double().mean().item()
    assert bigrams.predicts_itself(weights) == pytest.approx(own, abs=EXACT)
    undone = zero_layer(W_E=torch.eye(D_VOCAB, dtype=torch.double), W_U=torch.eye(D_VOCAB, dtype=torch.double))
    assert bigrams.predicts_itself(undone) == 1
