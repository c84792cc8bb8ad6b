"""The heads written by hand do exactly what their formulas say."""

import math

import pytest

from circuits import induction
from circuits.hand_built import induction_head, positional_head
from circuits.weights import forward

EXACT = 1e-9
"""float64; a gain of 30 leaves e⁻³⁰ ≈ 1e-13 per key to positions that should get nothing."""

PERIODS = (8, 10, 12, 14, 16)
V = 60


def accuracy(weights, bos: bool) -> float:
    """Share of tokens predicted in the second and third copy, its first left out: 2L − 1 a sequence."""
    hits, total = 0, 0
    for period in PERIODS:
        tokens = induction.repeated(induction.distinct_tokens(period, V, seed=period), 3, bos)
        start = period + int(bos)
        predicted = forward(weights, tokens).logits.argmax(-1)[start:-1]
        hits, total = hits + (predicted == tokens[start + 1 :]).sum().item(), total + len(predicted)
    return hits / total


def built(beta: float):
    return induction_head(V, 64, beta_0=beta, beta_1=beta, gamma=1000.0)


@pytest.mark.parametrize(("beta", "expected"), [(0.0, 0.0), (2.0, 0.84), (4.0, 0.957)])
def test_accuracy_without_bos_rises_with_the_gain(beta, expected):
    # One token of 115 is 0.9 %: what ties and near ties are worth on this probe.
    assert accuracy(built(beta), bos=False) == pytest.approx(expected, abs=1.01 / 115)


def test_without_bos_one_token_a_sequence_stays_wrong_for_ever():
    stuck = 1 - len(PERIODS) / sum(2 * period - 1 for period in PERIODS)
    assert accuracy(built(20.0), bos=False) == pytest.approx(stuck, abs=EXACT)
    assert stuck == pytest.approx(0.957, abs=5e-4)


def test_with_bos_every_token_is_right():
    assert accuracy(built(20.0), bos=True) == 1


@pytest.mark.parametrize("beta", [1.0, 5.4])
def test_attention_on_the_match(beta):
    tokens = induction.repeated(induction.distinct_tokens(12, V))
    pattern = forward(induction_head(V, 64, beta_0=40.0, beta_1=beta), tokens).pattern[1, 0]
    for i in range(13, 25):
        assert pattern[i, i - 11].item() == pytest.approx(math.exp(beta) / (math.exp(beta) + i), abs=EXACT)


def test_ninety_per_cent_among_25_needs_the_log_of_216():
    i, beta = 24, math.log(9 * 24)
    assert math.exp(beta) / (math.exp(beta) + i) == pytest.approx(0.9)


def test_moving_the_key_moves_the_stripe():
    tokens = induction.repeated(induction.distinct_tokens(12, V))
    for offset, lag in ((0, 12), (1, 11), (2, 10)):
        run = forward(induction_head(V, 64, 30.0, 30.0, offset=offset), tokens)
        pattern = run.pattern[1, 0]
        # A head that matches its own token finds itself too, and shares its attention.
        expected = 0.5 if offset == 0 else 1
        assert pattern.diagonal(-lag)[1 + offset :].mean().item() == pytest.approx(expected, abs=EXACT)
        assert induction.copying(run.logits, tokens).accuracy == (offset == 1)


def test_copying_must_outbid_the_direct_path():
    tokens = induction.repeated(induction.distinct_tokens(12, V))
    for gamma, expected in ((0.9, 0), (1.1, 1)):
        weights = induction_head(V, 64, 30.0, 30.0, gamma=gamma)
        assert induction.copying(forward(weights, tokens).logits, tokens).accuracy == expected


def test_the_positional_shortcut_knows_one_period():
    weights = positional_head(12, V)
    for period in (10, 11, 12, 13, 14):
        tokens = induction.repeated(induction.distinct_tokens(period, V), 3)
        assert induction.copying(forward(weights, tokens).logits, tokens).accuracy == (period == 12)


def test_other_key_sources_are_refused():
    with pytest.raises(ValueError, match="not 3"):
        induction_head(offset=3)


def test_every_weight_is_zero_or_a_gain():
    weights = induction_head(10, 8, beta_0=3.0, beta_1=5.0, gamma=7.0)
    scale = weights.d_head**0.5
    assert set(weights.W_Q.unique().tolist()) == {0.0, 3 * scale, 5 * scale}
    assert set(weights.W_O.unique().tolist()) == {0.0, 1.0, 7.0}
