"""The one door through which readers' and tokenizers' text reaches Markdown."""

import re

_PUNCTUATION = re.compile(r"([!-/:-@\[-`{-~])")
_ZERO_WIDTH = "\u2060"  # word joiner: invisible, and no shortcode, directive, link or drawn arrow survives it
_AFTER = re.compile(r"(?<=[:@])|(?<=\.)(?=\w)|(?<=[-<>=~])(?=[-<>=~])")
"""Where Streamlit would go on after Markdown's own escapes: ``:emoji:``, ``a@b``, ``www.x``, ``->``."""


def md(text: str) -> str:
    """Return ``text`` so that Markdown shows it literally: no emphasis, maths, links, HTML, emoji or colours."""
    text = text.replace("\n", " ").replace("  ", " \u00a0")
    return _PUNCTUATION.sub(r"\\\1", _AFTER.sub(_ZERO_WIDTH, text))


def code(text: str) -> str:
    """Return ``text`` as an inline code span that no backtick inside can end."""
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", text)), default=0))
    text = text.replace("\n", "↵")
    return f"{fence} {text} {fence}" if text.strip("`") != text or text != text.strip() else f"{fence}{text}{fence}"
