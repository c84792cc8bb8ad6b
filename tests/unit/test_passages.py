"""Passages keep their text literal and mark what is active."""

from pages.ui.passages import passage


def test_active_tokens_are_marked_and_text_stays_text():
    shown = passage(["The", "·c", "at", "·*x*", "·"], [0.0, 0.3, 1.0, 0.1, 0.0])
    assert shown == r"The :orange-background[c]:orange-background[**at**] \*x\* ·"


def test_a_silent_unit_marks_nothing():
    assert passage(["a", "·b"], [0.0, 0.0]) == "a b"
