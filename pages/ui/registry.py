"""The pages of the app, in reading order, and how a request finds one."""

from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import streamlit as st

PAGES_FOLDER = Path(__file__).resolve().parent.parent
ATTENTION = ("one-layer", "two-layer", "one-layer-mlp")


@dataclass(frozen=True)
class Page:
    """One concept: its file, what it claims, and which models can show it (the first is its own)."""

    file: str
    title: str
    claim: str
    section: str
    icon: str
    models: tuple[str, ...]

    @property
    def number(self) -> int:
        return int(self.file[:2])

    @property
    def slug(self) -> str:
        """The ``url_path``: the file's stem without its number (a fresh server's router insists on it)."""
        return self.file[3:]

    @property
    def path(self) -> Path:
        return PAGES_FOLDER / f"{self.file}.py"


ALL = (
    Page(
        "01_big_idea",
        "The big idea",
        "A small transformer is a sum of paths that can be read one by one; only two layers can compose.",
        "Summary of results",
        ":material/lightbulb:",
        ("two-layer",),
    ),
    Page(
        "02_residual_stream",
        "The residual stream",
        "Every layer reads the stream with a linear map and writes by adding, so the stream is exactly a sum of "
        "writes, and its coordinates mean nothing by themselves.",
        "Transformer overview · Residual stream, virtual weights",
        ":material/water:",
        ("two-layer", "one-layer", "zero-layer", "one-layer-mlp"),
    ),
    Page(
        "03_zero_layer_bigrams",
        "Zero layers: bigrams",
        "With no layer between, all a transformer can be is a table of next-token scores of low rank: "
        "W_E W_U, the bigrams of its training text.",
        "Zero-layer transformers",
        ":material/table_chart:",
        ("zero-layer",),
    ),
    Page(
        "04_qk_ov_circuits",
        "One head: where and what",
        "An attention head is two independent tables: QK says where it looks, OV says what it does with what "
        "it finds there.",
        "Attention heads · QK and OV circuits",
        ":material/filter_center_focus:",
        ("two-layer", "one-layer"),
    ),
    Page(
        "05_path_expansion",
        "Path expansion",
        "With attention patterns held fixed, the logits are a sum over all paths from token to output, and the "
        "sum is exact.",
        "The path expansion trick",
        ":material/account_tree:",
        ("two-layer", "one-layer", "zero-layer"),
    ),
    Page(
        "06_skip_trigrams",
        "One layer: skip-trigrams",
        "A one-layer model is bigrams plus skip-trigrams, all readable from its weights, bugs included.",
        "One-layer attention-only transformers",
        ":material/linear_scale:",
        ("one-layer",),
    ),
    Page(
        "07_composition",
        "Two layers: composition",
        "Heads of the second layer read what heads of the first wrote, through their queries, keys or values; "
        "a norm, measured against chance, says who reads whom.",
        "Two-layer attention-only transformers · Composition",
        ":material/join_inner:",
        ("two-layer",),
    ),
    Page(
        "08_induction_heads",
        "Induction heads",
        "A previous-token head and a matching head together continue a pattern seen once; take the first away "
        "and the second goes blind.",
        "Induction heads",
        ":material/repeat:",
        ("two-layer",),
    ),
    Page(
        "09_phase_change",
        "The phase change",
        "Induction heads do not grow slowly: after a plateau they form within a small part of the run, and the "
        "second copy becomes predictable at that moment.",
        "After the paper: Olsson et al. 2022",
        ":material/timeline:",
        ("two-layer",),
    ),
    Page(
        "10_mlp_memories",
        "MLP layers as memories",
        "An MLP's output is a sum of value rows, each weighted by how well the stream matches its key column.",
        "After the paper: Geva et al. 2021",
        ":material/memory:",
        ("one-layer-mlp",),
    ),
    Page(
        "11_superposition",
        "Superposition",
        "When features are sparse, a ReLU model stores more of them than it has dimensions, and pays in interference.",
        "After the paper: Toy Models of Superposition, 2022",
        ":material/hexagon:",
        ("one-layer-mlp", "two-layer", "one-layer", "zero-layer"),
    ),
    Page(
        "12_dictionary_learning",
        "Dictionary learning",
        "A sparse autoencoder can find known features again; on a real model it finds some that mean something "
        "and many that do not.",
        "After the paper: Towards Monosemanticity, 2023",
        ":material/menu_book:",
        ("one-layer-mlp",),
    ),
    Page(
        "13_circuit_discovery",
        "Circuit discovery",
        "A circuit is a claim about which edges matter, and patching every edge of the model tests it.",
        "After the paper: patching, ACDC, attribution",
        ":material/hub:",
        ("two-layer",),
    ),
    Page(
        "14_glossary",
        "Glossary and notation",
        "Every term, every shape, both conventions, and the mistakes that are easy to make.",
        "Notation",
        ":material/dictionary:",
        ("two-layer", "one-layer", "one-layer-mlp"),
    ),
)

SECTIONS = {"The paper": range(1, 9), "What came after": range(9, 15)}


def built() -> list[Page]:
    """Return the pages whose file exists; what is not built is not offered."""
    return [page for page in ALL if page.path.exists()]


def by_slug(slug: str) -> Page:
    return next(page for page in ALL if page.slug == slug)


def streamlit_page(page: Page):
    """Return Streamlit's page for ours, without its icon: as a favicon it would be fetched from the network."""
    first = page == built()[0]
    return st.Page(
        page.path,
        title=f"{page.number} · {page.title}",
        url_path="" if first else page.slug,
        default=first,
    )


def navigation():
    """Register every page with Streamlit and return the one that was asked for.

    The first page has the empty path, and is found under its slug as well, without standing in the list twice.
    """
    sections = {
        name: [streamlit_page(page) for page in built() if page.number in numbers] for name, numbers in SECTIONS.items()
    }
    first = built()[0]
    alias = st.Page(first.path, title=f"{first.number} · {first.title}", url_path=first.slug, visibility="hidden")
    sections = {name: pages for name, pages in sections.items() if pages}
    return st.navigation(sections | {"": [alias]}, expanded=True)


@contextmanager
def routed(page):
    """Mark a page as started by ``app.py``, for as long as it runs."""
    st.session_state["_routed"] = page
    try:
        yield
    finally:
        del st.session_state["_routed"]


def require_router() -> None:
    """Start over through the router where a page was started without ``app.py``.

    A fresh server answers its first deep link by running the page file alone.  Registering the
    navigation and running again sends the same request through ``app.py``.
    """
    if "_routed" not in st.session_state:
        navigation()
        st.rerun()
