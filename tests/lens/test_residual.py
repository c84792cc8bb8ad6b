"""The stream's parts against TransformerLens' own decomposition."""

import torch

from circuits import models, residual
from tests.conftest import EXACT, bridge_of


def test_components_are_what_transformer_lens_caches(small, prompt):
    bridge = bridge_of(small)
    _, cache = bridge.run_with_cache(prompt[None])
    parts = residual.components(models.run(bridge, prompt))
    by_name = dict(zip(parts.names, parts.values, strict=True))
    assert (by_name["token"] - cache["hook_embed"][0]).abs().max() < EXACT
    heads = sum(by_name[f"L0H{head}"] for head in range(small.n_heads))
    assert (heads - cache["blocks.0.hook_attn_out"][0]).abs().max() < EXACT
    assert (parts.total() - cache["blocks.1.hook_resid_post"][0]).abs().max() < EXACT


def test_attribution_against_the_served_logits(shipped):
    model = shipped("two-layer")
    ids = torch.tensor([0, 300, 400, 500, 300, 400])
    run = models.run(model, ids)
    share = residual.direct_logit_attribution(residual.components(run), model.W_U, token=500, position=5)
    assert abs(share.sum().item() - run.logits[5, 500].item()) < 1e-4  # float32 sum of 18 terms of size 10
