"""The one door through which readers' and tokenizers' text reaches Markdown."""

import re

_PUNCTUATION = re.compile(r"([!-/:-@\[-`{-~])")
_ZERO_WIDTH = "\u2060"  # word joiner: invisible, and no emoji shortcode or directive survives it


def md(text: str) -> str:
    """Return ``text`` so that Markdown shows it literally: no emphasis, maths, links, HTML, emoji or colours."""
    escaped = _PUNCTUATION.sub(r"\\\1", text.replace("\n", " "))
    return escaped.replace("\\:", f"\\:{_ZERO_WIDTH}")


def code(text: str) -> str:
    """Return ``text`` as an inline code span that no backtick inside can end."""
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", text)), default=0))
    text = text.replace("\n", "↵")
    return f"{fence} {text} {fence}" if text.strip("`") != text or text != text.strip() else f"{fence}{text}{fence}"
