"""Transitions of curves worked by hand."""

import numpy as np
import pytest

from circuits import transition

STEP = np.arange(0, 1100, 100)


def test_a_straight_line_takes_eight_tenths_of_the_run():
    found = transition.transition(STEP, STEP / 1000)
    assert (found.start, found.end, found.steps) == (100, 900, 1000)
    assert found.share == pytest.approx(0.8)


def test_a_jump_takes_no_time():
    curve = np.where(STEP >= 600, 1.0, 0.0)
    assert transition.transition(STEP, curve).share == 0
    assert transition.reached(STEP, curve, 0.5) == 600


def test_the_rise_is_counted_from_the_first_value_to_the_highest():
    curve = np.array([0.2, 0.2, 0.4, 0.6, 0.5, 0.6, 0.6, 0.6, 0.6, 0.6, 0.3])
    assert transition.reached(STEP, curve, 0.5) == 200
    assert transition.reached(STEP, curve, 1.0) == 300


@pytest.mark.parametrize("share", [0.0, -0.5, 1.5])
def test_a_share_outside_the_unit_interval_is_refused(share):
    with pytest.raises(ValueError, match=str(share)):
        transition.reached(STEP, STEP / 1000, share)


def test_a_curve_that_falls_is_refused():
    with pytest.raises(ValueError, match="never rises"):
        transition.reached(STEP, -STEP / 1000, 0.5)
