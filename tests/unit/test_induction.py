"""The measures and the behaviour, against loops over their definitions."""

import pytest
import torch

from circuits import induction
from circuits.hand_built import induction_head
from circuits.weights import Head, forward

EXACT = 1e-12
"""float64 against the same arithmetic in another order."""
SINGLE = 1e-6
"""float32 means of at most a hundred numbers in [0, 1]."""

PERIOD = 7


def random_pattern(*heads: int, n: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    weights = torch.rand(*heads, n, n, generator=generator, dtype=torch.float64).tril()
    return weights / weights.sum(-1, keepdim=True)


@pytest.fixture
def pattern():
    return random_pattern(2, 3, n=2 * PERIOD + 1)


@pytest.fixture
def probe():
    return induction.repeated(induction.distinct_tokens(PERIOD, 40))


@pytest.mark.parametrize(
    ("measure", "first", "offset"),
    [
        (lambda A: induction.induction_score(A, PERIOD), PERIOD + 1, PERIOD - 1),
        (lambda A: induction.duplicate_token_score(A, PERIOD), PERIOD + 1, PERIOD),
        (induction.previous_token_score, 2, 1),
    ],
    ids=["induction", "duplicate", "previous"],
)
def test_scores_are_the_means_they_are_defined_as(pattern, measure, first, offset):
    queries = range(first, 2 * PERIOD + 1)
    by_hand = sum(pattern[:, :, i, i - offset] for i in queries) / len(queries)
    assert (measure(pattern) - by_hand).abs().max() < EXACT


def test_second_copy_leaves_out_what_nothing_predicts(probe):
    logits = torch.randn(1, len(probe), 40, dtype=torch.float64)
    # i predicts i + 1; the copy runs from PERIOD + 1 to 2·PERIOD and its first token is a surprise.
    predicted = [(i, i + 1) for i in range(PERIOD + 1, 2 * PERIOD)]
    loss = -sum(logits[0, i].log_softmax(-1)[probe[j]] for i, j in predicted) / len(predicted)
    assert induction.second_copy(logits, probe[None], PERIOD).loss == pytest.approx(loss.item(), abs=EXACT)


def test_targets_are_the_keys_after_an_earlier_copy():
    tokens = torch.tensor([0, 5, 6, 5, 5, 7, 6, 5, 0])
    targets = induction.induction_targets(tokens)
    for i in range(len(tokens)):
        for j in range(len(tokens)):
            expected = 1 <= j <= i and tokens[j - 1] == tokens[i]
            assert targets[i, j] == expected, (i, j)


def test_targets_of_a_repeat_probe_are_the_stripe(probe):
    rows, columns = induction.induction_targets(probe).nonzero().T
    assert rows.tolist() == list(range(PERIOD + 1, 2 * PERIOD + 1))
    assert (rows - columns == PERIOD - 1).all()


def test_predictable_is_where_copying_is_right():
    tokens = torch.tensor([0, 5, 6, 5, 6, 7, 5, 7, 7])
    for i in range(len(tokens) - 1):
        answers = {tokens[j].item() for j in range(1, i + 1) if tokens[j - 1] == tokens[i]}
        assert induction.predictable(tokens)[i] == (tokens[i + 1].item() in answers), i


def test_on_a_repeat_probe_the_general_measures_are_the_defined_ones(pattern, probe):
    logits = torch.randn(len(probe), 40, dtype=torch.float64)
    general = induction.copying(logits, probe)
    defined = induction.second_copy(logits[None], probe[None], PERIOD)
    assert general.loss == pytest.approx(defined.loss, abs=EXACT)
    assert general.accuracy == pytest.approx(defined.accuracy, abs=SINGLE)
    on_target = induction.target_score(pattern, induction.induction_targets(probe))
    assert (on_target - induction.induction_score(pattern, PERIOD)).abs().max() < EXACT


def test_nothing_repeats_is_said_and_not_a_nan():
    tokens = torch.arange(6)
    with pytest.raises(ValueError, match="nothing repeats"):
        induction.copying(torch.zeros(6, 9), tokens)
    with pytest.raises(ValueError, match="nothing repeats"):
        induction.target_score(random_pattern(2, n=6), induction.induction_targets(tokens))


def test_position_losses():
    logits, tokens = torch.randn(2, 5, 9, dtype=torch.float64), torch.randint(9, (2, 5))
    losses = induction.position_losses(logits, tokens)
    assert losses.shape == (2, 4)
    assert losses[1, 2] == pytest.approx(-logits[1, 2].softmax(-1)[tokens[1, 3]].log().item(), abs=EXACT)


@pytest.mark.parametrize("period", [25, 50, 384])
def test_uniform_floor(period):
    n = 2 * period + 1
    uniform = torch.ones(n, n, dtype=torch.float64).tril() / torch.arange(1, n + 1)[:, None]
    floor = induction.uniform_floor(period)
    assert floor == pytest.approx(induction.induction_score(uniform, period).item(), abs=SINGLE)
    assert floor == pytest.approx(
        torch.log(torch.tensor(2.0)).item() / period, rel=1.2 / period
    )  # ln 2 / L, to first order in 1/L


def test_distinct_tokens_are_distinct_and_never_bos():
    drawn = induction.distinct_tokens(39, 40, seed=3)
    assert sorted(drawn.tolist()) == list(range(1, 40))
    with pytest.raises(ValueError, match="40 different tokens"):
        induction.distinct_tokens(40, 40)


def test_repeated_and_stranger():
    once = torch.tensor([3, 1, 2])
    assert induction.repeated(once, 3).tolist() == [0, 3, 1, 2, 3, 1, 2, 3, 1, 2]
    assert induction.repeated(once, 2, bos=False).tolist() == [3, 1, 2, 3, 1, 2]
    changed = induction.with_stranger(induction.repeated(once), 5, 40)
    assert changed.tolist() == [0, 3, 1, 2, 3, 4, 2]
    assert not induction.induction_targets(changed)[5].any()


def test_ideal_patterns_are_patterns_with_a_perfect_score(probe):
    previous = induction.ideal_previous_pattern(len(probe))
    ideal = induction.ideal_induction_pattern(probe)
    for pattern in (previous, ideal):
        assert torch.equal(pattern.sum(-1), torch.ones(len(probe)))
        assert not pattern.triu(1).any()
    assert induction.previous_token_score(previous) == 1
    assert induction.induction_score(ideal, PERIOD) == 1
    assert ideal[: PERIOD + 1, 0].eq(1).all()


def test_readout_of_an_exact_head():
    tokens = torch.tensor([0, 5, 6, 7, 5, 6])
    weights = induction_head(d_vocab=9, n_ctx=8, beta_0=30.0, beta_1=30.0)
    read = induction.readout(weights, forward(weights, tokens), Head(1, 0))
    assert read.has_target.tolist() == [False, False, False, False, True, True]
    assert read.looks_at[4:].tolist() == [2, 3]
    assert read.boosts[4:].tolist() == [6, 7]
    assert read.copies[4:].all()
    assert read.on_target[4:].min() > 1 - SINGLE
    assert read.on_target[:4].eq(0).all()


def test_roles_are_found_by_score():
    pattern = random_pattern(4, 2, 3, n=2 * PERIOD + 1)
    pattern[:, 0, 2] = induction.ideal_previous_pattern(2 * PERIOD + 1)
    stripe = induction.ideal_induction_pattern(induction.repeated(torch.arange(1, PERIOD + 1))).double()
    pattern[:, 0, 0] = stripe  # layer 0 cannot hold an induction head: a positional fake
    pattern[:, 1, 1] = stripe
    pattern[:, 1, 0] = 0.5 * stripe + 0.5 * pattern[:, 1, 0]
    scores = induction.head_scores(pattern, PERIOD)
    assert induction.best_head(scores.previous, [0]) == Head(0, 2)
    assert induction.induction_heads(scores) == (Head(1, 1), Head(1, 0))
    assert scores.duplicate[1, 2] == pytest.approx(
        induction.duplicate_token_score(pattern[:, 1, 2], PERIOD).mean().item(), abs=EXACT
    )
    with pytest.raises(ValueError, match="no such layer"):
        induction.best_head(scores.previous, [])
