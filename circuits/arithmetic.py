"""Arithmetic as people type it, read without running it.

Python's own parser makes the tree; :func:`_value` walks it and knows numbers, ``+ - * / ^``, six functions and two
constants, and nothing else.  Everything is a float, so no power can grow without end: it overflows, and is refused.

Before that, what a keyboard or a textbook offers is put into Python's signs: ``√2``, ``½``, ``10²``, ``ln 2``,
``40 %``, ``0.4 nats``, a dash for a minus.  A comma is read both ways, as the decimal sign and between thousands,
wherever both are well formed: ``0,347`` is one number, ``1,234`` may be either of two.
"""

import ast
import math
import operator
import re
import unicodedata
import warnings

LONGEST = 100
"""Characters that are read; no answer needs as many."""

_OPERATORS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
}
_FUNCTIONS = {"sqrt": math.sqrt, "exp": math.exp, "ln": math.log, "log": math.log, "log2": math.log2, "abs": abs}
_CONSTANTS = {"pi": math.pi, "e": math.e}
_WORDS = {"percent": 1e-2, "thousand": 1e3, "k": 1e3, "million": 1e6, "m": 1e6, "billion": 1e9}
"""What a word after a number is worth; any other word (``nats``, ``heads``) is taken for a unit."""

_SIGNS = {
    ord(sign): plain
    for plain, signs in {"*": "×·⋅∙", "/": "÷⁄∕", "-": "−–—‐‑﹣－", "**": "^", "pi": "π"}.items()
    for sign in signs
}
_RAISED = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
_NUMBER = r"\d+(?:\.\d*)?"
_GROUPED = {
    ",": re.compile(r"\d+(\.\d*)?|[1-9]\d{0,2}(,\d{3})+(\.\d*)?"),
    ".": re.compile(r"\d+(,\d+)?|[1-9]\d{0,2}(\.\d{3})+(,\d+)?"),
}
"""A well-formed number where this sign stands between thousands, and the other before the decimals."""


def readings(typed: str) -> tuple[float, ...]:
    """Return every number that ``typed`` may stand for: one, or two where a comma or a point can be read both ways.

    Raises:
        ValueError: it is no arithmetic, or its value is no finite number.
    """
    found = []
    for thousands in _GROUPED:
        try:
            number = _value(_tree(_in_python(typed[: LONGEST + 1], thousands)))
        except (ValueError, ArithmeticError, SyntaxError, RecursionError, MemoryError):
            continue
        if math.isfinite(number) and number not in found:
            found.append(number)
    if not found or len(typed) > LONGEST:
        short = typed if len(typed) <= 40 else typed[:39] + "…"
        raise ValueError(f"{short!r} is not a number: type it like 0.25, 1/4, 2^10, 1/sqrt(2) or 1e-3")
    return tuple(found)


def _tree(expression: str) -> ast.expr:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Python's own, on odd literals
        return ast.parse(expression, mode="eval").body


def _value(node: ast.expr) -> float:
    """Return the value of a tree of numbers, operators and the functions above.

    Raises:
        ValueError: there is anything else in it, or a function is asked for what it has no value for.
    """
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return float(number)
        case ast.Name(id=name) if name in _CONSTANTS:
            return _CONSTANTS[name]
        case ast.UnaryOp(op=op, operand=operand) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_value(operand))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _real(_OPERATORS[type(op)](_value(left), _value(right)))
        case ast.Call(func=ast.Name(id=name), args=[argument], keywords=[]) if name in _FUNCTIONS:
            return _FUNCTIONS[name](_value(argument))
    raise ValueError(f"{ast.unparse(node)} is no arithmetic")


def _real(number: float | complex) -> float:
    if isinstance(number, complex):
        raise ValueError(f"{number} is no real number")
    return number


def _in_python(typed: str, thousands: str) -> str:
    """Return ``typed`` in Python's signs; what can be read in two ways has ``thousands`` between thousands.

    Raises:
        ValueError: a number in it is well formed in neither way.
    """
    text = _plain(typed)
    text = re.sub(r"(?<=\d)[ '_](?=\d{3}(?!\d))", "", text)
    text = re.sub(r"\d[\d.,]*", lambda found: _ungrouped(found[0], thousands), text)
    text = re.sub(r"%(?=\s*([-+*/)]|$))", "/100", text)
    text = re.sub(rf"√ *({_NUMBER})", r"sqrt(\1)", text).replace("√", "sqrt")
    text = re.sub(rf"(?<![a-z])(sqrt|ln|log|exp) ?({_NUMBER})(?![\d.]| *\()", r"\1(\2)", text)
    text = re.sub(r"(?<=[\d)]) *(?=(sqrt|ln|log|exp|pi)\b)", "*", text)
    return _without_unit(text)


def _plain(typed: str) -> str:
    """Return ``typed`` in small letters, without exotic signs, a leading "=" or the full stop of a sentence."""
    text = re.sub(r"[⁰¹²³⁴⁵⁶⁷⁸⁹⁻]+", lambda raised: f"**({raised[0].translate(_RAISED)})", typed.casefold())
    text = "".join(map(_fraction, text)).translate(_SIGNS)
    return " ".join(text.split()).lstrip("=≈~ ").rstrip(" .,;")


def _fraction(char: str) -> str:
    """Return ``½`` as ``(1/2)``, and any other character as it is."""
    parts = unicodedata.decomposition(char).split()
    if parts[:1] != ["<fraction>"]:
        return char
    return "(" + "".join(chr(int(part, 16)) for part in parts[1:]) + ")"


def _ungrouped(number: str, thousands: str) -> str:
    """Return ``number`` as Python writes it: with this sign between thousands if it can be, else with the other."""
    for sign in (thousands, *_GROUPED):
        if _GROUPED[sign].fullmatch(number):
            return number.replace(sign, "").replace(",", ".")
    raise ValueError(f"{number} is no number, with points or with commas")


def _without_unit(text: str) -> str:
    """Take a word after the last number for what it is worth: ``2.1 million``, ``0.4 nats``, ``40 percent``."""
    found = re.fullmatch(r"(.*[\d.)]) ?([^\W\d_]+)", text)
    if not found or found[2] in {*_FUNCTIONS, *_CONSTANTS}:
        return text
    return f"({found[1]})*{_WORDS.get(found[2], 1)}"
