"""Rankings over the vocabulary against every triple of a small one, and the promise to stay small."""

import itertools

import pytest
import torch
from transformer_lens import FactoredMatrix

from circuits import skip_trigrams
from circuits.counts import BigramCounts
from circuits.heads import Head
from circuits.skip_trigrams import Tables, rank
from circuits.weights import forward
from tests.unit.small_model import HEAD, H, V, dense_ov, dense_qk, random_weights

EXACT = 1e-12
"""float64, sums of a few dozen products of order one."""


@pytest.fixture(scope="module")
def weights():
    return random_weights(layers=1)


@pytest.fixture(scope="module")
def dense(weights):
    """The two tables by definition, [source, destination] and [source, out]."""
    qk = dense_qk(weights)
    return (qk - qk.mean(1, keepdim=True)).T, dense_ov(weights)


@pytest.fixture(params=[1, 3 * V, 1 << 22])
def blocks(request, monkeypatch):
    """One row at a time, three, and all at once."""
    monkeypatch.setattr(skip_trigrams, "BLOCK_ENTRIES", request.param)


def test_tables_are_centred_qk_and_ov_with_the_source_first(weights, dense):
    tables = Tables.of(weights, HEAD)
    assert (tables.qk.AB - dense[0]).abs().max() < EXACT
    assert (tables.ov.AB - dense[1]).abs().max() < EXACT
    summed = Tables.of(weights, HEAD, [Head(0, h) for h in range(H)])
    assert (summed.qk.AB - dense[0]).abs().max() < EXACT
    assert (summed.ov.AB - sum(dense_ov(weights, Head(0, h)) for h in range(H))).abs().max() < 10 * EXACT


FIXED = [{}] + [
    dict(zip(names, values, strict=True))
    for size in (1, 2, 3)
    for names in itertools.combinations(("source", "destination", "out"), size)
    for values in [(5, 11, 23)[:size], (17, 2, 30)[:size]]
]


def brute_force(dense, by, fixed):
    """Every triple, by definition; for qk (ov) each pair with its best output (destination)."""
    qk, ov = dense
    if "source" in fixed and by != "product":
        by = "ov" if "destination" in fixed else "qk" if "out" in fixed else by
    axes = [[fixed[name]] if name in fixed else range(V) for name in ("source", "destination", "out")]
    triples = list(itertools.product(*axes))
    s, d, o = (torch.tensor(axis) for axis in zip(*triples, strict=True))
    f1, f2 = qk[s, d], ov[s, o]
    value = {"qk": f1, "ov": f2, "product": torch.where((f1 > 0) & (f2 > 0), f1 * f2, -torch.inf)}[by]
    keep = value > -torch.inf
    if by == "qk":
        keep &= f2 >= ov[:, list(axes[2])].amax(1)[s]
    if by == "ov":
        keep &= f1 >= qk[:, list(axes[1])].amax(1)[s]
    order = value.masked_fill(~keep, -torch.inf).argsort(descending=True)[: int(keep.sum())]
    return [triples[i] for i in order[:8].tolist()]


@pytest.mark.usefixtures("blocks")
@pytest.mark.parametrize("by", ["qk", "ov", "product"])
@pytest.mark.parametrize("fixed", FIXED, ids=str)
def test_rank_is_the_brute_force_over_all_triples(weights, dense, by, fixed):
    found = rank(Tables.of(weights, HEAD), **fixed, by=by, k=8)
    triples = list(zip(*(ids.tolist() for ids in found[:3]), strict=True))
    assert triples == brute_force(dense, by, fixed)
    assert (found.qk - dense[0][found.source, found.destination]).abs().sum() < EXACT
    assert (found.ov - dense[1][found.source, found.out]).abs().sum() < EXACT


@pytest.mark.parametrize("by", ["qk", "ov", "product"])
def test_rank_among_some_tokens_is_the_rank_of_the_smaller_tables(weights, by):
    tables, some = Tables.of(weights, HEAD), torch.tensor([3, 5, 11, 17, 23, 31])
    smaller = Tables(
        FactoredMatrix(tables.qk.A[some], tables.qk.B[:, some]), FactoredMatrix(tables.ov.A[some], tables.ov.B[:, some])
    )
    found, expected = rank(tables, by=by, k=9, among=some), rank(smaller, by=by, k=9)
    for role in ("source", "destination", "out"):
        assert getattr(found, role).tolist() == some[getattr(expected, role)].tolist()
    # A token that is fixed need not be among them.
    assert rank(tables, destination=0, by=by, among=some).destination.unique().tolist() == [0]


def test_active_reads_a_text_as_skip_trigrams(weights):
    run = forward(weights, torch.tensor([0, 7, 3, 7, 39, 3]))
    for found in skip_trigrams.active(weights, run, 4, k=3):
        pattern = run.pattern[found.head][4]
        assert found.source == pattern.argmax()
        assert found.attention == pytest.approx(pattern.max().item())
        raised = dense_ov(weights, found.head)[run.tokens[found.source]]
        row = pattern.max() * (raised - raised.mean())
        assert found.outs.tolist() == row.argsort(descending=True)[:3].tolist()
        assert (found.logits - row[found.outs]).abs().max() < EXACT


def test_products_are_never_of_two_negatives(weights, dense):
    source = 5
    destination, out = int(dense[0][source].argmin()), int(dense[1][source].argmin())
    assert dense[0][source, destination] < 0 > dense[1][source, out]
    assert len(rank(Tables.of(weights, HEAD), source, destination, out, by="product").qk) == 0
    assert len(rank(Tables.of(weights, HEAD), source, destination, out, by="qk").qk) == 1


def test_what_is_not_there_is_named(weights):
    tables = Tables.of(weights, HEAD)
    for name in ("source", "destination", "out"):
        for token in (-1, V):
            with pytest.raises(ValueError, match=f"token {token} "):
                rank(tables, **{name: token})
    with pytest.raises(ValueError, match="'loudness'"):
        rank(tables, by="loudness")


@pytest.mark.usefixtures("blocks")
def test_top_entries_of_the_whole_circuit(dense, weights):
    found = skip_trigrams.top_entries(Tables.of(weights, HEAD).ov, k=30)
    flat = dense[1].flatten().topk(30)
    assert (found.rows * V + found.columns).tolist() == flat.indices.tolist()
    assert (found.values - flat.values).abs().max() < EXACT


def test_k_largest_may_share_a_row():
    # All of the largest entries stand in one row: the rule "k rows with the largest maxima" must not lose them.
    M = torch.zeros(6, 6, dtype=torch.float64)
    M[2] = torch.arange(10, 16)
    M[4, 0] = 5
    found = skip_trigrams.top_entries(FactoredMatrix(M, torch.eye(6, dtype=torch.float64)), k=6)
    assert found.rows.tolist() == [2] * 6
    assert found.values.tolist() == [15, 14, 13, 12, 11, 10]


def test_no_product_is_ever_larger_than_a_block_or_the_rows_asked_for(weights, monkeypatch):
    monkeypatch.setattr(skip_trigrams, "BLOCK_ENTRIES", 2 * V)
    tables, k, largest = Tables.of(weights, HEAD), 3, 0
    matmul = torch.Tensor.__matmul__

    def watched(a, b):
        nonlocal largest
        result = matmul(a, b)
        largest = max(largest, result.numel())
        return result

    monkeypatch.setattr(torch.Tensor, "__matmul__", watched)
    rank(tables, k=k), rank(tables, source=4, k=k), skip_trigrams.top_entries(tables.ov, k)
    assert 0 < largest <= k * V < V * V


def test_one_trigram_in_every_head(weights):
    found = skip_trigrams.by_head(weights, 5, 11, 23)
    assert found.heads == [Head(0, h) for h in range(H)]
    for head, qk, ov, more in zip(*found, strict=True):
        raw = dense_qk(weights, head)
        assert abs(qk - (raw[11, 5] - raw[11].mean())) < EXACT
        assert abs(ov - dense_ov(weights, head)[5, 23]) < EXACT
        assert dense_ov(weights, head)[5].argsort(descending=True).tolist().index(23) == more


def test_support_counts_pairs(weights):
    ranking = rank(Tables.of(weights, HEAD), destination=3, by="ov", k=4)
    out = int(ranking.out[1])
    # Token 3 occurs 8 times, the second output 5 times among 40 tokens, and the pair twice.
    pairs = torch.tensor([3, out, 3 * V + out, 1])
    counts = torch.tensor([8, 5, 2, 27])
    order = pairs.argsort()
    found = skip_trigrams.support(ranking, BigramCounts(pairs[order], counts[order], V))
    assert found.pairs.tolist()[1] == 2
    assert found.share[1] == pytest.approx(2 / 8)
    assert found.lift[1] == pytest.approx((2 / 8) / (5 / 40))


def test_listed_scores_are_their_definition(weights):
    ranking = rank(Tables.of(weights, HEAD), source=5)
    assert skip_trigrams.definition_error(weights, HEAD, ranking) < EXACT
    assert skip_trigrams.definition_error(weights, HEAD, ranking._replace(qk=ranking.qk + 0.5)) == pytest.approx(0.5)
    assert skip_trigrams.definition_error(weights, HEAD, rank(Tables.of(weights, HEAD), 5, 5, 5)) < EXACT
