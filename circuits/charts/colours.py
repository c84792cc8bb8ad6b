"""One colour per role on every page, told apart without red against green, legible in light and dark."""

DIRECT, QK, OV, PREVIOUS, INDUCTION, POSITION, REMOVED = (
    "#7a8493",
    "#2f7fc1",
    "#d97b0f",
    "#0f9e8a",
    "#8a5cd1",
    "#5a9e3a",
    "#d04437",
)
"""One colour per role on every page: direct path, where, what, the two heads of induction, positions, errors."""

ROLES = {
    "direct path": DIRECT,
    "token": DIRECT,
    "position": POSITION,
    "QK": QK,
    "OV": OV,
    "previous-token head": PREVIOUS,
    "induction head": INDUCTION,
    "removed": REMOVED,
}

CYCLE = (QK, OV, PREVIOUS, INDUCTION, POSITION, DIRECT, REMOVED)
"""The order in which unnamed series take colours."""
