"""Composition scores against TransformerLens' own ``all_composition_scores``."""

import pytest
import torch
from transformer_lens.config import TransformerBridgeConfig
from transformer_lens.model_bridge import TransformerBridge

from circuits.composition import KINDS, composition_scores
from circuits.weights import Weights

TOLERANCE = 1e-12
"""Both in float64; TransformerLens goes through two SVDs, we through two QR factors."""


@pytest.fixture(scope="module")
def model() -> TransformerBridge:
    torch.manual_seed(0)
    cfg = TransformerBridgeConfig(
        d_model=32,
        d_head=4,
        n_heads=3,
        n_layers=3,
        n_ctx=16,
        d_vocab=20,
        attn_only=True,
        normalization_type=None,
        positional_embedding_type="standard",
        dtype=torch.float64,
    )
    return TransformerBridge.boot_native(cfg, dtype=torch.float64)


@pytest.mark.parametrize("kind", KINDS)
def test_scores_are_transformer_lens_scores(model, kind):
    oracle = model.all_composition_scores(kind).scores
    ours = composition_scores(Weights.of(model), kind)
    assert ours.max() > 0
    assert (ours - oracle).abs().max() < TOLERANCE
