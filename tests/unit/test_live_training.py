"""Live training: data, smeared keys, the stepper, and (over a few steps only) that it learns."""

import math

import pytest
import torch

from circuits import induction
from circuits import live_training as live
from circuits.live_training import LiveRun, Setup

SMEAR = 1e-5
"""float32: one product of 64 terms of size 1."""

SAME_RUN = 0.0
"""The same operations in the same order give the same bits."""


def test_rows_begin_with_bos_and_repeat_with_the_periods_of_the_setup():
    for setup in (Setup(seed=3), Setup(period=11)):
        tokens, weights = live.batch(setup, step=7)
        assert tokens.shape == weights.shape == (live.ROWS, live.N_CTX)
        assert (tokens[:, 0] == 0).all()
        assert (tokens[:, 1:] > 0).all()
        for row, weight in zip(tokens, weights, strict=True):
            first = int(weight.nonzero()[0])
            period = first - 2
            assert period in setup.periods
            assert torch.equal(row[1 + period :], row[1:-period]), "the block is tiled to the end"
            assert (weight[first:] == weight[first]).all()
        assert math.isclose(weights.sum().item(), 1, rel_tol=1e-5)


def test_random_periods_are_all_drawn():
    starts = torch.cat([(live.batch(Setup(), step)[1] == 0).sum(1) - 2 for step in range(8)])
    assert set(starts.tolist()) == set(live.TRAINED)


def test_a_batch_depends_on_seed_and_step_and_on_nothing_else():
    torch.manual_seed(1)
    one = live.batch(Setup(seed=2), 5)[0]
    torch.rand(3)
    assert torch.equal(one, live.batch(Setup(seed=2, n_layers=1), 5)[0])
    assert not torch.equal(one, live.batch(Setup(seed=2), 6)[0])
    assert not torch.equal(one, live.batch(Setup(seed=3), 5)[0])


def test_the_start_is_a_pure_function_of_the_setup():
    one, other = live.start(Setup(seed=4, smeared=True)), live.start(Setup(seed=4, smeared=True))
    for (name, a), b in zip(one.named_parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b), name


def test_smeared_keys_by_the_formula():
    keys = live.SmearedKeys(live.D_MODEL, live.N_HEADS, live.D_HEAD)
    keys.alpha.data = torch.tensor([-50.0, 0.0, 1.0, 50.0])  # σ: 0, 1/2, 0.73, 1
    x = torch.randn(2, 6, live.D_MODEL)
    plain = (x @ keys.weight.T).unflatten(-1, (live.N_HEADS, -1))
    for head, own in enumerate(keys.alpha.sigmoid().tolist()):
        smeared = keys(x).unflatten(-1, (live.N_HEADS, -1))[:, :, head]
        assert (smeared[:, 0] - plain[:, 0, head]).abs().max() < SMEAR
        for j in range(1, 6):
            expected = own * plain[:, j, head] + (1 - own) * plain[:, j - 1, head]
            assert (smeared[:, j] - expected).abs().max() < SMEAR


def test_smeared_keys_reach_scores_and_patterns():
    """With σ(α) = 0 a key is the key before it: the score of (i, j) is the plain one of (i, j − 1)."""
    model = live.start(Setup(n_layers=1, smeared=True))
    attention = model.blocks[0].attn
    attention.k.alpha.data.fill_(-50)
    x = torch.randn(1, 8, live.D_MODEL)
    q, k = attention.heads(attention.q, x), (x @ attention.k.weight.T).unflatten(-1, (live.N_HEADS, -1)).transpose(1, 2)
    scores = q @ k.roll(1, -2).mT / live.D_HEAD**0.5
    last = scores[0, :, -1, 1:] - scores[0, :, -1, 1:2]  # log odds against key 1, of the last query
    pattern = attention.pattern(x)[0, :, -1, 1:].log()
    assert (last - (pattern - pattern[:, :1])).abs().max() < 1e-3


def test_measures_are_the_library_s():
    setup = Setup()
    model = live.start(setup)
    row = live.measure(model, setup, 0)
    tokens = live.probes()[live.PROBED.index(9), :, :19]
    copy = induction.second_copy(model.logits(tokens).detach(), tokens, 9)
    assert row.accuracy[9] == pytest.approx(copy.accuracy)
    assert set(row.accuracy) == set(live.PROBED)
    assert Setup(period=9).periods == (9,)
    assert live.measure(model, Setup(period=9), 0).loss == pytest.approx(copy.loss, rel=1e-5)
    assert len(row.previous) == 2
    assert len(row.induction[1]) == live.N_HEADS


def test_the_seen_level_is_the_loss_of_picking_a_token_seen():
    level = live.seen_level(Setup(period=10))
    blocks = live.probes()[live.PROBED.index(10), :, 1:11]
    assert level == pytest.approx(sum(math.log(len(block.unique())) for block in blocks) / len(blocks))
    assert math.log(5) < live.seen_level(Setup()) < math.log(16) < math.log(live.D_VOCAB)


def test_stopping_and_going_on_changes_nothing():
    setup = Setup(n_layers=1, seed=1)
    whole, parts = LiveRun(setup), LiveRun(setup)
    rows = whole.advance(50)
    assert [row.step for row in rows] == [25, 50]
    for steps in (7, 18, 1, 24):
        parts.advance(steps)
    assert parts.step == whole.step == 50
    assert parts.rows == whole.rows
    for a, b in zip(whole.model.parameters(), parts.model.parameters(), strict=True):
        assert (a - b).abs().max() == SAME_RUN


def test_a_run_ends_at_its_last_step(monkeypatch):
    monkeypatch.setattr(live, "STEPS", 30)
    run = LiveRun(Setup(n_layers=1))
    run.advance(1000)
    assert run.done
    assert run.step == 30
    assert run.advance(10) == []
    assert run.rows[-1].step == 25


def test_it_trains_inside_no_grad_too():
    """A page may have switched gradients off around the call."""
    run = LiveRun(Setup(n_layers=1))
    before = run.model.unembed.weight.detach().clone()
    with torch.no_grad():
        run.advance(2)
    assert not torch.equal(before, run.model.unembed.weight)


@pytest.fixture(scope="module")
def fixed_period():
    """The quickest lesson: one layer, always the same period."""
    run = LiveRun(Setup(n_layers=1, period=12))
    run.advance(200)
    return run


def test_one_layer_learns_a_fixed_period_by_position_and_fails_at_others(fixed_period):
    accuracy = fixed_period.rows[-1].accuracy
    assert accuracy[12] > 0.95
    assert accuracy[11] < 0.2
    assert accuracy[13] < 0.2
    assert 0 < fixed_period.learnt_at() <= 200


def test_patterns_are_causal_and_on_the_probe_of_the_scores(fixed_period):
    pattern = fixed_period.patterns()
    n = 2 * live.PROBE_PERIOD + 1
    assert pattern.shape == (1, live.N_HEADS, n, n)
    assert pattern.triu(1).abs().max() == 0
    assert fixed_period.own_share() == ()


@pytest.mark.parametrize("wrong", [{"n_layers": 3}, {"n_layers": 0}, {"period": 4}, {"period": 99}])
def test_what_cannot_be_trained_is_refused(wrong):
    with pytest.raises(ValueError, match=str(next(iter(wrong.values())))):
        Setup(**wrong)
