"""Fixtures shared by all tests: one thread, shapes enforced, small random models in float64."""

import os

# Before torch is imported by anything: the tests of several workers share two cores.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ["HF_HUB_OFFLINE"] = "1"

import pytest
import torch
from jaxtyping import install_import_hook

import tests.checker  # noqa: F401  (the hook finds it by name)

# Shapes in signatures are checked across arguments only under the hook, so every test runs with it.
install_import_hook("circuits", "tests.checker.check")

from transformer_lens.config import TransformerBridgeConfig
from transformer_lens.model_bridge import TransformerBridge

from circuits import models
from circuits.weights import Weights

EXACT = 1e-9
"""float64 identities: products of a few hundred terms of size 1-100 lose at most six of sixteen digits."""

SERVED = 1e-3
"""float32 against another float32 route on the shipped models: logits reach 50, so 1e-5 relative."""


def random_weights(n_layers=2, n_heads=3, d_model=16, d_head=4, d_vocab=29, n_ctx=12, d_mlp=0, seed=0) -> Weights:
    """Return a small random model in float64, large enough in scale that attention is far from uniform."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int, scale: float = 1.0) -> torch.Tensor:
        return scale * torch.randn(*shape, generator=generator, dtype=torch.float64)

    attention = (n_layers, n_heads, d_model, d_head)
    mlp = {}
    if d_mlp:
        mlp = {
            "W_in": normal(n_layers, d_model, d_mlp, scale=d_model**-0.5),
            "b_in": normal(n_layers, d_mlp, scale=0.1),
            "W_out": normal(n_layers, d_mlp, d_model, scale=d_mlp**-0.5),
            "b_out": normal(n_layers, d_model, scale=0.1),
        }
    return Weights(
        W_E=normal(d_vocab, d_model),
        W_pos=normal(n_ctx, d_model),
        W_Q=normal(*attention, scale=d_model**-0.5),
        W_K=normal(*attention, scale=d_model**-0.5),
        W_V=normal(*attention, scale=d_model**-0.5),
        W_O=normal(n_layers, n_heads, d_head, d_model, scale=d_head**-0.5),
        W_U=normal(d_model, d_vocab),
        **mlp,
    )


def bridge_of(weights: Weights) -> TransformerBridge:
    """Return a TransformerBridge that holds ``weights``: the oracle for everything computed on them."""
    cfg = TransformerBridgeConfig(
        d_model=weights.d_model,
        d_head=weights.d_head,
        n_heads=weights.n_heads,
        n_layers=weights.n_layers,
        n_ctx=weights.n_ctx,
        d_vocab=weights.d_vocab,
        attn_only=weights.W_in is None,
        d_mlp=None if weights.W_in is None else weights.W_in.shape[2],
        act_fn="relu",
        normalization_type=None,
        positional_embedding_type="standard",
        init_weights=False,
        dtype=weights.W_E.dtype,
    )
    with torch.no_grad():
        bridge = TransformerBridge.boot_native(cfg, dtype=weights.W_E.dtype)
        bridge.load_state_dict(state_dict_of(weights, bridge))
    return bridge.eval()


def state_dict_of(weights: Weights, bridge: TransformerBridge) -> dict[str, torch.Tensor]:
    """Return ``weights`` under ``boot_native``'s names; what the family has not (biases) is zero."""
    state = {name: torch.zeros_like(value) for name, value in bridge.state_dict().items()}
    state |= {"embed.weight": weights.W_E, "pos_embed.weight": weights.W_pos, "unembed.weight": weights.W_U.T}
    for layer in range(weights.n_layers):
        for name, matrix in (("q", weights.W_Q), ("k", weights.W_K), ("v", weights.W_V)):
            state[f"blocks.{layer}.attn.{name}.weight"] = matrix[layer].transpose(-1, -2).flatten(0, 1)
        state[f"blocks.{layer}.attn.o.weight"] = weights.W_O[layer].flatten(0, 1).T
        if weights.W_in is not None:
            state[f"blocks.{layer}.mlp.in.weight"] = weights.W_in[layer].T
            state[f"blocks.{layer}.mlp.in.bias"] = weights.b_in[layer]
            state[f"blocks.{layer}.mlp.out.weight"] = weights.W_out[layer].T
            state[f"blocks.{layer}.mlp.out.bias"] = weights.b_out[layer]
    return state


@pytest.fixture(scope="session")
def small() -> Weights:
    """A two-layer attention-only model: 3 heads, d_model 16, d_head 4, 29 tokens."""
    return random_weights()


@pytest.fixture(scope="session")
def small_mlp() -> Weights:
    return random_weights(n_layers=1, d_mlp=24)


@pytest.fixture(scope="session")
def prompt() -> torch.Tensor:
    """Ten tokens in which some repeat; BOS first."""
    return torch.tensor([0, 5, 7, 5, 9, 11, 5, 7, 3, 11])


@pytest.fixture(scope="session")
def shipped():
    """Return a function from a name to the shipped model, each loaded once per worker."""
    loaded: dict[str, TransformerBridge] = {}

    def load(name: str) -> TransformerBridge:
        if name not in loaded:
            loaded[name] = models.load(name)
        return loaded[name]

    return load
