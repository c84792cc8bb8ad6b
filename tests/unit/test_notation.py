"""The table of conventions and the shape checker against real tensors."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from circuits import models, notation
from circuits.notation import Factor, Sizes
from circuits.weights import Head, Weights, forward

SIZES = Sizes(n=5, V=11, d=7, r=3)
SIZES_OF_ONE = Sizes(n=4, V=32, d=256, r=32)
"""The shipped one-layer model on four tokens, cut to 32 words."""
EXACT = 1e-10
"""float64 products of at most six factors."""


@pytest.fixture(scope="module")
def tensors() -> dict[str, torch.Tensor]:
    """One random matrix a name, in our shape."""
    generator = torch.Generator().manual_seed(0)
    return {
        name: torch.randn(*SIZES.of(axes["ours"]), dtype=torch.double, generator=generator)
        for name, axes in notation.MATRICES.items()
    }


@pytest.mark.parametrize("row", notation.TABLE, ids=lambda row: row.name)
def test_the_table_says_how_the_conventions_are_related(row, tensors):
    assert notation.disagreement(row, tensors) < EXACT
    wrong = row._replace(relation={"same": "transposed", "transposed": "same"}[row.relation])
    ours = notation.multiply(row.ours, tensors)
    if ours.shape[0] == ours.shape[1] and row.name != "pattern":
        assert notation.disagreement(wrong, tensors) > 0.1, "a square product tells the relations apart"


def test_multiply_reads_left_to_right(tensors):
    torch.testing.assert_close(notation.multiply("W_Q W_Kᵀ", tensors), tensors["W_Q"] @ tensors["W_K"].T)


def test_the_shipped_model_obeys_the_table():
    weights = Weights.of(models.load("one-layer")).double()
    run = forward(weights, torch.tensor([0, 300, 7, 300]))
    named = notation.matrices(weights, run, Head(0, 3))
    assert {name: SIZES_OF_ONE.of(axes["ours"]) for name, axes in notation.MATRICES.items()} == {
        name: tuple(matrix.shape) for name, matrix in named.items()
    }
    torch.testing.assert_close(named["A"] @ named["x"] @ named["W_V"] @ named["W_O"], run.head_out[0, 3])
    assert all(notation.disagreement(row, named) < EXACT for row in notation.TABLE)


def test_shapes_are_turned_round_where_the_matrix_is():
    for row, ours, paper in notation.shapes(SIZES):
        assert paper == (ours if row.relation == "same" else ours[::-1])


@pytest.mark.parametrize("convention", ["ours", "paper"])
@pytest.mark.parametrize("row", notation.TABLE, ids=lambda row: row.name)
def test_every_object_of_the_table_is_allowed_and_recognised(row, convention, tensors):
    named = tensors if convention == "ours" else notation.as_in_paper(tensors)
    product = notation.check(getattr(row, convention), convention, SIZES)
    assert SIZES.of(product.axes) == notation.multiply(getattr(row, convention), named).shape
    assert row.name in product.verdict
    assert not product.silent


def test_qk_is_the_same_and_ov_is_transposed():
    relation = {row.name: row.relation for row in notation.TABLE}
    assert relation["QK matrix"] == relation["QK circuit"] == "same"
    assert relation["OV matrix"] == relation["OV circuit"] == "transposed"


def test_the_paper_s_qk_written_with_our_matrices_fails_silently():
    product = notation.check("W_Q.T @ W_K", "ours", SIZES)
    assert product.axes == ("r", "r")
    assert product.silent
    assert "Not the QK matrix" in product.verdict


def test_swapped_roles_fail_silently_too():
    product = notation.check("W_K @ W_Q.T", "ours", SIZES)
    assert product.axes == ("d", "d")
    assert product.silent
    assert "transpose of the QK matrix" in product.verdict


def test_a_product_that_does_not_fit_names_both_sizes():
    product = notation.check("W_E @ W_K.T", "ours", SIZES)
    assert product.axes is None
    assert "d = 7" in product.verdict
    assert "r = 3" in product.verdict


def test_sizes_that_are_equal_by_accident_are_no_match():
    product = notation.check("W_Q @ W_K", "ours", Sizes(n=5, V=11, d=4, r=4))
    assert product.silent
    assert "only happen to be equal" in product.verdict


@given(st.lists(st.builds(Factor, st.sampled_from(list(notation.MATRICES)), st.booleans()), min_size=1, max_size=4))
def test_the_checker_agrees_with_torch_on_any_product(factors):
    expression = " @ ".join(map(str, factors))
    for convention in ("ours", "paper"):
        zeros = [torch.zeros(SIZES.of(notation.axes(factor, convention))) for factor in factors]
        product = notation.check(expression, convention, SIZES)
        try:
            expected = zeros[0] if len(zeros) == 1 else torch.linalg.multi_dot(zeros)
        except RuntimeError:
            assert product.axes is None
        else:
            assert SIZES.of(product.axes) == expected.shape


@pytest.mark.parametrize("expression", ["W_Q W_Kᵀ", "W_Q · W_K^T", "  W_Q@W_K.T\n", "W_Q * W_K^{T}"])
def test_other_ways_of_typing_a_product(expression):
    assert notation.parse(expression) == (Factor("W_Q"), Factor("W_K", True))


@pytest.mark.parametrize(("expression", "named"), [("", "type a product"), ("W_Q @ W_Z", "W_Z"), ("$x$ <b>", "x")])
def test_what_cannot_be_read_is_named(expression, named):
    with pytest.raises(ValueError, match=named):
        notation.check(expression, "ours", SIZES)


@pytest.mark.parametrize("convention", ["ours", "paper"])
@pytest.mark.parametrize(
    ("short", "name"), [("W_QK", "QK matrix"), ("W_OV", "OV matrix"), ("W_QK.T", "transpose of the QK matrix")]
)
def test_qk_and_ov_may_be_named(convention, short, name, tensors):
    named = tensors if convention == "ours" else notation.as_in_paper(tensors)
    product = notation.check(short, convention, SIZES)
    assert product.axes == ("d", "d")
    assert f"the {name}" in product.verdict
    W_QK, W_OV = (
        (named["W_Q"] @ named["W_K"].T, named["W_V"] @ named["W_O"])
        if convention == "ours"
        else (named["W_Q"].T @ named["W_K"], named["W_O"] @ named["W_V"])
    )
    expected = {"W_QK": W_QK, "W_OV": W_OV, "W_QK.T": W_QK.T}[short]
    spelled = " @ ".join(map(str, product.factors))
    torch.testing.assert_close(notation.multiply(spelled, named), expected)


@pytest.mark.parametrize(
    ("expression", "convention", "name"),
    [
        ("W_E @ W_QK @ W_E.T", "ours", "QK circuit"),
        ("W_E.T @ W_QK @ W_E", "paper", "QK circuit"),
        ("W_E @ W_OV @ W_U", "ours", "OV circuit"),
        ("W_U @ W_OV @ W_E", "paper", "OV circuit"),
        ("A @ x @ W_OV", "ours", "head output"),
    ],
)
def test_the_circuits_as_the_pages_write_them(expression, convention, name):
    product = notation.check(expression, convention, SIZES)
    assert product.verdict == f"This is the {name}."
    assert not product.silent


def test_a_size_of_zero_is_refused():
    with pytest.raises(ValueError, match="r = 0"):
        Sizes(n=5, V=11, d=7, r=0)
