"""Words that fall apart without their space: found in the tokenizer, tried on a model built to copy them."""

import pytest
import torch

from circuits import models, split_tokens, tokens
from circuits.split_tokens import SplitPair
from circuits.weights import Weights


@pytest.fixture(scope="module")
def model():
    return models.load("one-layer")


@pytest.fixture(scope="module")
def pairs(model):
    return split_tokens.split_pairs(model)


def test_pairs_are_what_they_say(model, pairs):
    assert len(pairs) > 20
    for pair in pairs:
        assert tokens.single_token(model, " " + pair.word) == pair.joined
        assert tokens.encode(model, pair.word)[1:] == [pair.first, pair.second]
        assert pair.word == pair.word.title()


def test_no_pair_is_missed(model, pairs):
    found = {pair.word for pair in pairs}
    for token in range(model.cfg.d_vocab):
        word = tokens.token_bytes(model, token).decode("utf-8", "replace").removeprefix(" ")
        if word.isalpha() and word.istitle() and len(tokens.encode(model, word)) == 3:
            whole = len(tokens.encode(model, " " + word)) == 2
            assert (word in found) == whole


def copier(strength: float) -> Weights:
    """Tokens 1, 2 are [ab], [cd]; 3, 4 the pieces [a], [c]; 5, 6 the pieces [b], [d].

    One head looks at the joined word and raises its second piece.
    """
    d = 8
    eye = torch.eye(d, dtype=torch.float64)
    W_V, W_O = torch.zeros(1, 1, d, 2, dtype=torch.float64), torch.zeros(1, 1, 2, d, dtype=torch.float64)
    W_V[0, 0, 1, 0] = W_V[0, 0, 2, 1] = 1
    W_O[0, 0, 0, 5] = W_O[0, 0, 1, 6] = strength
    nothing = torch.zeros(1, 1, d, 2, dtype=torch.float64)
    return Weights(eye, torch.zeros(6, d, dtype=torch.float64), nothing, nothing, W_V, W_O, eye)


def test_gain_is_the_difference_the_word_makes():
    two = [SplitPair("Ab", 1, 3, 5), SplitPair("Cd", 2, 4, 6)]
    found = split_tokens.split_gains(copier(strength=4.0), two, filler=[7])
    # Flat attention over four places: the second piece gains 4/4 logits, the other one when the words are swapped.
    assert found.gain.tolist() == pytest.approx([1.0, 1.0])
    assert split_tokens.split_gains(copier(0.0), two, [7]).gain.abs().max() < 1e-12


def test_pairs_come_back_best_first_and_none_is_fine():
    two = [SplitPair("Xy", 7, 3, 5), SplitPair("Cd", 2, 4, 6)]  # token 7 says nothing
    found = split_tokens.split_gains(copier(strength=4.0), two, filler=[])
    assert found.pairs[0].word == "Cd"
    assert found.gain[0] > found.gain[1]
    assert split_tokens.split_gains(copier(1.0), [], filler=[]).pairs == []


def test_relation_of_a_trigram(model, pairs):
    pair = pairs[0]
    assert split_tokens.relation(model, pair.joined, pair.first, pair.second) == "completes"
    assert split_tokens.relation(model, pair.joined, pair.first, pair.joined) == "copies"
    assert split_tokens.relation(model, pair.joined, pair.second, pair.first) == ""
