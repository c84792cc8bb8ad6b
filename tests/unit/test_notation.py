"""The table of conventions and the shape checker against real tensors."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from circuits import notation
from circuits.notation import Factor, Sizes

SIZES = Sizes(n=5, V=11, d=7, r=3)
EXACT = 1e-10
"""float64 products of at most six factors."""


@pytest.fixture(scope="module")
def tensors() -> dict[str, dict[str, torch.Tensor]]:
    """One random matrix a name, in our shape, and the same matrix in the paper's."""
    generator = torch.Generator().manual_seed(0)
    ours = {
        name: torch.randn(*SIZES.of(axes["ours"]), dtype=torch.double, generator=generator)
        for name, axes in notation.MATRICES.items()
    }
    same = {name for name, axes in notation.MATRICES.items() if axes["ours"] == axes["paper"]}
    return {"ours": ours, "paper": {name: m if name in same else m.T for name, m in ours.items()}}


def multiply(expression: str, matrices: dict[str, torch.Tensor]) -> torch.Tensor:
    factors = [matrices[f.name].T if f.transposed else matrices[f.name] for f in notation.parse(expression)]
    return factors[0] if len(factors) == 1 else torch.linalg.multi_dot(factors)


@pytest.mark.parametrize("row", notation.TABLE, ids=lambda row: row.name)
def test_the_table_says_how_the_conventions_are_related(row, tensors):
    ours, paper = multiply(row.ours, tensors["ours"]), multiply(row.paper, tensors["paper"])
    expected = {"same": paper, "transposed": paper.T}[row.relation]
    torch.testing.assert_close(ours, expected, atol=EXACT, rtol=EXACT)


@pytest.mark.parametrize("convention", ["ours", "paper"])
@pytest.mark.parametrize("row", notation.TABLE, ids=lambda row: row.name)
def test_every_object_of_the_table_is_allowed_and_recognised(row, convention, tensors):
    product = notation.check(getattr(row, convention), convention, SIZES)
    assert SIZES.of(product.axes) == multiply(getattr(row, convention), tensors[convention]).shape
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


def test_a_size_of_zero_is_refused():
    with pytest.raises(ValueError, match="r = 0"):
        Sizes(n=5, V=11, d=7, r=0)
