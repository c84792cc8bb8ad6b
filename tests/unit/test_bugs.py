"""Rank one, determinant zero, and the search for forced bad pairs against four nested loops."""

import pytest
import torch

from circuits import bugs
from circuits.counts import BigramCounts
from circuits.skip_trigrams import Tables
from circuits.weights import forward
from tests.unit.small_model import HEAD, V, dense_ov, dense_qk, random_weights

EXACT = 1e-12
"""float64, sums of a few dozen products of order one."""


@pytest.fixture(scope="module")
def weights():
    return random_weights(layers=1)


@pytest.fixture(scope="module")
def tables(weights):
    return Tables.of(weights, HEAD)


@pytest.fixture(scope="module")
def counts() -> BigramCounts:
    """A random corpus in which about half of all pairs occur, some often."""
    generator = torch.Generator().manual_seed(3)
    dense = torch.randint(-9, 10, (V, V), generator=generator).clamp_min(0)
    dense[0] = dense.sum(1)  # the row of BOS counts single tokens
    dense[0, 25:29] = 0  # never seen
    pairs = dense.flatten().nonzero().flatten()
    return BigramCounts(pairs, dense.flatten()[pairs], V)


def test_a_bug_is_four_products_of_two_tables(weights, tables):
    found = bugs.bug(tables, 5, (11, 2), (23, 30))
    qk = dense_qk(weights)
    f1 = qk[[11, 2], 5] - qk[[11, 2]].mean(1)
    f2 = dense_ov(weights)[5, [23, 30]]
    assert (found.table - torch.stack([f1[0] * f2, f1[1] * f2])).abs().max() < EXACT
    assert abs(found.interaction) < EXACT


def test_the_interaction_of_another_table_is_not_zero(weights):
    # Two heads together can tell the pairs apart: the determinant is able to be something else.
    first = bugs.bug(Tables.of(weights, HEAD), 5, (11, 2), (23, 30)).table
    second = bugs.bug(Tables.of(weights, HEAD._replace(head=0)), 5, (11, 2), (23, 30)).table
    assert abs(bugs.interaction(first + second)) > 0.01


def test_every_source_has_rank_one(weights):
    qk = dense_qk(weights)
    for source in range(0, V, 7):
        increments = torch.outer(qk[:, source] - qk.mean(1), dense_ov(weights)[source])
        assert torch.linalg.matrix_rank(increments) == 1


def test_softmax_keeps_the_rank(weights, tables):
    found = bugs.bug(tables, 5, (11, 2), (23, 30))
    effect = bugs.on_prompt(weights, HEAD, found)
    assert abs(bugs.interaction(effect)) < EXACT
    run = forward(weights, torch.tensor([0, 5, 2]))
    sent = run.pattern[HEAD][2, 1] * run.resid_pre[0, 1] @ weights.W_V[HEAD] @ weights.W_O[HEAD] @ weights.W_U
    assert (effect[1] - sent[[23, 30]]).abs().max() < EXACT


def test_search_finds_what_four_loops_find(weights, tables, counts, monkeypatch):
    monkeypatch.setattr(bugs, "GOOD_COUNT", 5)  # the few counts of this test hardly reach the real one
    width = 6
    found = bugs.worst_bugs(tables, counts, torch.arange(V), width)
    qk = dense_qk(weights)
    f1, f2 = (qk - qk.mean(1, keepdim=True)).T, dense_ov(weights)
    seen = counts.dense()
    best = {}
    for s in range(V):
        known = [t for t in range(V) if seen[0, t] >= bugs.GOOD_COUNT]
        ds = sorted(known, key=lambda t: -f1[s, t])[:width]
        os = sorted(known, key=lambda t: -f2[s, t])[:width]
        for a in ds:
            for b in ds:
                for c in os:
                    for d in os:
                        good = seen[a, c] >= bugs.GOOD_COUNT and seen[b, d] >= bugs.GOOD_COUNT
                        if good and seen[a, d] == 0 == seen[b, c]:
                            size = min((f1[s, a] * f2[s, d]).item(), (f1[s, b] * f2[s, c]).item())
                            best[s] = max(best.get(s, 0), size)
    expected = sorted((size for size in best.values() if size > 0), reverse=True)
    assert len(expected) > 3
    sizes = [min(bug.table[0, 1], bug.table[1, 0]).item() for bug in found]
    assert sizes == pytest.approx(expected)
    for bug in found:
        (a, b), (c, d) = bug.destinations, bug.outs
        assert seen[a, c] >= bugs.GOOD_COUNT <= seen[b, d]
        assert seen[a, d] == 0 == seen[b, c]
        assert abs(bug.interaction) < EXACT


def test_pair_counts_are_those_of_the_corpus(tables, counts):
    found = bugs.bug(tables, 5, (11, 2), (23, 30))
    assert bugs.pair_counts(found, counts).tolist() == counts.dense()[[11, 2]][:, [23, 30]].tolist()


def test_nothing_good_no_bugs(tables):
    nothing = BigramCounts(torch.tensor([0]), torch.tensor([1]), V)
    assert bugs.worst_bugs(tables, nothing, torch.arange(V)) == []


def test_strongest_sources_have_the_largest_best_trigram(weights, tables):
    qk = dense_qk(weights)
    f1, f2 = (qk - qk.mean(1, keepdim=True)).T, dense_ov(weights)
    best = f1.amax(1).clamp_min(0) * f2.amax(1).clamp_min(0)
    assert bugs.strongest_sources(tables, 7).tolist() == best.topk(7).indices.tolist()
