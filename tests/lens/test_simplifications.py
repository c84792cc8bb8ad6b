"""LayerNorm as page 01 takes it apart, against TransformerLens' own LayerNorm."""

import torch
from transformer_lens.config import TransformerBridgeConfig
from transformer_lens.model_bridge import TransformerBridge

from circuits.simplifications import divide, fold_layer_norm, layer_norm, writes
from circuits.weights import Weights

EXACT = 1e-10
"""Both in float64; two independent forward passes."""


def test_folded_layer_norm_is_transformer_lens_layer_norm():
    torch.manual_seed(0)
    cfg = TransformerBridgeConfig(
        d_model=24,
        d_head=8,
        n_heads=3,
        n_layers=2,
        n_ctx=16,
        d_vocab=20,
        attn_only=True,
        normalization_type="LN",
        positional_embedding_type="standard",
        dtype=torch.float64,
    )
    model = TransformerBridge.boot_native(cfg, dtype=torch.float64)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if not name.endswith("bias"):
                weight.copy_(torch.randn_like(weight) / weight.shape[-1] ** 0.5)
    state = model.state_dict()
    gains = torch.stack([state[f"{name}.weight"] for name in ("blocks.0.ln1", "blocks.1.ln1", "ln_final")])
    weights = Weights.from_state_dict(state, n_layers=2, n_heads=3)
    tokens = torch.randint(20, (16,))

    logits = model(tokens[None])[0]
    ours = layer_norm(gains)(2, writes(weights, tokens, norm=layer_norm(gains)).sum(0)) @ weights.W_U
    folded = fold_layer_norm(weights, gains)
    after = divide(2, writes(folded, tokens, norm=divide).sum(0)) @ folded.W_U
    assert gains.std() > 0.1
    assert (ours - logits).abs().max() < EXACT
    assert (after - logits).abs().max() < EXACT
