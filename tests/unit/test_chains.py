"""Small chains: entropies known by hand, and zero-layer models trained on them."""

import math

import pytest
import torch

from circuits import chains

EXACT = 1e-12
TRAINED = 2e-3
"""Nats between a trained model and the entropy when the size suffices: what 600 steps of Adam leave at worst."""


def test_the_fork_has_half_ln_2():
    assert chains.fork().entropy == pytest.approx(0.5 * math.log(2), abs=EXACT)
    torch.testing.assert_close(chains.fork().joint.sum(1), torch.tensor([0.5, 0.25, 0.25]).double())


def test_stationary_is_left_alone_by_the_chain():
    P = chains.random_chain(9).next_probs
    pi = chains.stationary(P)
    torch.testing.assert_close(pi @ P, pi)
    assert pi.sum() == pytest.approx(1, abs=EXACT)
    assert pi.min() > 0


def test_a_row_that_does_not_sum_to_one_is_refused():
    with pytest.raises(ValueError, match="sum to 1"):
        chains.chain(("a", "b"), torch.tensor([[0.5, 0.4], [1.0, 0.0]]))
    with pytest.raises(ValueError, match="sum to 1"):
        chains.chain(("a", "b"), torch.tensor([[1.5, -0.5], [1.0, 0.0]]))


def test_letters_counts_the_pairs_of_a_text():
    chain = chains.letters("abac")
    assert chain.states == ("a", "b", "c")
    torch.testing.assert_close(3 * chain.joint, torch.tensor([[0, 1, 1], [1, 0, 0], [0, 0, 0]]).double())
    assert chain.entropy == pytest.approx(2 / 3 * math.log(2), abs=EXACT)
    assert chain.next_probs[2].sum() == 0, "nothing follows the last letter"


@pytest.mark.parametrize(
    ("text", "why"), [("", "no pair"), ("x", "no pair"), ("".join(map(chr, range(200, 301))), "101 different")]
)
def test_letters_refuses_what_is_no_chain(text, why):
    with pytest.raises(ValueError, match=why):
        chains.letters(text)


def test_the_loss_never_goes_under_the_entropy():
    chain = chains.random_chain(12)
    fit = chains.train(chain, (1, 4, 12), steps=80)
    assert (fit.losses > chain.entropy).all()
    excess = (chain.joint * (chain.next_probs.log() - fit.probs.log())).sum((-1, -2))
    torch.testing.assert_close(fit.losses[-1] - chain.entropy, excess), "the gap is the mean KL"


def test_more_dimensions_fit_better_and_one_less_than_the_states_is_enough():
    """Row constants are free, so a V × V table of log-probabilities needs rank V − 1."""
    chain = chains.random_chain(8)
    narrow, middle, enough = (chains.train(chain, (1, 3, 7)).losses[-1] - chain.entropy).tolist()
    assert narrow > 2 * middle > 10 * TRAINED
    assert enough < TRAINED


def test_one_dimension_holds_the_fork_but_no_general_chain_of_three():
    fork, general = chains.fork(), chains.random_chain(3, seed=1)
    assert chains.train(fork, (1,)).losses[-1].item() - fork.entropy < TRAINED
    assert chains.train(general, (1,)).losses[-1].item() - general.entropy > 10 * TRAINED
    assert chains.train(general, (2,)).losses[-1].item() - general.entropy < TRAINED


def test_padding_takes_no_part():
    chain = chains.random_chain(5)
    fit = chains.train(chain, (2, 4), steps=30)
    assert fit.W_E[0, :, 2:].abs().max() == fit.W_U[0, 2:].abs().max() == 0
    assert torch.linalg.matrix_rank(fit.W_E[0] @ fit.W_U[0]) == 2


def test_a_size_of_zero_is_refused():
    with pytest.raises(ValueError, match="d_model 0"):
        chains.train(chains.fork(), (0, 2))
