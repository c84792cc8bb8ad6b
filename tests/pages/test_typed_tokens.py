"""A box for a token: empty it follows the model's guess, and what is typed stays."""

import json

import pytest
from streamlit.testing.v1 import AppTest

from circuits import tokens
from pages.ui import cached, registry
from tests.pages.test_pages import assert_whole, open_page

OTHER = "The cat sat on the mat. The cat sat on the"


def box(at: AppTest, slug: str):
    return next(field for field in at.text_input if field.key == f"{slug}.target")


def guess(at: AppTest, model: str) -> str:
    view = at.session_state["_view"]
    token = cached.run(model, view.ids).logits[view.focus].argmax()
    return tokens.label(view.model, int(token))


def titles(at: AppTest) -> str:
    specs = [json.loads(chart.proto.spec) for chart in at.get("vega_lite_chart")]
    return json.dumps(specs, ensure_ascii=False)


@pytest.mark.parametrize("slug", ["big_idea", "residual_stream", "path_expansion"])
def test_the_token_follows_the_guess_until_one_is_typed(slug):
    at = open_page(registry.by_slug(slug))
    first = guess(at, "two-layer")
    assert box(at, slug).value == ""
    assert box(at, slug).placeholder == f"{first} (the model's guess)"
    at.text_input(key="text").set_value(OTHER).run()
    second = guess(at, "two-layer")
    assert second != first, "two texts with different guesses"
    assert box(at, slug).placeholder == f"{second} (the model's guess)"
    assert f"ogit of {second}" in titles(at)

    box(at, slug).set_value(" cat").run()
    assert "ogit of ·cat" in titles(at)
    at.text_input(key="text").set_value("A dog").run()
    assert "ogit of ·cat" in titles(at), "what was typed stays"
    box(at, slug).set_value(" cats and dogs").run()
    assert "ogit of ·cat" in titles(at), "what is no token is explained, and the last good one kept"
    assert any("is 5 tokens" in caption.value for caption in at.caption)
    box(at, slug).set_value("").run()
    assert f"ogit of {guess(at, 'two-layer')}" in titles(at)
    assert_whole(at)
