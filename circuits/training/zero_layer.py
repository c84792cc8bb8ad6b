"""The zero-layer family, trained on counts.

A zero-layer model sees one token and predicts the next, ``logits = W_E W_U``; its loss on a text depends on
the text through the bigram counts alone:

.. math:: \\mathrm{loss} = -\\sum_{ab} p_{ab} \\log \\mathrm{softmax}(W_E W_U)_{ab}, \\qquad
          p_{ab} = c_{ab} / \\textstyle\\sum c

So no text is read while it trains: every step takes the exact gradient over the whole corpus.  ``W_pos`` is
zero and stays zero, so the weights *are* the table.  BOS is a row of it: what follows BOS in a window that
begins anywhere is the unigram distribution, once in ``n_ctx − 1`` predictions.

A part of the **training** text is cut out; the step whose weights do best on it is the one that is kept.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Integer
from safetensors.torch import load_file, save_file
from torch import Tensor
from tqdm import tqdm

from circuits.counts import BigramCounts, bigram_counts
from circuits.training.transformer import Shape

BLOCK, EVERY = 1000, 50
"""Of the training text, cut into blocks of 1,000 tokens, every 50th (of a short text the last) chooses when to stop."""

ROWS = 256
"""Rows of the table a time: 4 MB of logits stay in the cache, the whole 64 MB would not."""

LOG_EVERY = 10


@dataclass(frozen=True)
class Recipe:
    """Everything that decides a zero-layer run besides the counts."""

    d_model: int
    steps: int = 200
    peak_lr: float = 0.1
    warmup: int = 20
    floor: float = 0.05
    betas: tuple[float, float] = (0.9, 0.98)
    weight_decay: float = 0.01
    seed: int = 0

    @property
    def shape(self) -> Shape:
        return Shape(n_layers=0, d_model=self.d_model)

    def lr(self, step: int) -> float:
        """Linear warm-up times a cosine from ``peak_lr`` to ``floor · peak_lr``."""
        cosine = 0.5 * (1 + np.cos(np.pi * step / self.steps))
        return self.peak_lr * min(1, (step + 1) / self.warmup) * (self.floor + (1 - self.floor) * cosine)


class Counts(NamedTuple):
    """The training text's counts: what is learned from, and what chooses the step."""

    learn: BigramCounts
    choose: BigramCounts


def split_counts(ids: Integer[np.ndarray, "token"], d_vocab: int) -> Counts:
    """Count the training text in two parts; pairs across the edge of a block belong to neither."""
    blocks = torch.from_numpy(ids[: len(ids) // BLOCK * BLOCK].astype(np.int64)).unflatten(0, (-1, BLOCK))
    blocks = torch.nn.functional.pad(blocks, (1, 0))  # a BOS before each block: a seam that is not counted
    choose = torch.arange(len(blocks)) % EVERY == min(EVERY, len(blocks)) - 1
    return Counts(*(bigram_counts(blocks[part].flatten(), d_vocab) for part in (~choose, choose)))


def shares(table: BigramCounts, n_ctx: int) -> Float[Tensor, "d_vocab d_vocab"]:
    """Return ``p[a, b]``: the share of predictions made from ``a`` whose right answer is ``b``; sums to 1."""
    p = table.dense().float()
    p[0] /= n_ctx - 1
    return p / p.sum()


def table_loss(
    W_E: Float[Tensor, "d_vocab d_model"], W_U: Float[Tensor, "d_model d_vocab"], p: Float[Tensor, "d_vocab d_vocab"]
) -> Float[Tensor, ""]:
    """Return the loss of the table ``W_E W_U`` on a text with shares ``p``, in nats per predicted token.

    Where gradients are wanted they are made on the way, block by block: ``backward`` need not be called.
    """
    loss = W_E.new_zeros(())
    for first in range(0, len(W_E), ROWS):
        rows = slice(first, first + ROWS)
        block = -((W_E[rows] @ W_U).log_softmax(-1) * p[rows]).sum()
        if block.requires_grad:
            block.backward()
        loss += block.detach()
    return loss


def initial(recipe: Recipe) -> tuple[Tensor, Tensor]:
    """Return ``W_E`` and ``W_U`` as they start: small random numbers, differentiable."""
    generator = torch.Generator().manual_seed(recipe.seed)
    d_vocab, d_model = recipe.shape.d_vocab, recipe.d_model
    W_E = 0.3 * torch.randn(d_vocab, d_model, generator=generator)
    W_U = 0.2 * d_model**-0.5 * torch.randn(d_model, d_vocab, generator=generator)
    return W_E.requires_grad_(), W_U.requires_grad_()


def train(recipe: Recipe, counts: Counts) -> tuple[dict[str, Tensor], list[dict]]:
    """Train one model; return the weights that did best on the part that chooses, and the log.

    The weights are float16 under ``boot_native``'s key names.
    """
    shape = recipe.shape
    learn, choose = (shares(table, shape.n_ctx) for table in counts)
    W_E, W_U = initial(recipe)
    optimiser = torch.optim.AdamW([W_E, W_U], betas=recipe.betas, weight_decay=recipe.weight_decay, fused=True)
    log, best, kept = [], np.inf, None
    bar = tqdm(range(recipe.steps), desc=f"zero-layer d_model {recipe.d_model}")
    for step in bar:
        for group in optimiser.param_groups:
            group["lr"] = recipe.lr(step)
        optimiser.zero_grad()
        loss = table_loss(W_E, W_U, learn).item()
        optimiser.step()
        if step % LOG_EVERY == LOG_EVERY - 1:
            with torch.no_grad():
                chosen = table_loss(W_E, W_U, choose).item()
            log.append({"step": step + 1, "train_loss": round(loss, 4), "validation_loss": round(chosen, 4)})
            bar.set_postfix(loss=f"{loss:.3f}", validation=f"{chosen:.3f}")
            if chosen < best:
                best, kept = chosen, (W_E.detach().clone(), W_U.detach().clone())
    return state_dict(*kept, n_ctx=shape.n_ctx), log


def state_dict(
    W_E: Float[Tensor, "d_vocab d_model"], W_U: Float[Tensor, "d_model d_vocab"], n_ctx: int
) -> dict[str, Tensor]:
    """Return the weights under ``boot_native``'s key names, float16; positions and the bias are zero."""
    weights = {
        "embed.weight": W_E,
        "pos_embed.weight": torch.zeros(n_ctx, W_E.shape[1]),
        "unembed.weight": W_U.T,
        "unembed.bias": torch.zeros(W_U.shape[1]),
    }
    return {name: value.to(torch.float16).contiguous() for name, value in weights.items()}


def run(recipe: Recipe, counts: Counts, folder: Path, resume: bool) -> tuple[dict[str, Tensor], list[dict]]:
    """Train one model into ``folder``, or with ``resume`` read back the run that was finished there."""
    weights, log = folder / "model.safetensors", folder / "log.json"
    if resume and log.exists():
        return load_file(weights), json.loads(log.read_text())
    state, rows = train(recipe, counts)
    folder.mkdir(parents=True, exist_ok=True)
    save_file(state, weights)
    log.write_text(json.dumps(rows))
    return state, rows
