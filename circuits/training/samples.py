"""Passages written by our own models, for pages that look through much text.

The novels stay out of this project, so neurons and features are shown on text that the shipped models
sampled.  A model can recite: a window in which any twelve tokens in a row stand in the corpus is dropped.  And a
model with induction heads, once it has repeated itself, goes on doing so: no four tokens in a row are drawn twice
in a window.  What is rude is dropped as well.
"""

import re
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int, Integer
from tokenizers import Tokenizer
from torch import Tensor
from tqdm import tqdm

from circuits import models
from circuits.training.data import Data
from circuits.training.transformer import Block, Shape, Transformer, restore

NAMES = ("one-layer-mlp", "two-layer")
TEMPERATURE, RUN, ONCE = 0.8, 12, 4
"""``RUN`` tokens in a row must not stand in the corpus, ``ONCE`` in a row must not come twice in a window."""

N_WINDOWS, BATCH = 160, 40

UNFIT = re.compile(r"shit|fuck|cunt|nigg|whore|bitch|harlot", re.IGNORECASE)
"""Stems that old novels, or a model that makes up words, may produce and no lecture hall needs."""


@torch.inference_mode()
def sample(
    model: Transformer, n_windows: int, temperature: float, generator: torch.Generator
) -> Int[Tensor, "window n_ctx"]:
    """Sample windows of ``n_ctx`` tokens that begin with BOS; BOS itself is never drawn again.

    Keys and values of earlier positions are kept, so that every position is computed once.
    """
    shape = model.shape
    past = torch.empty(2, shape.n_layers, n_windows, shape.n_heads, shape.n_ctx, shape.d_head)
    tokens = torch.zeros(n_windows, shape.n_ctx, dtype=torch.long)
    for position in range(shape.n_ctx - 1):
        x = model.embed(tokens[:, position, None]) + model.pos_embed.weight[position]
        for layer, block in enumerate(model.blocks):
            x = _one_position(block, x, position, *past[:, layer])
        logits = model.unembed(x[:, 0]) / temperature
        logits[:, 0] = -torch.inf
        _forbid_repeats(logits, tokens[:, : position + 1])
        tokens[:, position + 1] = torch.multinomial(logits.softmax(-1), 1, generator=generator)[:, 0]
    return tokens


def _forbid_repeats(logits: Float[Tensor, "window d_vocab"], tokens: Int[Tensor, "window pos"]) -> None:
    """Rule out every token that would end a run of ``ONCE`` tokens which the window holds already."""
    if tokens.shape[1] < ONCE:
        return
    earlier = tokens.unfold(1, ONCE, 1)
    same = (earlier[:, :, :-1] == tokens[:, None, 1 - ONCE :]).all(-1)
    window, start = same.nonzero(as_tuple=True)
    logits[window, earlier[window, start, -1]] = -torch.inf


def _one_position(block: Block, x: Tensor, position: int, keys: Tensor, values: Tensor) -> Tensor:
    """Apply one block at one position, ``x: [window, 1, d_model]``, and write its key and value into the past."""
    attn, seen = block.attn, slice(position + 1)
    keys[:, :, position : position + 1] = attn.heads(attn.k, x)
    values[:, :, position : position + 1] = attn.heads(attn.v, x)
    z = F.scaled_dot_product_attention(attn.heads(attn.q, x), keys[:, :, seen], values[:, :, seen])
    x = x + attn.o(z.transpose(1, 2).flatten(2))
    return x + block.mlp(x) if hasattr(block, "mlp") else x


def shipped(name: str, assets: Path) -> Transformer:
    """Return a shipped model as the plain transformer it was trained as, which is faster without hooks."""
    folder = assets / "models" / name
    config = models.read_config(folder, name)
    shape = Shape(**{field.name: config[field.name] for field in fields(Shape) if field.name in config})
    return restore(shape, models.read_weights(folder / "model.safetensors", config["sha256"], name))


def runs(tokens: Integer[np.ndarray, "*window pos"], length: int) -> np.ndarray:
    """Return a 64-bit hash of every ``length`` tokens in a row: equal runs have equal hashes."""
    factors = np.random.default_rng(0).integers(1, 2**63, length, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    n = tokens.shape[-1] - length + 1
    return sum(tokens[..., i : i + n].astype(np.uint64) * factors[i] for i in range(length))


def recites(windows: Integer[np.ndarray, "window pos"], known: np.ndarray) -> Bool[np.ndarray, "window"]:
    """Return which windows hold ``RUN`` tokens in a row whose hash is among the ``known`` of the corpus, sorted."""
    mine = runs(windows[:, 1:], RUN)
    nearest = np.searchsorted(known, mine).clip(max=len(known) - 1)
    return (known[nearest] == mine).any(-1)


def write(data: Data, assets: Path, seed: int = 0) -> dict[str, int]:
    """Write ``assets/corpus/sampled.npz`` (``tokens``: [window, n_ctx]); return how many were dropped and why."""
    generator = torch.Generator().manual_seed(seed)
    corpus = np.concatenate([data.train, data.held_out[:, 1:].numpy().astype(np.uint16).ravel()])
    known = np.sort(runs(corpus, RUN))
    tokenizer = Tokenizer.from_file(str(assets / "tokenizer" / "tokenizer.json"))
    kept, report = [], {"sampled": 0, "recited": 0, "unfit": 0}

    def good(windows: Integer[np.ndarray, "window pos"]) -> Bool[np.ndarray, "window"]:
        recited, rude = recites(windows, known), unfit(tokenizer.decode_batch(windows[:, 1:].tolist()))
        report["recited"] += int(recited.sum())
        report["unfit"] += int((rude & ~recited).sum())
        return ~(recited | rude)

    for name in NAMES:
        windows = _good_windows(shipped(name, assets), good, N_WINDOWS // len(NAMES), generator, report)
        kept.append(windows)
    np.savez_compressed(assets / "corpus" / "sampled.npz", tokens=np.concatenate(kept).astype(np.uint16))
    return report | {"kept": N_WINDOWS}


def unfit(texts: list[str]) -> Bool[np.ndarray, "window"]:
    """Return which texts hold a word that is not for every audience."""
    return np.array([bool(UNFIT.search(text)) for text in texts], dtype=bool)


def _good_windows(
    model: Transformer, good: Callable, n_windows: int, generator: torch.Generator, report: dict[str, int]
) -> Integer[np.ndarray, "window pos"]:
    """Sample until there are ``n_windows`` that are ``good``; count in ``report`` how many were sampled."""
    kept = []
    bar = tqdm(total=n_windows, desc="sampling")
    while (missing := n_windows - sum(map(len, kept))) > 0:
        windows = sample(model, BATCH, TEMPERATURE, generator).numpy()
        kept.append(windows[good(windows)][:missing])
        report["sampled"] += len(windows)
        bar.update(len(kept[-1]))
    return np.concatenate(kept)
