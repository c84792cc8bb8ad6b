"""Questions: one to commit to before the figure is read, and a few that are checked in the page.

An exercise is data.  Its answer is one of :class:`Number`, :class:`Choice`, :class:`Text`, :class:`HeadName`,
:class:`Sizes`; keys that depend on weights are computed by the page from the weights.
"""

import re
from dataclasses import dataclass

import streamlit as st

from circuits import arithmetic
from circuits.weights import Head
from pages.ui.prompt import current_view
from pages.ui.text import md


@dataclass(frozen=True)
class Number:
    """A number, right within ``tolerance``, or within the share ``relative`` of it where only its order is asked for.

    Readers may type arithmetic: ``2/5``, ``0,4``, ``40 %``, ``1/sqrt(512)``, ``2*4096*256``; see
    :mod:`circuits.arithmetic`.  Where a comma can be read in two ways, either may be right.
    """

    value: float
    tolerance: float = 0.0
    relative: float = 1e-9

    def accepts(self, typed: str) -> bool:
        slack = max(self.tolerance, self.relative * abs(self.value)) + 1e-12
        return any(abs(number - self.value) <= slack for number in arithmetic.readings(typed))

    def shown(self) -> str:
        return f"{self.value:,.0f}" if float(self.value).is_integer() else f"{self.value:.6g}"


@dataclass(frozen=True)
class Choice:
    """One of several statements."""

    options: tuple[str, ...]
    correct: str

    def accepts(self, typed: str) -> bool:
        return typed == self.correct

    def shown(self) -> str:
        return self.correct


@dataclass(frozen=True)
class Text:
    """A word or a token: any of ``right``, compared without case and outer spaces."""

    right: tuple[str, ...]

    def accepts(self, typed: str) -> bool:
        return self._bare(typed) in map(self._bare, self.right)

    @staticmethod
    def _bare(typed: str) -> str:
        return typed.strip(" ·'\"“”‘’`").casefold()

    def shown(self) -> str:
        return self.right[0]


@dataclass(frozen=True)
class HeadName:
    """A head, typed as ``L1H4``, ``1.4``, ``(1, 4)`` or ``layer 1, head 4``."""

    right: tuple[Head, ...]

    def accepts(self, typed: str) -> bool:
        gap = r"[\s.,:()]*"
        pattern = rf"{gap}(?:l|layer)?{gap}(\d{{1,3}})(?:[\s.,:]+|{gap}h(?:ead)?{gap})(\d{{1,3}}){gap}"
        found = re.fullmatch(pattern, typed, re.IGNORECASE)
        if not found:
            raise ValueError(f"{typed!r} is not a head: type it like L1H4")
        return Head(int(found[1]), int(found[2])) in self.right

    def shown(self) -> str:
        return " or ".join(map(str, self.right))


@dataclass(frozen=True)
class Sizes:
    """A shape, typed as ``8 x 8``, ``8×8``, ``8 by 8``, ``(8, 8)`` or ``[8, 8]``."""

    value: tuple[int, ...]

    def accepts(self, typed: str) -> bool:
        text = re.sub(r"\b(by|times)\b|[×·]", "x", typed.casefold())
        if re.search(r"[x*]", text):  # then a comma can only stand between thousands
            text = re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", text)
        if not re.fullmatch(r"[\s\d\[\](),x*]+", text) or not re.search(r"\d", text):
            raise ValueError(f"{typed!r} is not a shape: type it like 8 x 8")
        return tuple(int(size[:9]) for size in re.findall(r"\d+", text)) == self.value

    def shown(self) -> str:
        return " × ".join(map(str, self.value))


Answer = Number | Choice | Text | HeadName | Sizes


@dataclass(frozen=True)
class Exercise:
    """One question with its key, two hints and a worked solution (all Markdown written by us)."""

    question: str
    answer: Answer
    hints: tuple[str, str]
    solution: str


@dataclass(frozen=True)
class Prediction:
    """What will the main figure show?  Asked before it is; ``why`` is told after the reader has committed."""

    question: str
    options: tuple[str, ...]
    correct: str
    why: str


def predict(prediction: Prediction) -> bool:
    """Ask once, above the main figure; return whether the figure may be shown (answered, or skipped)."""
    slug = current_view().page.slug
    committed = st.session_state.setdefault("_predicted", {})
    answer = committed.get(slug)
    if answer is None:
        with st.container(border=True):
            st.markdown(f":violet-badge[:material/psychology: predict first] {prediction.question}")
            buttons = st.columns(len(prediction.options) + 1)
            for column, option in zip(buttons, (*prediction.options, "Skip"), strict=False):
                column.button(
                    option,
                    key=f"predict {slug} {option}",
                    width="stretch",
                    type="tertiary" if option == "Skip" else "secondary",
                    on_click=committed.__setitem__,
                    args=(slug, option),
                )
        return False
    if answer == "Skip":
        return True
    right = answer == prediction.correct
    verdict = ":green-badge[:material/check: as you said]" if right else f":orange-badge[not so] You said: {answer}."
    st.markdown(f"{verdict} {prediction.why}")
    return True


def exercises(*items: Exercise) -> None:
    """Show a page's exercises; ticks are kept for the whole session."""
    slug = current_view().page.slug
    st.session_state.setdefault("_answer_keys", {})[slug] = items
    solved = st.session_state.setdefault("_solved", set())
    done = sum((slug, number) in solved for number in range(len(items)))
    st.markdown(f"#### Exercises :gray-badge[{done} of {len(items)} solved]")
    for number, item in enumerate(items):
        ticked = (slug, number) in solved
        icon = ":material/task_alt:" if ticked else ":material/radio_button_unchecked:"
        with st.expander(f"{number + 1}. {item.question}", icon=icon):
            _exercise(slug, number, item, solved)


def _exercise(slug: str, number: int, item: Exercise, solved: set) -> None:
    name = f"{slug} exercise {number}"
    typed = _answer_box(item.answer, name)
    if typed:
        try:
            if item.answer.accepts(typed):
                st.markdown(":green-badge[:material/check: right]")
                if (slug, number) not in solved:
                    solved.add((slug, number))
                    st.rerun()
            else:
                st.markdown(":orange-badge[not yet] Try again, or take a hint.")
        except ValueError as error:
            st.markdown(f":orange[{md(str(error))}]")
    shown = st.segmented_control(
        "Help", ["Hint 1", "Hint 2", "Solution"], key=f"{name} help", label_visibility="collapsed"
    )
    if shown == "Solution":
        st.markdown(f"**{md(item.answer.shown())}.** {item.solution}")
    elif shown:
        st.markdown(item.hints[["Hint 1", "Hint 2"].index(shown)])


def _answer_box(answer: Answer, name: str) -> str | None:
    if isinstance(answer, Choice):
        return st.radio("Your answer", answer.options, index=None, key=name, persist_state="session")
    with st.form(f"{name} form", border=False):
        box, button = st.columns([3, 1], vertical_alignment="bottom")
        typed = box.text_input("Your answer", key=name, max_chars=60, persist_state="session")
        button.form_submit_button("Check")
    return typed
