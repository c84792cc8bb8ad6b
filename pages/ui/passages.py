"""Passages in which one unit of the model is active, as Markdown."""

from collections.abc import Sequence

from pages.ui.text import md

CLEAR, STRONG = 0.25, 0.66
"""Shares of the peak from which a token is tinted, and set in bold."""


def passage(labels: Sequence[str], activations: Sequence[float]) -> str:
    """Return running text whose tokens are tinted where the unit is clearly active, bold where it is strongly so."""
    top = max(activations) or 1.0
    return "".join(_piece(label, activation / top) for label, activation in zip(labels, activations, strict=True))


def _piece(label: str, share: float) -> str:
    space, word = (" ", label[1:]) if label.startswith("·") else ("", label)
    text = md(word) or "·"
    if share >= STRONG:
        return f"{space}:orange-background[**{text}**]"
    return f"{space}:orange-background[{text}]" if share >= CLEAR else f"{space}{text}"
