"""The reader of typed arithmetic, against Python's own on generated expressions, and against what must not pass."""

import math
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from circuits.arithmetic import LONGEST, readings

CLOSE = 1e-12
"""Relative; the same operations in the same order on the same floats."""


def grown(parts):
    """Return expressions built of smaller ones, as pairs: how a reader types it, and how Python writes it."""
    operators = st.sampled_from([(" + ", " + "), ("-", "-"), ("*", "*"), (" × ", "*"), ("/", "/"), ("^", "**")])
    functions = st.sampled_from([("sqrt", "sqrt"), ("ln", "log"), ("√", "sqrt"), ("exp", "exp")])
    return st.one_of(
        st.builds(lambda a, op, b: (f"({a[0]}){op[0]}({b[0]})", f"({a[1]}){op[1]}({b[1]})"), parts, operators, parts),
        st.builds(lambda f, a: (f"{f[0]}({a[0]})", f"{f[1]}({a[1]})"), functions, parts),
        st.builds(lambda a: (f"−({a[0]})", f"-({a[1]})"), parts),
    )


NUMBERS = st.one_of(
    st.integers(0, 99_999).map(lambda n: (str(n), f"{n}.0")),
    st.integers(1, 999_999).map(lambda n: (f"{n / 100:.2f}", f"{n / 100:.2f}")),
    st.integers(1, 999_999).map(lambda n: (f"{n / 100:.2f}".replace(".", ","), f"{n / 100:.2f}")),
    st.sampled_from([("pi", "pi"), ("e", "e"), ("π", "pi"), ("½", "(1/2)"), ("2e-3", "2e-3"), ("10²", "100.0")]),
)


def python(expression: str) -> float | None:
    """Return what Python makes of ``expression``, or None where that is no finite real number."""
    try:
        value = eval(expression, {"__builtins__": {}}, {name: getattr(math, name) for name in dir(math)})
    except (ValueError, ArithmeticError):
        return None
    return value if isinstance(value, float) and math.isfinite(value) else None


@given(st.recursive(NUMBERS, grown, max_leaves=5).filter(lambda pair: len(pair[0]) <= LONGEST))
def test_it_agrees_with_python(pair):
    typed, written = pair
    expected = python(written)
    if expected is None:
        with pytest.raises(ValueError, match="is not a number"):
            readings(typed)
    else:
        assert any(math.isclose(number, expected, rel_tol=CLOSE) for number in readings(typed))


@given(st.text(max_size=120) | st.text("0123456789.,+-*/^()%√½² eE_lnpi'", max_size=120))
def test_any_text_gives_finite_numbers_or_one_sentence(typed):
    said = ""
    try:
        found = readings(typed)
    except ValueError as error:
        said = str(error)
    if said:
        assert "is not a number: type it like" in said
        assert len(said) < 300
    else:
        assert 1 <= len(found) <= 2
        assert all(isinstance(number, float) and math.isfinite(number) for number in found)


@pytest.mark.parametrize(
    ("typed", "number"),
    {
        "0,044": 0.044, "0,347": 0.347, "12,5": 12.5, "1234,567": 1234.567, "2,1e6": 2.1e6,
        "1,234,567": 1234567, "12,345.67": 12345.67, "12.345,67": 12345.67, "2.097.152": 2097152,
        "2 097 152": 2097152, "2'097'152": 2097152, "2_097_152": 2097152, 
        "4096^2": 4096**2, "4096**2": 4096**2, "4096²": 4096**2, "2*4096*256": 2097152, "2 × 4096 · 256": 2097152,
        "1/sqrt(512)": 512**-0.5, "1/√512": 512**-0.5, "512^-0.5": 512**-0.5, "√2": 2**0.5, "3√2": 3 * 2**0.5,
        "ln2/2": math.log(2) / 2, "ln(2)/2": math.log(2) / 2, "ln 2 / 2": math.log(2) / 2, "2ln2": 2 * math.log(2),
        "log(384)": math.log(384), "log2(8)": 3, "2/3.5": 4 / 7, "½": 0.5, "e^2": math.e**2, "2π": math.tau,
        "–0.4": -0.4, "−0.4": -0.4, "‑0.4": -0.4, "—0,4": -0.4, "+0.4": 0.4, "= 0.4": 0.4, "0.4.": 0.4, ".5": 0.5,
        "0.4 nats": 0.4, "0.4nats": 0.4, "4096*4096 entries": 4096**2, "2.1 million": 2.1e6, "16k": 16_000,
        "40 %": 0.4, "40%": 0.4, "40 percent": 0.4, "1-40%": 0.6, "1e-3": 1e-3, "2.1·10⁻³": 2.1e-3,
    }.items(),
)  # fmt: skip
def test_what_readers_type(typed, number):
    assert [found for found in readings(typed)] == [pytest.approx(number, rel=CLOSE)]


@pytest.mark.parametrize("typed", ["1,234", "1.234"])
def test_what_can_be_read_two_ways_is(typed):
    assert set(readings(typed)) == {1.234, 1234.0}


@pytest.mark.parametrize(
    "typed",
    [
        "", "  ", "nan", "inf", "-inf", "1e999", "1/0", "0^-1", "sqrt(-1)", "ln 0", "(-8)^(1/3)", "1/sqrt", "x", "half",
        "9**9**9", "9^9^9^9", "exp(exp(9))", "1,23,456", "3.14.15", "0.5, 0.6", "5%2", "0.4 0.5", "1:2", "²", "🙂",
        "__import__('os')", "().__class__", "[1]", "True", "'a'*9", "1 if 1 else 2", "lambda: 1", "sqrt(2, 3)",
        "sqrt(x=2)", "1 < 2", "1 // 2", "3 @ 4", "pow(2, 3)", "(" * 90, "\x00", "1\n2", "1" * 101, "1+" * 5000,
    ],
)  # fmt: skip
def test_what_is_no_number_is_refused_in_one_short_sentence_and_at_once(typed):
    start = time.process_time()
    with pytest.raises(ValueError, match="is not a number: type it like") as refused:
        readings(typed)
    assert time.process_time() - start < 0.5
    assert len(str(refused.value)) < 150
