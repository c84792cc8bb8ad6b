"""What readers type stays what they typed: literal in Markdown, visible in labels, BOS only at the start."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from circuits import tokens
from pages.ui.text import code, md


@given(st.text(max_size=60))
@settings(max_examples=60, deadline=None)
def test_text_survives_the_round_trip(shipped, text):
    model = shipped("zero-layer")
    ids = tokens.encode(model, text)
    assert ids[0] == 0
    assert 0 not in ids[1:]
    rebuilt = b"".join(tokens.token_bytes(model, token) for token in ids[1:]).decode("utf-8")
    assert rebuilt == text.encode("utf-8", "replace").decode("utf-8")


@given(st.text(min_size=1, max_size=40))
@settings(max_examples=60, deadline=None)
def test_every_label_is_visible_and_unique(shipped, text):
    model = shipped("zero-layer")
    ids = tokens.encode(model, text)
    unique = tokens.unique_labels(model, ids)
    assert len(set(unique)) == len(ids)
    for label in tokens.labels(model, ids):
        assert label.strip()
        assert " " not in label
        assert label.isprintable()


def test_a_typed_special_token_is_plain_text(shipped):
    ids = tokens.encode(shipped("zero-layer"), "a <|endoftext|> b")
    assert ids.count(0) == 1


def test_white_space_and_bytes_are_drawn(shipped):
    model = shipped("zero-layer")
    ids = tokens.encode(model, "\t\n 中")
    text = "".join(tokens.labels(model, ids))
    assert "⇥" in text
    assert "↵" in text
    assert "·" in text
    assert "\\xe4" in text.lower()


def test_the_limit_counts_bos_and_says_what_was_cut(shipped):
    model = shipped("zero-layer")
    for length in (254, 255, 256, 100_000):
        prompt = tokens.prompt(model, " the" * length)
        assert prompt.n_tokens == length + 1
        assert len(prompt.ids) == min(length + 1, 256)
        assert prompt.cut == (length > 255)


def test_a_word_that_is_no_token_says_what_would_be_one(shipped):
    model = shipped("zero-layer")
    assert tokens.single_token(model, " the") == tokens.encode(model, " the")[1]
    with pytest.raises(ValueError, match="empty"):
        tokens.single_token(model, "")
    with pytest.raises(ValueError, match="tokens"):
        tokens.single_token(model, " Timbuktu went")


def test_windows_begin_with_bos_and_drop_the_rest():
    cut = tokens.windows([0, *range(1, 25), 0, *range(25, 32)], n_ctx=8)
    assert cut.shape == (4, 8)
    assert cut[:, 0].tolist() == [0] * 4
    assert cut[:, 1:].flatten().tolist() == list(range(1, 29))


@pytest.mark.parametrize("text", ["a`b", "`", "``x``", " lead", "", "a\nb"])
def test_code_spans_cannot_be_ended_from_inside(text):
    span = code(text)
    fence = span[: len(span) - len(span.lstrip("`"))]
    assert span.endswith(fence)
    assert fence not in span[len(fence) : -len(fence)] or text == ""


def test_markdown_is_escaped_everywhere():
    escaped = md("$a$ <b> *y* :smile: [l](u) {{}} &amp; #h |")
    for character in "$<>*[](){}&;#|":
        assert f"\\{character}" in escaped
    assert ":smile:" not in escaped


WORD_JOINER = "\u2060"


@pytest.mark.parametrize(
    "text", ["a -> b", "a <= b", "a -- b", "mail a@b.co", "www.google.com", "https://x.y", ":home:"]
)
def test_nothing_is_left_for_links_arrows_and_emoji(text):
    """Streamlit turns these after Markdown's escapes; a word joiner inside ends every such pattern."""
    shown = md(text)
    assert shown.replace("\\", "").replace(WORD_JOINER, "") == text
    for pattern in ("->", "<=", "--", "@b", "www.g", "://", ":home"):
        assert pattern not in shown.replace("\\", "")


def test_two_blanks_stay_two():
    assert md("a  b").replace("\u00a0", " ") == "a  b"
    assert "  " not in md("a    b")
