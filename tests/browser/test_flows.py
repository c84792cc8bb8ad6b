"""What readers do, in a real browser: deep links, typing, clicking tokens, moving from page to page."""

import re

import pytest

from pages.ui import prompt, registry

sync_api = pytest.importorskip("playwright.sync_api")
expect = sync_api.expect

from tests.browser.conftest import PATIENCE, Server  # noqa: E402  (after the import that may skip)

pytestmark = pytest.mark.browser
expect.set_options(timeout=PATIENCE)

PAGES = registry.built()
NASTY = "$a$ <b>x</b> *y* :smile: [l](u) {{}} &amp; :red[z]"


def open_at(page, server, path: str) -> None:
    page.goto(f"{server.url}/{path}")
    settled(page)


def settled(page) -> None:
    """Wait until the page's title stands and no script runs any more."""
    expect(page.locator("h3").first).to_be_visible()
    expect(page.get_by_test_id("stStatusWidget")).to_have_count(0)
    expect(page.get_by_test_id("stException")).to_have_count(0)


def badge(page, verdict: str):
    """Return the badges of a verdict: ``holds`` or ``fails``."""
    return page.locator(".stMarkdownBadge", has_text=verdict)


def type_text(page, text: str) -> None:
    box = page.get_by_label(re.compile("^Your text"))
    box.fill(text)
    box.press("Enter")
    settled(page)


def test_a_deep_link_is_the_first_thing_a_fresh_server_sees(browser, tmp_path):
    server = Server(tmp_path / "log.txt")
    try:
        page = browser.new_page()
        open_at(page, server, "induction_heads")
        expect(page.locator("h3").first).to_contain_text("Induction heads")
        expect(page.get_by_text("Page not found")).to_have_count(0)
        expect(page.get_by_label(re.compile("^Your text"))).to_be_visible()
        page.close()
    finally:
        server.stop()
    assert "Traceback" not in server.log.read_text()


def test_the_first_page_has_its_slug_too(page, server):
    open_at(page, server, PAGES[0].slug)
    expect(page.locator("h3").first).to_contain_text(PAGES[0].title)
    expect(page.get_by_text("Page not found")).to_have_count(0)
    expect(page.get_by_test_id("stSidebarNav").get_by_role("link", name=PAGES[0].title)).to_have_count(1)


def test_a_link_restores_every_kind_of_control(page, server):
    """Among them what is first in its list and not the default: a widget leaves its default out of the URL."""
    chosen = "composition.first=L0H5&composition.second=L1H0&composition.kind=Q&composition.heads=1"
    open_at(page, server, f"composition?{chosen}")
    for _ in range(2):
        expect(page.get_by_text("Q-composition score of L0H5 → L1H0")).to_have_count(1)
        for label, head in (("Writes", "L0H5"), ("Reads", "L1H0")):
            expect(page.get_by_role("combobox", name=label)).to_have_value(head)
        assert chosen.split("&") == [part for part in page.url.split("?")[1].split("&") if part in chosen]
        page.reload()
        settled(page)


def test_a_choice_of_the_first_in_a_list_is_in_the_address(page, server):
    open_at(page, server, "composition")
    page.get_by_role("combobox", name="Reads").click()
    page.get_by_role("option", name="L1H0", exact=True).click()
    expect(page).to_have_url(re.compile(r"composition\.second=L1H0"))
    page.get_by_role("radio", name="Q", exact=True).click()
    expect(page).to_have_url(re.compile(r"composition\.kind=Q"))


@pytest.mark.parametrize("entry", PAGES, ids=lambda entry: entry.slug)
def test_page_opens_by_link_and_holds(page, server, entry):
    open_at(page, server, "" if entry.number == 1 else entry.slug)
    expect(page.locator("h3").first).to_contain_text(entry.title)
    expect(page.get_by_text("Page not found")).to_have_count(0)
    expect(badge(page, "holds").first).to_be_visible()
    expect(badge(page, "fails")).to_have_count(0)
    expect(page.get_by_test_id("stAlertContentError")).to_have_count(0)


def test_text_in_a_link_is_restored(page, server):
    open_at(page, server, "residual_stream?text=A+very+small+dog&pos=2")
    expect(page.get_by_label(re.compile("^Your text"))).to_have_value("A very small dog")
    expect(page.get_by_text("Read at position 2")).to_be_visible()


def test_a_link_with_nonsense_falls_back(page, server):
    open_at(page, server, "residual_stream?pos=99999&model=nonsense&residual_stream.angle=hello")
    expect(badge(page, "holds").first).to_be_visible()


def test_typing_makes_chips_and_survives_navigation(page, server):
    open_at(page, server, "residual_stream")
    type_text(page, "One two three")
    expect(page.get_by_role("radio", name=re.compile("·three")).or_(page.get_by_text("3 ·three")).first).to_be_visible()
    page.get_by_role("link", name=re.compile("One head")).first.click()
    expect(page.locator("h3").first).to_contain_text("One head")
    expect(page.get_by_label(re.compile("^Your text"))).to_have_value("One two three")
    expect(page).to_have_url(re.compile("text="))


def chips(page) -> str:
    """Return what the chips say, put together again: positions off, drawn spaces back to spaces."""
    texts = page.locator("[class*=st-key-chips] button").all_inner_texts()
    pieces = [re.sub(r"^\d+ | \(never in training\)$", "", text.strip()) for text in texts]
    return "".join(pieces).replace("\u2060", "").replace("·", " ")


def test_text_is_shown_literally(page, server):
    open_at(page, server, "residual_stream")
    type_text(page, NASTY)
    expect(page.locator("[class*=st-key-chips] button", has_text="red").first).to_be_attached()
    expect(page.locator("[class*=st-key-chips]")).to_have_count(1)  # the old text's chips are gone
    assert chips(page) == f"<BOS>{NASTY}"


def test_moving_the_control_moves_the_figure_and_the_badge_holds(page, server):
    open_at(page, server, "residual_stream")
    page.get_by_role("button", name="They stay", exact=True).click()
    expect(page.get_by_text("as you said")).to_be_visible()
    settled(page)
    slider = page.get_by_role("slider").first
    for _ in range(3):
        slider.press("ArrowRight")
    expect(slider).to_have_value("3")
    settled(page)
    expect(badge(page, "fails")).to_have_count(0)
    expect(page).to_have_url(re.compile("residual_stream.angle=3"))


def test_the_example_of_repeated_random_tokens(page, server):
    open_at(page, server, "induction_heads")
    page.get_by_role("button", name=re.compile("Examples")).click()
    page.get_by_role("button", name=re.compile("Repeat random tokens")).click()
    expect(page.get_by_label(re.compile("^Your text"))).not_to_have_value(prompt.DEFAULT_TEXT)
    # On its way to the new text the box may be empty, or hold the old one once more.
    expect(page.get_by_label(re.compile("^Your text"))).to_have_value(
        re.compile(r"^((?: [a-z]+){12})\1$", re.IGNORECASE)
    )
    value = page.get_by_label(re.compile("^Your text")).input_value()
    words = value.split()
    assert words[: len(words) // 2] == words[len(words) // 2 :]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("entry", PAGES, ids=lambda entry: entry.slug)
def test_nothing_is_wider_than_the_screen(browser, server, entry, scheme):
    window = browser.new_page(viewport={"width": 1280, "height": 720}, color_scheme=scheme)
    window.set_default_timeout(PATIENCE)
    open_at(window, server, "" if entry.number == 1 else entry.slug)
    overflow = window.evaluate(
        "(() => { const m = document.querySelector('[data-testid=stMain]'); return m.scrollWidth - m.clientWidth; })()"
    )
    assert overflow <= 1
    claim = window.locator("[data-testid=stMain] strong").first.bounding_box()
    assert claim["y"] < 400
    window.close()


def test_reset_puts_the_controls_back_and_takes_them_out_of_the_address(page, server):
    open_at(page, server, "residual_stream?residual_stream.angle=30&text=Keep+this")
    angle = page.get_by_role("slider", name="Rotate the stream")
    expect(angle).to_have_value("30")
    page.get_by_role("button", name="Reset this page").click()
    expect(angle).to_have_value("0")
    settled(page)
    expect(page.get_by_label(re.compile("^Your text"))).to_have_value("Keep this")
    assert "angle" not in page.url


@pytest.mark.parametrize("slug", ["", "qk_ov_circuits", "composition", "glossary"])
def test_the_back_button_brings_the_page_back(page, server, slug):
    open_at(page, server, slug)
    page.get_by_test_id("stSidebarNav").get_by_role("link", name="Path expansion").click()
    expect(page.locator("h3").first).to_contain_text("Path expansion")
    settled(page)
    page.go_back()
    expect(page.locator("h3").first).not_to_contain_text("Path expansion")
    settled(page)
    expect(page.get_by_test_id("stAlert").filter(has_text="could not be computed")).to_have_count(0)
    expect(page.get_by_role("button", name="Reset this page")).to_be_visible()


def test_an_emptied_text_stays_empty(page, server):
    open_at(page, server, "residual_stream")
    type_text(page, "")
    expect(page.get_by_text("empty: the model sees only")).to_be_visible()
    page.reload()
    settled(page)
    expect(page.get_by_label(re.compile("^Your text"))).to_have_value("")


def test_a_long_text_is_kept_out_of_the_address(page, server):
    open_at(page, server, "residual_stream")
    type_text(page, "日本" * 2000)
    expect(page.get_by_text("limit 256: the first 256 are used")).to_be_visible()
    assert len(page.url) < 1000


def test_a_word_of_vegas_own_language_is_a_label_like_any_other(page, server):
    """A chart whose axis expression held the string "if" stayed blank."""
    open_at(page, server, "big_idea?text=if+you+go+if")
    page.get_by_role("button", name="Skip", exact=True).click()
    settled(page)
    charts = page.get_by_test_id("stVegaLiteChart")
    expect(charts).to_have_count(3)
    for chart in charts.all():
        expect(chart.locator("svg, canvas").first).to_be_visible()


def test_a_training_is_watched_stopped_and_finished_while_the_page_stays_whole(page, server):
    open_at(page, server, "superposition")
    takeaways = page.get_by_text("Key takeaways")
    expect(page.get_by_text("Trained beforehand").first).to_be_visible()
    page.get_by_role("button", name="Train it here").first.click()
    expect(page.get_by_text(re.compile("All densities at once: step|Trained on this server"))).to_be_visible()
    # The default is done in two seconds, before a hand could stop it; the largest problem takes its time.
    open_at(page, server, "superposition?superposition.n=20&superposition.m=8")
    expect(page.get_by_text(re.compile("All densities at once: step"))).to_be_visible()
    expect(takeaways).to_have_count(1)
    stop = page.get_by_role("button", name="Stop", exact=True)
    assert stop.evaluate("button => button.scrollWidth <= button.clientWidth")  # its word is not cut
    stop.click()
    expect(page.get_by_text(re.compile(r"Stopped at step [\d,]+ of 1,500"))).to_be_visible()
    expect(stop).to_have_count(0)
    expect(takeaways).to_have_count(1)
    page.get_by_role("button", name="Go on", exact=True).click()
    expect(page.get_by_text("Trained on this server")).to_be_visible()
    settled(page)
    expect(badge(page, "holds").first).to_be_visible()
    expect(badge(page, "fails")).to_have_count(0)


def test_a_moved_control_trains_anew_beside_the_figures_of_before(page, server):
    open_at(page, server, "superposition")
    page.get_by_role("radio", name="linear", exact=True).click()
    expect(page.get_by_text("Still shown")).to_be_visible()
    expect(page.get_by_text("Key takeaways")).to_have_count(1)
    expect(page.get_by_text("in a linear model")).to_be_visible()
    expect(page.get_by_text("Still shown")).to_have_count(0)
    expect(badge(page, "fails")).to_have_count(0)
