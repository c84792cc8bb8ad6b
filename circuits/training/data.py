"""The corpus as the stages of the training command need it: tokenised, counted, cut into windows."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int, Integer
from tokenizers import Tokenizer
from torch import Tensor

from circuits.counts import BigramCounts, absolute_discount_loss, bigram_counts, unigram_loss
from circuits.tokens import windows
from circuits.training import corpus
from circuits.training.transformer import Shape

SIZES = Shape(n_layers=0)
"""The sizes the whole family shares: ``n_ctx`` 256, ``d_vocab`` 4096."""


@dataclass(frozen=True)
class Data:
    """One corpus under one tokenizer: ``train`` ids, ``held_out`` windows, and how many books they are from."""

    n_files: int
    train: Integer[np.ndarray, "token"]
    held_out: Int[Tensor, "window n_ctx"]

    @classmethod
    def read(cls, folder: Path, assets: Path, say: Callable[[str], None] = print) -> "Data":
        """Read and tokenise ``folder``.

        Raises:
            ValueError: there is no such folder, no ``.txt`` in it, or no tokenizer yet; or the text is too short
                to hold out one window.
        """
        file = assets / "tokenizer" / "tokenizer.json"
        if not file.exists():
            raise ValueError(f"{file} is missing. Make it first: python -m circuits.training tokenizer --corpus DIR")
        split = corpus.read(folder)
        say(f"tokenising {len(split.train)} files from {folder}")
        tokenizer = Tokenizer.from_file(str(file))
        held_out = windows(corpus.tokenise(split.held_out, tokenizer).tolist(), SIZES.n_ctx)
        if not len(held_out):
            raise ValueError(f"the text in {folder} is too short: its last 2 % must fill {SIZES.n_ctx} tokens")
        return cls(len(split.train), corpus.tokenise(split.train, tokenizer), held_out)

    @cached_property
    def table(self) -> BigramCounts:
        """The bigram counts of the training text."""
        return bigram_counts(torch.from_numpy(self.train.astype(np.int64)), SIZES.d_vocab)

    @cached_property
    def references(self) -> dict[str, float]:
        """What counting alone reaches on the held-out windows, nats per token."""
        return {
            "uniform": float(np.log(SIZES.d_vocab)),
            "unigram": unigram_loss(self.table, self.held_out),
            "bigram": absolute_discount_loss(self.table, self.held_out),
        }

    def facts(self) -> dict[str, int]:
        """Return the corpus in numbers, for ``config.json`` and the card."""
        return {
            "files": self.n_files,
            "training_tokens": self.table.n_tokens,
            "held_out_tokens": self.held_out[:, 1:].numel(),
            "tokens_never_seen": int((self.table.unigrams[1:] == 0).sum()),
        }
