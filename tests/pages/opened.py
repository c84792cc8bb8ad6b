"""One page, opened by its slug with the question skipped: what most tests of a page begin with."""

from streamlit.testing.v1 import AppTest

from pages.ui import registry

APP = str(registry.PAGES_FOLDER.parent / "app.py")


def opened(slug: str, seconds: float = 120, **state) -> AppTest:
    """Open a page whose controls have the values of ``state``; it must show no exception and no error."""
    at = AppTest.from_file(APP, default_timeout=seconds).run()
    at.session_state["_predicted"] = {slug: "Skip"}
    for name, value in state.items():
        at.session_state[f"{slug}.{name}"] = value
    at.switch_page(f"pages/{registry.by_slug(slug).file}.py").run()
    assert not at.exception
    assert not at.error
    return at


def opened_and_holding(slug: str, seconds: float = 120, **state) -> AppTest:
    """Open a page as :func:`opened` does; no identity on it may fail."""
    at = opened(slug, seconds, **state)
    assert not [block for block in at.markdown if ":red-badge" in block.value]
    return at
