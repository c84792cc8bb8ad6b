"""What a model with attention is trained on: stretches of text, and sequences that repeat.

Natural text alone gives no induction heads in a run this small, so a share of the rows repeats: a
stretch of random length is followed by a block that is tiled to the end of the row.  Period and start
are random, row by row: with a fixed period one layer would solve the task by position alone.
A batch is a pure function of ``(seed, step)``, so a resumed run sees what the whole run would have seen.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

MIN_PERIOD, MAX_PERIOD = 4, 63


@dataclass(frozen=True)
class Batches:
    """Rows of ``n_ctx`` tokens drawn from ``text`` (one flat array of ids)."""

    text: np.ndarray
    n_ctx: int
    rows: int
    d_vocab: int
    seed: int

    def __post_init__(self):
        counts = np.bincount(self.text, minlength=self.d_vocab)
        counts[0] = -100  # never BOS
        # The square root of a smoothed count: rare tokens repeat too, but the model still sees
        # mostly tokens whose embedding the text has trained.
        weight = np.sqrt(counts + 100.0)
        object.__setattr__(self, "_cumulative", np.cumsum(weight / weight.sum()))

    def repeat_share(self, step: int) -> float:
        """Half of the rows repeat until induction heads have formed; then a third keeps them."""
        return float(np.interp(step, [2500, 5000], [0.5, 0.33]))

    def _stretch(self, rng: np.random.Generator, length: int, random: bool) -> np.ndarray:
        if random:
            return np.minimum(np.searchsorted(self._cumulative, rng.random(length)), self.d_vocab - 1)
        start = rng.integers(0, len(self.text) - length)
        return self.text[start : start + length].astype(np.int64)

    def _row(self, rng: np.random.Generator, step: int) -> tuple[np.ndarray, np.ndarray]:
        learn = np.ones(self.n_ctx)
        if rng.random() >= self.repeat_share(step):
            row = self._stretch(rng, self.n_ctx, random=False)
        else:
            random = rng.random() < 0.5
            period = int(rng.integers(MIN_PERIOD, MAX_PERIOD + 1))
            start = int(rng.integers(1, self.n_ctx // 2 + 1))
            block = np.resize(self._stretch(rng, period, random), self.n_ctx - start)
            row = np.concatenate([self._stretch(rng, start, random), block])
            if random:  # nothing predicts a random token before its second copy: no loss, no noise
                learn[: start + period + 1] = 0
        row[0], learn[0] = 0, 0
        return row, learn

    def __call__(self, step: int) -> tuple[Tensor, Tensor]:
        """Return tokens and loss weights, both ``[rows, n_ctx]``; the weights of a batch sum to 1."""
        rng = np.random.default_rng([self.seed, step])
        tokens, learn = map(np.stack, zip(*(self._row(rng, step) for _ in range(self.rows)), strict=True))
        return torch.from_numpy(tokens), torch.from_numpy(learn / learn.sum()).float()
