"""The rules of the house: who imports whom, how long things are, and that every page is registered."""

import ast
import json
import re
from pathlib import Path
from statistics import median

import pytest

ROOT = Path(__file__).resolve().parent.parent
LIBRARY = sorted((ROOT / "circuits").rglob("*.py"))
PAGES = sorted((ROOT / "pages").glob("*.py"))
FURNITURE = sorted((ROOT / "pages" / "ui").rglob("*.py"))


def imports(path: Path) -> set[str]:
    """Return the top-level and dotted names a file imports."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {node.module or ""} | {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def functions(path: Path) -> list[ast.FunctionDef]:
    return [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)]


def code_lines(function: ast.FunctionDef) -> int:
    """Return a function's lines without its docstring."""
    body = function.body
    documented = isinstance(body[0], ast.Expr) and isinstance(getattr(body[0], "value", None), ast.Constant)
    skipped = body[0].end_lineno - body[0].lineno + 1 if documented else 0
    return function.end_lineno - function.lineno + 1 - skipped


@pytest.mark.parametrize("path", LIBRARY, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_library_knows_nothing_of_streamlit_or_the_pages(path):
    assert not {name for name in imports(path) if name.split(".")[0] in ("streamlit", "pages")}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_pages_hold_no_mathematics_and_no_chart_grammar(path):
    """A page may index, join and compare what the library returns; decompositions and marks are made elsewhere."""
    assert not {name for name in imports(path) if name.split(".")[0] in ("altair", "transformer_lens")}
    tree = ast.parse(path.read_text())
    called = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert not called & {"einsum", "linalg", "svd", "mark_rect", "mark_bar", "mark_line"}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_pages_say_their_claim(path):
    docstring = ast.get_docstring(ast.parse(path.read_text()))
    assert docstring
    assert docstring.startswith("Claim: ")


def test_cached_functions_live_in_the_furniture_only():
    decorated = [
        path for path in PAGES + LIBRARY if "cache_data" in path.read_text() or "cache_resource" in path.read_text()
    ]
    assert not decorated


@pytest.mark.parametrize("path", FURNITURE, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_cache_is_bounded(path):
    """A cached function of no arguments holds one thing for ever; any other says how many."""
    for function in functions(path):
        cached = [ast.unparse(mark) for mark in function.decorator_list if "st.cache_" in ast.unparse(mark)]
        if cached and (function.args.args or function.args.kwonlyargs):
            assert "max_entries" in cached[0], function.name


@pytest.mark.parametrize("path", LIBRARY, ids=lambda path: str(path.relative_to(ROOT)))
def test_functions_are_short(path):
    long = {function.name: code_lines(function) for function in functions(path) if code_lines(function) > 40}
    assert not long
    assert len(path.read_text().splitlines()) <= 320


def test_the_usual_function_is_very_short():
    assert median(code_lines(function) for path in LIBRARY for function in functions(path)) <= 12


@pytest.mark.parametrize("path", LIBRARY, ids=lambda path: str(path.relative_to(ROOT)))
def test_public_functions_are_documented(path):
    tree = ast.parse(path.read_text())
    assert ast.get_docstring(tree)
    bare = [
        node.name
        for node in tree.body
        if isinstance(node, (ast.FunctionDef, ast.ClassDef))
        and node.name[0] != "_"
        and not ast.get_docstring(node)
        # What is often said, and what is right, stand in the decorator and are shown in the app.
        and not any("often_said" in ast.unparse(mark) for mark in node.decorator_list)
    ]
    assert not bare


def test_every_page_file_is_registered_under_its_own_stem():
    from pages.ui import registry

    assert {page.path for page in registry.built()} == set(PAGES)
    for page in registry.ALL:
        assert page.path.stem == f"{page.number:02d}_{page.slug}"


def test_the_router_is_short():
    assert len((ROOT / "app.py").read_text().splitlines()) < 60


def test_every_direct_import_is_required():
    required = re.findall(r"^[\w-]+", (ROOT / "requirements.txt").read_text(), re.MULTILINE)
    known = {name.replace("-", "_").lower() for name in required} | {"circuits", "pages", "PIL"}
    standard = set(__import__("sys").stdlib_module_names)
    used = {name.split(".")[0] for path in LIBRARY + PAGES + FURNITURE for name in imports(path) if name}
    assert {name for name in used if name not in standard and name.lower() not in known | {"pil"}} == set()


def test_assets_stay_small():
    files = [path for path in (ROOT / "assets").rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 110e6


def test_configuration_keeps_readers_and_network_apart():
    import tomllib

    config = tomllib.loads((ROOT / ".streamlit" / "config.toml").read_text())
    assert config["browser"]["gatherUsageStats"] is False
    assert config["server"]["showEmailPrompt"] is False
    assert config["client"]["showErrorDetails"] == "none"


def test_the_tokenizer_is_what_transformers_loads():
    config = json.loads((ROOT / "assets" / "tokenizer" / "tokenizer_config.json").read_text())
    assert config["bos_token"] == "<|endoftext|>"
