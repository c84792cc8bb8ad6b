"""Page 03: every exercise key by another route, and the tokens and texts that have nothing to compare."""

import math
from pathlib import Path

import pytest
import torch
from streamlit.testing.v1 import AppTest

from circuits import models
from circuits.counts import BigramCounts
from circuits.weights import Weights

APP = str(Path(__file__).parents[2] / "app.py")

FLOAT32 = 1e-4
"""Loss of a table in float32 blocks against one in float64."""


@pytest.fixture(scope="module")
def page() -> AppTest:
    at = AppTest.from_file(APP, default_timeout=120).run()
    return at.switch_page("pages/03_zero_layer_bigrams.py").run()


def show(page: AppTest, text: str) -> AppTest:
    page.text_input(key="text").set_value(text).run()
    assert not page.exception
    return page


def words(page: AppTest) -> str:
    return " ".join(element.value for element in (*page.markdown, *page.caption, *page.error))


def test_keys_by_another_route(page):
    fork, one_dimension, tied, gap, context = [
        e.answer for e in page.session_state["_answer_keys"]["zero_layer_bigrams"]
    ]
    assert fork.value == pytest.approx(math.log(2) / 2)
    assert not one_dimension.accepts("Always")
    assert one_dimension.accepts("Not in general")
    weights = Weights.of(models.load("zero-layer")).double()
    assert torch.allclose(weights.W_E @ weights.W_E.T, (weights.W_E @ weights.W_E.T).T)
    assert "symmetric" in tied.correct
    dense = BigramCounts.load().dense()[1:].double()
    joint = dense / dense.sum()
    entropy = torch.special.entr(joint).sum() - torch.special.entr(joint.sum(1)).sum()
    loss = -(joint * (weights.W_E[1:] @ weights.W_U).log_softmax(-1)).sum()
    assert gap.value == pytest.approx((loss - entropy).item(), abs=FLOAT32)
    run = [models.run(models.load("zero-layer"), torch.tensor(ids)).logits[-1] for ids in ([0, 300, 7, 300], [0, 300])]
    assert context.accepts("No")
    torch.testing.assert_close(*run, atol=FLOAT32, rtol=FLOAT32)


def test_a_token_that_nothing_follows_is_said_to_have_no_counts(page):
    assert "there is nothing to compare" not in words(page)
    next(button for button in page.button if button.label == "Skip").click().run()
    assert "there is nothing to compare" in words(show(page, r"\n"))


def test_the_letters_of_a_text_too_short_are_refused_in_place(page):
    page.session_state["zero_layer_bigrams.world"] = "your letters"
    assert "no pair of characters" in words(show(page, "x"))
    assert "Key takeaways" in words(page), "the rest of the page stays"
    assert "no pair of characters" not in words(show(page, "xyx"))


def test_training_shows_the_entropy_reached(page):
    page.session_state["zero_layer_bigrams.world"] = "fork"
    page.session_state["zero_layer_bigrams.trained"] = True
    page.run()
    assert not page.exception
    assert "Nothing beats the entropy. d = 2 ends 0.00" in words(page)
