"""Composed scores and virtual heads on a run: sums, shapes, and two previous-token heads."""

from dataclasses import replace
from itertools import combinations

import pytest
import torch

from circuits import composed, mechanism
from circuits.composition import turn_writer
from circuits.weights import Head, Weights, forward
from tests.conftest import random_weights

EXACT = 1e-10
TOKENS = torch.tensor([0, 3, 1, 4, 1, 5, 9, 2, 6])
FIRST, SECOND = Head(0, 1), Head(2, 0)


@pytest.fixture(scope="module")
def weights() -> Weights:
    return random_weights(n_layers=3)


@pytest.fixture(scope="module")
def run(weights):
    return forward(weights, TOKENS)


def test_centring_rows_leaves_the_pattern(run):
    centred = composed.centre_rows(run.scores[1])
    hidden = run.scores[1].isinf()
    assert torch.allclose(centred.masked_fill(hidden, -torch.inf).softmax(-1), run.pattern[1], atol=EXACT)
    assert centred[hidden].abs().max() == 0


@pytest.mark.parametrize(("kind", "axis"), [("Q", 0), ("K", 1)])
def test_composed_scores_are_a_row_or_column_of_the_table(weights, run, kind, axis):
    table = mechanism.score_components(weights, run, SECOND)
    index = table.names.index(str(FIRST))
    expected = composed.centre_rows(table.terms.select(axis, index).sum(0))
    assert torch.allclose(composed.composed_scores(weights, run, FIRST, SECOND, kind), expected, atol=EXACT)


def test_v_composition_has_no_composed_scores(weights, run):
    with pytest.raises(ValueError, match="V-composition"):
        composed.composed_scores(weights, run, FIRST, SECOND, "V")


def test_what_is_written_is_the_heads_output(weights, run):
    assert torch.allclose(composed.written(weights, run, FIRST), run.head_out[FIRST], atol=EXACT)


@pytest.mark.parametrize("kind", ["Q", "K"])
def test_turned_away_the_first_head_is_not_seen(weights, run, kind):
    """At 90° the composed scores are 0, and the pattern is the one without the composed part of the scores."""
    assert torch.allclose(composed.composed_pattern(weights, run, FIRST, SECOND, kind), run.pattern[SECOND], atol=EXACT)
    away, aligned = (turn_writer(weights, FIRST, SECOND, kind, degrees) for degrees in (90.0, 0.0))
    assert composed.composed_scores(away, run, FIRST, SECOND, kind).abs().max() < EXACT
    without = run.scores[SECOND] - composed.composed_scores(weights, run, FIRST, SECOND, kind)
    pattern = composed.composed_pattern(away, run, FIRST, SECOND, kind)
    assert torch.allclose(pattern, without.softmax(-1), atol=EXACT)
    assert (composed.composed_pattern(aligned, run, FIRST, SECOND, kind) - pattern).abs().max() > 1e-3


def test_v_leaves_the_pattern_alone_and_moves_more(weights, run):
    away, aligned = (turn_writer(weights, FIRST, SECOND, "V", degrees) for degrees in (90.0, 0.0))
    pattern = composed.composed_pattern(aligned, run, FIRST, SECOND, "V")
    assert torch.allclose(pattern, run.pattern[SECOND], atol=EXACT)
    assert composed.virtual_output(away, run, FIRST, SECOND).abs().max() < EXACT
    assert composed.virtual_output(aligned, run, FIRST, SECOND).max() > 1e-3


def test_virtual_head_is_two_heads_in_a_row(weights, run):
    head = composed.virtual_head(weights, run, FIRST, SECOND)
    x = run.resid_pre[0]
    expected = run.pattern[SECOND] @ run.head_out[FIRST] @ weights.W_V[SECOND] @ weights.W_O[SECOND]
    assert torch.allclose(head.pattern @ x @ head.W_OV.AB, expected, atol=EXACT)
    assert torch.allclose(head.pattern.sum(-1), torch.ones(len(TOKENS), dtype=torch.float64), atol=EXACT)
    assert head.pattern.triu(1).abs().max() == 0
    assert str(head) == "L0H1 → L2H0"


def test_two_previous_token_heads_look_two_back(run, weights):
    n = len(TOKENS)
    previous = torch.eye(n, dtype=torch.float64).roll(1, 0)
    previous[0] = torch.eye(n, dtype=torch.float64)[0]
    twice = replace(run, pattern=previous.expand_as(run.pattern))
    pattern = composed.virtual_head(weights, twice, FIRST, SECOND).pattern
    assert pattern.argmax(-1).tolist() == [0, 0, *range(n - 2)]


@pytest.mark.parametrize(("layers", "heads", "order"), [(2, 8, 2), (3, 4, 2), (4, 2, 3), (12, 12, 2)])
def test_counting_virtual_heads(layers, heads, order):
    chains = sum(heads**order for _ in combinations(range(layers), order))
    assert composed.n_virtual_heads(layers, heads, order) == chains


def test_gpt2_small_has_9504_virtual_pairs():
    assert composed.n_virtual_heads(12, 12) == 9504


def test_effective_keys_counts_evenly_attended_tokens():
    assert composed.effective_keys(torch.full((4, 5), 0.2)) == pytest.approx(5)
    assert composed.effective_keys(torch.eye(5)) == pytest.approx(1)


@pytest.mark.parametrize("kind", ["Q", "K", "V"])
def test_what_is_handed_over(weights, run, kind):
    handed = composed.handed(weights, run, FIRST, SECOND, kind)
    moved = composed.virtual_output(weights, run, FIRST, SECOND)
    expected = moved if kind == "V" else composed.composed_scores(weights, run, FIRST, SECOND, kind)
    assert torch.equal(handed, expected)


def test_the_length_a_virtual_head_moves(weights, run):
    """(A² A¹)[6, 2] times the length of the source at 2 sent through both heads' matrices."""
    pattern = run.pattern[SECOND] @ run.pattern[FIRST]
    matrices = [weights.W_V[head] @ weights.W_O[head] for head in (FIRST, SECOND)]
    length = (run.resid_pre[0, 2] @ matrices[0] @ matrices[1]).norm()
    moved = composed.virtual_output(weights, run, FIRST, SECOND)[6, 2]
    assert moved.item() == pytest.approx((pattern[6, 2] * length).item(), abs=EXACT)
