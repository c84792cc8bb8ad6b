"""The frame every page shares: header, figures, checks, prose blocks, footer."""

import gc
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import altair as alt
import pandas as pd
import streamlit as st

from pages.ui import registry
from pages.ui.controls import reset
from pages.ui.prompt import View, current_view, fits_an_address
from pages.ui.text import md

_LOOK = Path(__file__).resolve().parent.parent.parent / "assets" / "style"
STYLE, ICON = _LOOK / "app.html", _LOOK / "icon.png"


def style() -> None:
    """Tighten the space above the first line, so that claim, control and figure share one screen."""
    st.html(STYLE)


def current_page(page) -> registry.Page:
    """Return our page for Streamlit's (which has the empty path for the first)."""
    return registry.by_slug(page.url_path) if page.url_path else registry.built()[0]


def begin(slug: str) -> View:
    """Start a page: make sure the router ran, draw title and claim, return what the reader looks at."""
    registry.require_router()
    view = current_view()
    page = registry.by_slug(slug)
    st.session_state.setdefault("_visited", set()).add(page.slug)
    st.markdown(f"### {page.number} · {page.title}")
    st.markdown(f"**{md(page.claim)}** :gray[*{md(page.section)}*]")
    return view


@st.cache_resource(show_spinner=False)
def spare_the_collector() -> None:
    """Take all that is loaded out of the garbage collector's rounds, once a server.

    Streamlit collects after every script run, the ticks of a progress bar included.  Over torch and what comes with
    it that takes a good part of a second in which no other thread runs: six readers who watched a bar stopped the
    server.
    """
    gc.collect()
    gc.freeze()


@contextmanager
def readable_errors() -> Iterator[None]:
    """Turn a library's ``ValueError`` into a sentence; anything else into an apology and a log entry."""
    try:
        yield
    except ValueError as error:
        st.error(md(str(error)), icon=":material/error:")
    except Exception:
        logging.getLogger(__name__).exception("a page failed")
        st.error("This page could not be computed. The other pages still work.", icon=":material/error:")


def chart(
    figure: alt.Chart,
    caption: str,
    alt: str,
    key: str | None = None,
    on_select: Callable | str = "ignore",
    table: pd.DataFrame | None = None,
):
    """Show a figure with what to notice under it, a text for screen readers, and its numbers as CSV.

    ``table`` is offered for download; without it, the chart's own data are.
    """
    event = st.altair_chart(figure, width="stretch", key=key, on_select=on_select, alt=alt)
    data = figure.data if table is None and isinstance(getattr(figure, "data", None), pd.DataFrame) else table
    if data is None:
        st.caption(caption)
        return event
    words, button = st.columns([8, 1], vertical_alignment="top")
    words.caption(caption)
    button.download_button(
        "",
        lambda: data.to_csv(index=False),
        file_name="figure.csv",
        mime="text/csv",
        icon=":material/download:",
        type="tertiary",
        on_click="ignore",
        help="The numbers behind this figure.",
        key=f"csv {key or caption[:60]}",
    )
    return event


def check(what: str, error: float, tolerance: float, note: str = "") -> None:
    """Show an identity evaluated on what is on the screen: the number, its tolerance, green or red."""
    holds = error <= tolerance
    colour, icon = ("green", ":material/check_circle:") if holds else ("red", ":material/cancel:")
    verdict = "holds" if holds else "fails"
    note = f" · {note}" if note else ""
    st.markdown(f":{colour}-badge[{icon} {verdict}] {what} = `{error:.1e}` (tolerance `{tolerance:.0e}`){note}")


def measure(what: str, value: str, note: str = "") -> None:
    """Show one measured number the way a check is shown, without a verdict."""
    st.markdown(f":blue-badge[:material/straighten: measured] {what} = `{value}` {note}")


def idea(words: str, formula: str, shapes: dict[str, str], paper: str | None = None) -> None:
    """Show the idea: words, one formula, the shape of each symbol; the paper's convention one click away."""
    st.markdown("#### The idea")
    text, symbols = st.columns([3, 2], gap="medium")
    text.markdown(words)
    with symbols:
        st.markdown("\n".join(f"- ${symbol}$: {shape}" for symbol, shape in shapes.items()))
        if paper:
            with st.popover("In the paper's convention", icon=":material/swap_horiz:"):
                st.latex(paper)
                st.markdown(
                    "The paper writes columns and multiplies from the left; the code here writes rows and "
                    "multiplies from the right. $W_{QK}$ is the same matrix in both, $W_{OV}$ is transposed."
                )
    st.latex(formula)


def by_hand(title: str, words: str) -> None:
    """Show an example small enough to follow with a pencil."""
    with st.expander(f"By hand: {title}", icon=":material/edit:"):
        st.markdown(words)


def limits(words: str) -> None:
    """Say what the page does not show."""
    st.info(f"**What this does not show.** {words}", icon=":material/visibility_off:")


def takeaways(*points: str) -> None:
    with st.container(border=True):
        st.markdown("**Key takeaways**\n" + "\n".join(f"- {point}" for point in points))


def end(view: View) -> None:
    """Close a page: previous and next, a link to this view, a reset."""
    st.divider()
    pages = registry.built()
    here = next(i for i, page in enumerate(pages) if page.slug == view.page.slug)
    back, link, again, forward = st.columns([3, 2, 2, 3], vertical_alignment="center")
    if here > 0:
        back.page_link(
            registry.streamlit_page(pages[here - 1]),
            label=f"Previous: {pages[here - 1].title}",
            icon=":material/arrow_back:",
        )
    with link, st.popover("Link to this view", icon=":material/link:", width="stretch"):
        st.caption("The address of this page restores the text, the model, the position and this page's controls.")
        if not fits_an_address(st.session_state["text"] or ""):
            st.caption(":orange[The text is too long for an address and is not in it.]")
        st.code(st.context.url or "", language=None, wrap_lines=True)
    again.button(
        "Reset this page", icon=":material/restart_alt:", on_click=reset, args=(view.page.slug,), width="stretch"
    )
    if here + 1 < len(pages):
        forward.page_link(
            registry.streamlit_page(pages[here + 1]),
            label=f"Next: {pages[here + 1].title}",
            icon=":material/arrow_forward:",
        )
