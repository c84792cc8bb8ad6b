"""The direct path against the served models of TransformerLens, in float64."""

import pytest
import torch

from circuits import bigrams, models
from circuits.weights import Weights

EXACT = 1e-9
"""float64 logits of size up to 30, sums over 256 dimensions."""


@pytest.mark.parametrize("name", ["zero-layer", *models.RANK_FAMILY])
def test_a_zero_layer_model_is_the_rows_of_its_direct_path(name):
    model = models.load(name, dtype=torch.double)
    tokens = torch.tensor([[0, 300, 7, 300, 4000, 1]])
    with torch.no_grad():
        logits = model(tokens)
    torch.testing.assert_close(logits, bigrams.direct_logits(Weights.of(model), tokens), atol=EXACT, rtol=EXACT)


def test_a_zero_layer_model_does_not_see_the_context():
    model = models.load("zero-layer", dtype=torch.double)
    with torch.no_grad():
        alone, later = model(torch.tensor([[0, 300]])), model(torch.tensor([[0, 300, 7, 300]]))
    torch.testing.assert_close(alone[0, -1], later[0, -1], atol=EXACT, rtol=EXACT)


def test_a_deeper_model_is_more_than_its_direct_path():
    model = models.load("two-layer", dtype=torch.double)
    tokens = torch.tensor([[0, 300, 7, 300]])
    with torch.no_grad():
        logits = model(tokens)
    assert (logits - bigrams.direct_logits(Weights.of(model), tokens)).abs().max() > 1


@pytest.mark.parametrize("name", models.RANK_FAMILY)
def test_the_family_has_the_rank_its_name_says(name):
    weights = Weights.of(models.load(name))
    assert bigrams.rank(weights) == weights.d_model == int(name.split("-d")[1])
