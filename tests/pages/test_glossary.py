"""Page 14: keys by another route, pages that exist, and what the checker says to odd input."""

from pathlib import Path

import pytest
import torch
from streamlit.testing.v1 import AppTest

from circuits import glossary, misconceptions, models
from pages.ui import registry

APP = str(Path(__file__).parents[2] / "app.py")


@pytest.fixture(scope="module")
def page() -> AppTest:
    at = AppTest.from_file(APP, default_timeout=120).run()
    at.switch_page("pages/14_glossary.py").run()
    next(button for button in at.button if button.label == "Skip").click().run()
    return at


def words(page: AppTest) -> str:
    elements = (*page.markdown, *page.caption, *page.error, *page.warning, *page.success)
    return " ".join(element.value for element in elements)


def typed(page: AppTest, product: str) -> str:
    page.text_input(key="glossary.product").set_value(product).run()
    assert not page.exception
    return words(page).replace("\\", "")


def test_every_term_question_and_mistake_names_a_page_of_the_app():
    slugs = {page.slug for page in registry.ALL}
    named = (*glossary.terms(), *glossary.questions(), *misconceptions.ALL)
    assert {entry.page for entry in named} <= slugs


def test_keys_by_another_route(page):
    shape, turned, entries, cycle = [e.answer for e in page.session_state["_answer_keys"]["glossary"]]
    W_Q, W_K = torch.randn(2, 64, 8)
    assert shape.value == tuple((W_Q.T @ W_K).shape)
    assert turned.correct == "W_OV"
    assert entries.value == models.load("two-layer").cfg.d_vocab ** 2
    A, B = torch.tensor([[0.0, 1], [0, 0]]), torch.tensor([[1.0, 0], [0, 0]])
    assert (A @ B).norm() != (B @ A).norm()
    assert (A @ B).trace() == (B @ A).trace()
    assert cycle.correct == "trace(A B) = trace(B A)"


def test_silent_failures_are_named_and_errors_shown(page):
    assert "Fails silently" in typed(page, "W_Q.T @ W_K")
    assert "This is the QK matrix" in typed(page, "W_Q @ W_K.T")
    assert "Not allowed" in typed(page, "W_E @ W_K.T")


@pytest.mark.parametrize("odd", ["", "   ", "$a$ <b>x</b> :smile:", "W_Q @@ W_Z", "🙂", "W_Q" * 60])
def test_odd_products_leave_the_page_up(page, odd):
    assert "Key takeaways" in typed(page, odd)


@pytest.mark.parametrize("name", [misconception.name for misconception in misconceptions.ALL][::6])
def test_a_mistake_is_computed_when_chosen(page, name):
    page.radio(key="glossary.said").set_value(name).run()
    assert not page.exception
    assert [frame.value.columns[0] for frame in page.dataframe][1] == "computed now"


def test_search_finds_and_says_what_it_does_not(page):
    page.text_input(key="glossary.search").set_value("smeared").run()
    assert "1 of 59" not in words(page)
    assert "smeared key" in words(page)
    page.text_input(key="glossary.search").set_value("xyzzy*_$").run()
    assert "No term has `xyzzy*_$` in it" in words(page)
