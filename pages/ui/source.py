"""Show the code: the functions behind a page's figures, and lines to paste that import them and call one."""

import ast
import inspect
from collections.abc import Callable

import streamlit as st

from pages.ui.prompt import View, current_view

_RUN_IT = (
    "The library works on its own: start `.venv/bin/python` in the project's folder and paste these lines. "
    "Below them is the source of what they import."
)


def show_code(*functions: Callable, call: str = "", gives: float | None = None, model: str | None = None, ids=None):
    """Print the very functions behind the figures, under lines with which they run outside the app.

    ``call`` is one of them called on what is on the screen (``model``, ``weights`` and ``run`` are there for it) and
    ends in an expression; ``gives`` is its value, which the page shows too.  ``model`` and ``ids`` are given where
    the page looks at something else than the model and the text of the strip.
    """
    functions = tuple(map(inspect.unwrap, functions))
    with st.expander("Show the code", icon=":material/code:"):
        st.caption(_RUN_IT)
        lines = _lines(functions, call, model, ids, current_view())
        st.code(lines if gives is None else f"{lines}\n# {gives:.4g}, as on the page", language="python")
        for function in functions:
            st.caption(f"`{function.__module__}.{function.__qualname__}`")
            st.code(inspect.getsource(function), language="python")


def _lines(functions: tuple[Callable, ...], call: str, model: str | None, ids, view: View) -> str:
    """Return imports, what ``call`` needs of the model and its run, and ``call``."""
    lines = call.splitlines()
    imports = [line for line in lines if line.startswith("from ")]
    calls = [line for line in lines if line not in imports]
    wanted = {(function.__module__, function.__qualname__.split(".")[0]) for function in functions}
    wanted |= {(node.module, alias.name) for node in ast.parse("\n".join(imports)).body for alias in node.names}
    used = {node.id for node in ast.walk(ast.parse("\n".join(calls))) if isinstance(node, ast.Name)}
    setup = []
    if used & {"weights", "run"}:
        wanted |= {("circuits", "models")}
        setup.append(f'model = models.load("{model or view.model_name}")')
    if "weights" in used:
        wanted |= {("circuits.weights", "Weights")}
        setup.append("weights = Weights.of(model)")
    if "run" in used and ids is None:
        wanted |= {("circuits", "tokens")}
        setup.append(f"run = models.run(model, tokens.prompt(model, {view.prompt.text!r}).tensor)")
    elif "run" in used:
        setup.append(f"run = models.run(model, torch.tensor({list(ids)}))")
    if "Head" in used:
        wanted |= {("circuits.weights", "Head")}
    torch = ["import torch"] * any("torch." in line for line in setup + calls)
    return "\n\n".join("\n".join(part) for part in (torch, _imports(wanted), setup, calls) if part)


def _imports(wanted: set[tuple[str, str]]) -> list[str]:
    """Return one import line a module."""
    names: dict[str, list[str]] = {}
    for module, name in sorted(wanted):
        names.setdefault(module, []).append(name)
    return [f"from {module} import {', '.join(of_module)}" for module, of_module in names.items()]
