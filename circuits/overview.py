"""Three models on one prompt: where a logit came from, layer by layer."""

import torch
from jaxtyping import Float
from torch import Tensor

from circuits.residual import components, direct_logit_attribution
from circuits.weights import Run


@torch.inference_mode()
def logit_origins(run: Run, W_U: Float[Tensor, "d_model d_vocab"], token: int, position: int) -> dict[str, float]:
    """Split one logit into the direct path and each layer's heads; the parts sum to it.

    The logit is taken above the mean over the vocabulary: only differences between logits mean something, and
    only they can be compared between models.  For one prompt, of a model without an MLP.
    """
    centred = W_U - W_U.mean(1, keepdim=True)
    parts = direct_logit_attribution(components(run), centred, token, position)
    n_layers, n_heads = run.head_out.shape[:2]
    by_layer = parts[2:].reshape(n_layers, n_heads).sum(1)
    heads = {f"layer-{layer} heads": value.item() for layer, value in enumerate(by_layer)}
    return {"direct path": parts[:2].sum().item()} | heads


@torch.inference_mode()
def next_token(run: Run, position: int) -> Float[Tensor, "d_vocab"]:
    """Return the probability of every token to come after ``position``, ``softmax(logits)``."""
    return run.logits[position].softmax(-1)
