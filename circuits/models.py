"""Names to models: the family that is shipped, and the seam for models from the hub.

A model is a ``TransformerBridge``.  One object serves every session and is never changed; a run that
hangs hooks on it holds :data:`LOCK`.
"""

import contextlib
import hashlib
import json
import threading
from pathlib import Path

import torch
from jaxtyping import Int
from safetensors.torch import load as load_safetensors
from torch import Tensor
from transformer_lens.config import TransformerBridgeConfig
from transformer_lens.model_bridge import TransformerBridge
from transformers import PreTrainedTokenizerFast

from circuits.weights import Run, Weights, causal_mask

ASSETS = Path(__file__).resolve().parent.parent / "assets"
SHIPPED = ("zero-layer", "one-layer", "two-layer", "one-layer-mlp")
"""The model family of the app."""

RANK_FAMILY = tuple(f"zero-layer-d{d}" for d in (2, 4, 8, 16, 32, 64))
"""The zero-layer models of smaller d_model, for the rank slider of page 03."""

LOCK = threading.RLock()
"""Held by every run that uses hooks: hooks live on the one shared model."""

RESTORE = "git checkout -- {path}   (or train it again: python -m circuits.training {name} --corpus DIR)"


def load(name: str, dtype: torch.dtype = torch.float32, assets: Path = ASSETS) -> TransformerBridge:
    """Load a model by name: shipped (no network), or a TransformerLens name from the hub.

    Raises:
        ValueError: the name is unknown, or a file is missing or damaged; the message names the file and
            the command that restores it.
    """
    if name in SHIPPED + RANK_FAMILY:
        return _load_shipped(name, dtype, assets)
    raise ValueError(f"unknown model {name!r}; shipped are {', '.join(SHIPPED)}")


def _load_shipped(name: str, dtype: torch.dtype, assets: Path) -> TransformerBridge:
    folder = assets / "models" / name
    config = read_config(folder, name)
    state = read_weights(folder / "model.safetensors", config["sha256"], name)
    fields = {key: value for key, value in config.items() if key in CONFIG_FIELDS}
    # boot_native divides by zero while it initialises a model of no layers; we bring the weights anyway.
    cfg = TransformerBridgeConfig(**fields, init_weights=False, model_name=name, dtype=dtype)
    with torch.no_grad():  # not inference_mode: attribution patching differentiates through the model
        model = TransformerBridge.boot_native(cfg, tokenizer=tokenizer(assets), dtype=dtype)
        state = {key: value.to(dtype) for key, value in state.items()}
        state.setdefault("unembed.bias", torch.zeros(fields["d_vocab"], dtype=dtype))
        model.load_state_dict(state)
    return model.eval()


CONFIG_FIELDS = {"d_model", "d_head", "n_heads", "n_layers", "n_ctx", "d_vocab", "d_mlp", "act_fn", "attn_only"} | {
    "normalization_type",
    "positional_embedding_type",
}


def read_config(folder: Path, name: str) -> dict:
    """Read ``config.json``; a missing or broken file raises ``ValueError`` with the way back."""
    path = folder / "config.json"
    try:
        return json.loads(path.read_text())
    except (OSError, json.JSONDecodeError) as error:
        raise ValueError(f"{path} cannot be read ({error}). Restore it: {_restore(path, name)}") from error


def read_weights(path: Path, sha256: str, name: str) -> dict[str, Tensor]:
    """Read a safetensors file whose checksum is known, or raise ``ValueError`` with the way back."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ValueError(f"{path} is missing ({error}). Restore it: {_restore(path, name)}") from error
    if hashlib.sha256(content).hexdigest() != sha256:
        raise ValueError(f"{path} is damaged: its checksum is not the one noted. Restore it: {_restore(path, name)}")
    return load_safetensors(content)


def _restore(path: Path, name: str) -> str:
    with contextlib.suppress(ValueError):  # in another assets folder the whole path is the useful one
        path = path.relative_to(ASSETS.parent)
    return RESTORE.format(path=path, name="zero-layer" if name in RANK_FAMILY else name)


def tokenizer(assets: Path = ASSETS) -> PreTrainedTokenizerFast:
    """Load the one tokenizer of the family from ``assets/tokenizer``."""
    folder = assets / "tokenizer"
    try:
        return PreTrainedTokenizerFast.from_pretrained(folder)
    except (OSError, ValueError) as error:
        raise ValueError(f"{folder} cannot be read ({error}). Restore it: git checkout -- assets/tokenizer") from error


@torch.inference_mode()
def run(model: TransformerBridge, tokens: Int[Tensor, "*batch pos"]) -> Run:
    """Run the served model with every activation kept, as one :class:`~circuits.weights.Run`.

    Raises:
        ValueError: the prompt is longer than ``n_ctx``.
    """
    if tokens.shape[-1] > model.cfg.n_ctx:
        raise ValueError(f"the prompt has {tokens.shape[-1]} tokens, the model's limit is {model.cfg.n_ctx}")
    batch = tokens.shape[:-1]
    with LOCK:
        logits, cache = model.run_with_cache(tokens.reshape(-1, tokens.shape[-1]))
    layers = range(model.cfg.n_layers)

    def stack(name: str, *empty: int) -> Tensor:
        """Stack one activation over layers: [*batch, layer, …]."""
        parts = [cache[f"blocks.{layer}.{name}"] for layer in layers]
        stacked = torch.stack(parts, 1) if parts else logits.new_zeros(len(logits), 0, *empty)
        return stacked.unflatten(0, batch) if batch else stacked[0]

    def one(name: str) -> Tensor:
        return cache[name].unflatten(0, batch) if batch else cache[name][0]

    n, heads, d_model = tokens.shape[-1], model.cfg.n_heads, model.cfg.d_model
    q, k, z = (stack(f"attn.hook_{name}", n, heads, 1).transpose(-2, -3) for name in "qkz")
    # A native bridge's hook_attn_scores holds the pattern (4.3), so the scores are taken from q and k.
    scores = (q @ k.transpose(-1, -2) / model.cfg.d_head**0.5).masked_fill(causal_mask(n), -torch.inf)
    W_O = Weights.of(model).W_O
    has_mlp = not model.cfg.attn_only
    return Run(
        tokens=tokens,
        embed=one("hook_embed"),
        pos_embed=one("hook_pos_embed").expand_as(one("hook_embed")),
        scores=scores,
        pattern=stack("attn.hook_pattern", heads, n, n),
        head_out=z @ W_O,
        mlp_out=stack("hook_mlp_out", n, d_model) if has_mlp else None,
        resid_pre=stack("hook_resid_pre", n, d_model),
        resid_final=one("ln_final.hook_in"),
        logits=logits.unflatten(0, batch) if batch else logits[0],
    )
