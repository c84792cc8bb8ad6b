"""The head one can follow by hand, followed by hand."""

import math

import pytest
import torch

from circuits.hand_head import hand_head

EXACT = 1e-15
"""A handful of float64 operations on numbers of order one."""

W_QK = torch.tensor([[0.0, math.log(3)], [0.0, 0.0]], dtype=torch.float64)
W_OV = torch.tensor([[1.0, 0.0], [0.0, 2.0]], dtype=torch.float64)


def test_aba_by_hand():
    head = hand_head("aba", W_QK, W_OV)
    # The last a scores ln 3 with b and 0 with each a: weights 1/5, 3/5, 1/5.
    assert torch.allclose(head.pattern[2], torch.tensor([0.2, 0.6, 0.2], dtype=torch.float64), atol=EXACT)
    # It sends 2/5 of (1, 0) and 3/5 of (0, 2).
    assert torch.allclose(head.out[2], torch.tensor([0.4, 1.2], dtype=torch.float64), atol=EXACT)
    assert head.pattern[0].tolist() == [1, 0, 0]


def test_the_second_word_of_ab_does_not_see_ahead_and_scores_are_the_table():
    head = hand_head("ab", W_QK, W_OV)
    assert (head.scores - W_QK).abs().max() < EXACT
    assert head.pattern[0, 1] == 0


@pytest.mark.parametrize("text", ["", "abc", "A"])
def test_other_words_are_named(text):
    with pytest.raises(ValueError, match=repr(text)):
        hand_head(text, W_QK, W_OV)
