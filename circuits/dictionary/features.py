"""A dictionary of a transformer's MLP activations: what its features write, and what the model loses by it.

The vectors encoded are the activations after the relu, ``a = relu(x W_in + b_in)``, at every position.  So
feature ``i`` writes ``f_i W_dec[i] W_out`` to the stream, and in a one-layer model ``f_i W_dec[i] W_out W_U`` to
the logits.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from circuits import mlp
from circuits.contexts import Contexts
from circuits.dictionary.autoencoder import Autoencoder
from circuits.weights import Run, Weights, forward

BLOCK = 8
"""Windows at a time: the logits of eight windows of 256 tokens are 34 MB."""


def logit_effect(weights: Weights, model: Autoencoder, feature: int) -> Float[Tensor, "d_vocab"]:
    """Return ``W_dec[i] W_out W_U``, what one unit of the feature adds to every logit, its mean removed.

    Raises:
        ValueError: there is no such feature.
    """
    if not 0 <= feature < model.n_features:
        raise ValueError(f"there is no feature {feature}: they are 0 … {model.n_features - 1}")
    logits = model.W_dec[feature] @ mlp.values(weights) @ weights.W_U
    return logits - logits.mean()


def logit_shares(
    weights: Weights, model: Autoencoder, f: Float[Tensor, "feature"], token: int
) -> Float[Tensor, "feature"]:
    """Return what every feature adds to one logit, ``f_i W_dec[i] W_out W_U[:, token]``."""
    return f * (model.W_dec @ (mlp.values(weights) @ weights.W_U[:, token]))


def peak_purity(contexts: Contexts, windows: Int[Tensor, "window pos"]) -> Float[Tensor, "unit"]:
    """Return the share of each unit's top contexts that peak on its most common peak token.

    1 means "a detector of one token".  Contexts in which the unit is silent do not count; without any it is 0.
    """
    token = windows[contexts.window, contexts.position]
    active = contexts.activation > 0
    same = (token[:, :, None] == token[:, None, :]) & active[:, :, None] & active[:, None, :]
    return same.sum(-1).amax(-1) / active.sum(-1).clamp_min(1)


def splice(
    weights: Weights, run: Run, activation: Float[Tensor, "*batch pos d_mlp"]
) -> Float[Tensor, "*batch pos d_vocab"]:
    """Return the logits of a one-layer model whose MLP activations are replaced; ``b_out`` stays.

    Raises:
        ValueError: the model has more than one layer (later layers would have to be run again).
    """
    if weights.n_layers != 1:
        raise ValueError(f"activations are spliced into one-layer models; this one has {weights.n_layers} layers")
    stream = mlp.inputs(run) + activation @ mlp.values(weights) + weights.b_out[0]
    return stream @ weights.W_U


@dataclass(frozen=True)
class SplicedLosses:
    """Loss of the model as it is, with its MLP activations set to zero, and with them reconstructed."""

    clean: float
    zero: float
    spliced: float

    @property
    def recovered(self) -> float:
        """Return ``(L_zero − L_spliced) / (L_zero − L_clean)``: 1 loses nothing, 0 is no better than no MLP."""
        return (self.zero - self.spliced) / (self.zero - self.clean)


@torch.inference_mode()
def losses(weights: Weights, model: Autoencoder, windows: Int[Tensor, "window pos"]) -> SplicedLosses:
    """Measure the three losses in nats per predicted token; every position is replaced, BOS too."""
    sums = torch.zeros(3)
    for block in windows.split(BLOCK):
        run = forward(weights, block)
        activation = mlp.activations(weights, mlp.inputs(run))
        replaced = (splice(weights, run, a) for a in (torch.zeros_like(activation), model(activation)))
        for k, logits in enumerate((run.logits, *replaced)):
            predicted = logits[:, :-1].flatten(0, 1)
            sums[k] += torch.nn.functional.cross_entropy(predicted, block[:, 1:].flatten(), reduction="sum")
    clean, zero, spliced = (sums / windows[:, 1:].numel()).tolist()
    return SplicedLosses(clean, zero, spliced)
