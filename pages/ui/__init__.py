"""Streamlit furniture shared by the pages; a page imports this and the library, nothing else."""

from pages.ui import cached
from pages.ui.controls import choice, head, select, slider, toggle, token
from pages.ui.exercises import (
    Choice,
    Exercise,
    HeadName,
    Number,
    Prediction,
    Sizes,
    Text,
    exercises,
    predict,
)
from pages.ui.frame import (
    begin,
    by_hand,
    chart,
    check,
    current_page,
    end,
    idea,
    limits,
    measure,
    readable_errors,
    show_code,
    style,
    takeaways,
)
from pages.ui.prompt import View, current_view, prompt_bar, random_repeat
from pages.ui.registry import navigation, routed
from pages.ui.text import code, md

__all__ = [
    "Choice",
    "Exercise",
    "HeadName",
    "Number",
    "Prediction",
    "Sizes",
    "Text",
    "View",
    "begin",
    "by_hand",
    "cached",
    "chart",
    "check",
    "choice",
    "code",
    "current_page",
    "current_view",
    "end",
    "exercises",
    "head",
    "idea",
    "limits",
    "md",
    "measure",
    "navigation",
    "predict",
    "prompt_bar",
    "random_repeat",
    "readable_errors",
    "routed",
    "select",
    "show_code",
    "slider",
    "style",
    "takeaways",
    "toggle",
    "token",
]
