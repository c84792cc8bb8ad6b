"""What the boxes under a question take for right, and what they do not."""

import pytest

from circuits.weights import Head
from pages.ui.exercises import HeadName, Number, Sizes, Text


@pytest.mark.parametrize("typed", ["0.044", "0,044", "1/sqrt(512)", "1/√512", "0.0442", "4.4 %"])
def test_a_number_within_its_tolerance(typed):
    assert Number(512**-0.5, 0.001).accepts(typed)
    assert not Number(0.5, 0.001).accepts(typed)


@pytest.mark.parametrize("typed", ["2097152", "2.1e6", "2,097,152", "2.1 million", "2*4096*256", "2.1 × 10^6"])
def test_a_count_whose_order_is_the_point(typed):
    assert Number(2 * 4096 * 256, relative=0.01).accepts(typed)


@pytest.mark.parametrize("typed", ["4096*256", "4096^2", "2e6", "2*4096*256 - 256^2", "2097"])
def test_a_wrong_idea_of_the_count_is_not_let_in(typed):
    assert not Number(2 * 4096 * 256, relative=0.01).accepts(typed)


def test_a_count_without_tolerance_is_exact():
    assert Number(768).accepts("12*64")
    assert not Number(768).accepts("767")
    assert not Number(768).accepts("768.001")


def test_either_reading_of_a_comma_may_be_right():
    assert Number(1234).accepts("1,234")
    assert Number(1.234).accepts("1,234")
    assert not Number(347, 1).accepts("0,347")


@pytest.mark.parametrize("typed", ["8 x 8", "8×8", "8 by 8", "8 BY 8", "8*8", "(8, 8)", "[8,8]", "8 8", "8 times 8"])
def test_shapes(typed):
    assert Sizes((8, 8)).accepts(typed)
    assert not Sizes((8, 64)).accepts(typed)


def test_thousands_in_a_shape():
    assert Sizes((4096, 256)).accepts("4,096 x 256")
    assert Sizes((4, 96)).accepts("4, 96")


@pytest.mark.parametrize("typed", ["8 or 8", "", "x", "eight"])
def test_no_shape(typed):
    with pytest.raises(ValueError, match="is not a shape"):
        Sizes((8, 8)).accepts(typed)


@pytest.mark.parametrize("typed", ["L1H4", "l1h4", "1.4", "1:4", "L1 H4", "L1.H4", "(1, 4)", "layer 1, head 4", "1 4"])
def test_heads(typed):
    assert HeadName((Head(1, 4),)).accepts(typed)
    assert not HeadName((Head(4, 1),)).accepts(typed)


@pytest.mark.parametrize("typed", ["14", "H4", "", "L1", "L1H", "L1H4H5"])
def test_no_head(typed):
    with pytest.raises(ValueError, match="is not a head"):
        HeadName((Head(1, 4),)).accepts(typed)


@pytest.mark.parametrize("typed", ["·the", " the", "“The”", "'the'"])
def test_a_token_with_its_quotes_or_without(typed):
    assert Text((" the",)).accepts(typed)
