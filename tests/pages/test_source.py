"""The lines under "Show the code" run in a plain Python, and give the number that the page gives."""

import pytest
from streamlit.testing.v1 import AppTest

from pages.ui import registry
from tests.pages.test_pages import open_page

SHOWN = 6e-4
"""Relative: the page writes four digits, and float32 sums may be added up in another order."""


def pasted(at: AppTest) -> list[str]:
    """Return the blocks of code that begin with imports."""
    return [block.value for block in at.code if block.value.startswith(("from circuits", "import torch"))]


def run(lines: str) -> tuple[float, float]:
    """Execute all lines but the last two; return the value of the next to last, and the number said in the last."""
    *body, call, said = lines.splitlines()
    names: dict = {}
    exec("\n".join(body), names)
    return eval(call, names), float(said.removeprefix("# ").removesuffix(", as on the page"))


@pytest.mark.parametrize("page", registry.built(), ids=lambda page: page.slug)
def test_the_lines_to_paste_run(page):
    blocks = pasted(open_page(page))
    assert blocks
    if page.number <= 9:
        value, said = run(blocks.pop())
        assert value == pytest.approx(said, rel=SHOWN)
    for lines in blocks:
        exec(lines, {})


@pytest.mark.parametrize("text", ["say \"no\" \\n to 'it'", "", "$a$ `b` {c}"])
@pytest.mark.parametrize("slug", ["residual_stream", "path_expansion", "induction_heads"])
def test_any_text_can_stand_in_them(slug, text):
    at = open_page(registry.by_slug(slug), text, **{"induction_heads.source": "Your text"})
    value, said = run(*pasted(at))
    assert value == pytest.approx(said, rel=SHOWN, abs=SHOWN)
