"""Every page, with texts that break things, under AppTest: it computes, it holds, it shows no exception."""

import pytest
from streamlit.testing.v1 import AppTest

from pages.ui import registry

SECONDS = 120  # a cold page loads models and fills caches; AppTest's default is 3
PAGES = registry.built()
APP = registry.PAGES_FOLDER.parent / "app.py"
SKIP_PREDICTIONS = {page.slug: "Skip" for page in registry.ALL}

TEXTS = {
    "empty": "",
    "blank": "   ",
    "one token": "the",
    "over-long": "the cat sat on the mat and " * 80,
    "emoji": "I 👩‍👩‍👧 love 🙂 it",
    "right to left": "مرحبا بالعالم שלום",
    "markup": "$a$ <b>x</b> *y* :smile: [l](u) {{}} &amp; :red[z] `code` | ~~s~~",
    "white space": "one\\ttwo\\nthree  four\u00a0five",
    "special token": "before <|endoftext|> after",
    "combining": "e\u0301 \u0928\u092e\u0938\u094d\u0924\u0947 中文",
    "half an emoji": "x \ud83d y",
}


def open_page(page: registry.Page, text: str | None = None, **session) -> AppTest:
    """Run the app from its entry point, go to ``page`` and, if given, type ``text``."""
    at = AppTest.from_file(APP, default_timeout=SECONDS)
    at.session_state["_predicted"] = dict(SKIP_PREDICTIONS)
    for key, value in session.items():
        at.session_state[key] = value
    if text is not None:
        at.session_state["text"] = text
    at.run()
    if page is not PAGES[0]:
        at.switch_page(str(page.path.relative_to(registry.PAGES_FOLDER.parent))).run()
    return at


def assert_whole(at: AppTest) -> None:
    """No exception, no error box, no failed identity."""
    assert not at.exception, at.exception
    assert not at.error, [error.value for error in at.error]
    failed = [block.value for block in at.markdown if ":red-badge[" in block.value]
    assert not failed


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.slug)
def test_page_computes_and_its_checks_hold(page):
    at = open_page(page)
    assert_whole(at)
    assert any(page.title in block.value for block in at.markdown)
    assert any("badge[:material/check_circle: holds]" in block.value for block in at.markdown), "no check on the page"
    charts = at.get("vega_lite_chart")
    assert len(charts) >= 2 or page.number == 14
    assert at.session_state["_answer_keys"][page.slug], "no exercises"


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.slug)
def test_page_stands_any_text(page, text):
    at = open_page(page, text)
    assert not at.exception, at.exception
    assert not [error.value for error in at.error if "could not be computed" in error.value]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.slug)
def test_every_model_of_the_page_can_show_it(page):
    for model in page.models:
        assert_whole(open_page(page, model=model))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.slug)
def test_every_answer_key_is_accepted_by_its_own_exercise(page):
    items = open_page(page).session_state["_answer_keys"][page.slug]
    assert 3 <= len(items) <= 6
    for item in items:
        assert item.answer.accepts(item.answer.shown().split(" or ")[0]), item.question
        assert all(item.hints)
        assert item.solution


def test_text_and_focus_survive_a_visit_elsewhere():
    at = open_page(PAGES[0], "The dog ran to the dog")
    for page in PAGES[1:4]:
        at.switch_page(str(page.path.relative_to(registry.PAGES_FOLDER.parent))).run()
        assert at.session_state["text"] == "The dog ran to the dog"
        assert at.session_state["_view"].prompt.text == "The dog ran to the dog"


def test_prediction_hides_the_figure_until_the_reader_commits():
    at = AppTest.from_file(APP, default_timeout=SECONDS)
    at.run()
    residual = registry.by_slug("residual_stream")
    at.switch_page(str(residual.path.relative_to(registry.PAGES_FOLDER.parent))).run()
    before = len(at.get("vega_lite_chart"))
    next(button for button in at.button if button.label == "They shrink").click()
    at.run()
    assert len(at.get("vega_lite_chart")) == before + 2
    assert any("not so" in block.value for block in at.markdown)


def answer(at: AppTest, slug: str, number: int, typed: str) -> None:
    """Type an answer into an exercise's box and press its button."""
    next(field for field in at.text_input if field.key == f"{slug} exercise {number}").input(typed)
    next(b for b in at.button if b.label == "Check" and b.form_id == f"{slug} exercise {number} form").click()
    at.run()


def test_an_exercise_is_ticked_and_stays_ticked():
    at = open_page(registry.by_slug("residual_stream"))
    answer(at, "residual_stream", 0, "1/sqrt")
    assert any("is not a number" in block.value for block in at.markdown)
    assert not at.session_state["_solved"]
    answer(at, "residual_stream", 0, "0.0442")
    assert ("residual_stream", 0) in at.session_state["_solved"]
    at.switch_page("pages/03_zero_layer_bigrams.py").run()
    at.switch_page("pages/02_residual_stream.py").run()
    assert any("1 of 5 solved" in block.value for block in at.markdown)


def test_a_chip_says_when_its_token_never_occurs_in_training():
    at = open_page(registry.by_slug("residual_stream"), "one\\ttwo")
    chips = next(group for group in at.button_group if str(group.key).startswith("chips"))
    marked = [option for option in chips.options if "never in training" in option]
    assert len(marked) == 1
    assert "⇥" in marked[0]
