"""Training on counts: the table's loss is the text's loss, its gradient is exact, and the best step is kept."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from circuits.counts import bigram_counts
from circuits.training import zero_layer
from circuits.training.zero_layer import Counts, Recipe, shares, split_counts, table_loss, train

FLOAT32 = 1e-5
"""float32 sums of a few thousand terms, on losses near 4."""

D_VOCAB, N_CTX = 40, 11


@pytest.fixture(scope="module")
def windows() -> torch.Tensor:
    """Windows that begin with BOS; together their first tokens need not be typical."""
    windows = torch.randint(1, D_VOCAB, (60, N_CTX), generator=torch.Generator().manual_seed(0))
    windows[:, 0] = 0
    return windows


def test_loss_of_the_table_is_the_loss_on_the_text(windows):
    """Pair by pair, with BOS's row weighing one prediction in n_ctx − 1 and answered by the unigrams."""
    generator = torch.Generator().manual_seed(1)
    W_E, W_U = torch.randn(D_VOCAB, 6, generator=generator), torch.randn(6, D_VOCAB, generator=generator)
    losses = F.cross_entropy((W_E @ W_U)[windows[:, 1:-1]].transpose(1, 2), windows[:, 2:], reduction="sum")
    start = F.cross_entropy(
        (W_E @ W_U)[0].expand(windows[:, 1:].numel(), -1), windows[:, 1:].flatten(), reduction="sum"
    )
    expected = (losses + start / (N_CTX - 1)) / (windows[:, 2:].numel() + len(windows))
    p = shares(bigram_counts(windows.flatten(), D_VOCAB), N_CTX)
    assert p.sum().item() == pytest.approx(1, abs=FLOAT32)
    torch.testing.assert_close(table_loss(W_E, W_U, p), expected, rtol=FLOAT32, atol=0)


def test_gradient_is_exact_in_any_number_of_blocks(windows, monkeypatch):
    p = shares(bigram_counts(windows.flatten(), D_VOCAB), N_CTX)
    generator = torch.Generator().manual_seed(1)
    W_E, W_U = (torch.randn(*s, generator=generator).requires_grad_() for s in ((D_VOCAB, 6), (6, D_VOCAB)))
    whole = -((W_E @ W_U).log_softmax(-1) * p).sum()
    expected = torch.autograd.grad(whole, (W_E, W_U))
    monkeypatch.setattr(zero_layer, "ROWS", 7)
    assert table_loss(W_E, W_U, p).item() == pytest.approx(whole.item(), rel=FLOAT32)
    for weight, grad in zip((W_E, W_U), expected, strict=True):
        torch.testing.assert_close(weight.grad, grad, rtol=0, atol=FLOAT32)


def test_split_takes_every_fiftieth_block_for_choosing():
    ids = np.random.default_rng(0).integers(1, D_VOCAB, 100_500).astype(np.uint16)
    counts = split_counts(ids, D_VOCAB)
    blocks = ids[:100_000].reshape(100, 1000)
    assert counts.choose.n_tokens == 2000
    assert counts.learn.n_tokens == 98_000
    assert np.array_equal(counts.choose.unigrams.numpy(), np.bincount(blocks[[49, 99]].ravel(), minlength=D_VOCAB))
    assert int(counts.choose.counts[counts.choose.pairs >= D_VOCAB].sum()) == 2 * 999  # no pair across a block's edge


def test_training_keeps_the_step_that_chooses_best(monkeypatch):
    """On forty tokens of text a table learns by heart: later steps are worse on the part left out."""
    monkeypatch.setattr(
        Recipe, "shape", property(lambda self: zero_layer.Shape(0, d_model=8, n_ctx=8, d_vocab=D_VOCAB))
    )
    ids = torch.randint(1, D_VOCAB, (400,), generator=torch.Generator().manual_seed(2))
    counts = Counts(bigram_counts(ids[:200], D_VOCAB), bigram_counts(ids[200:], D_VOCAB))
    weights, log = train(Recipe(8, steps=100), counts)
    losses = [row["validation_loss"] for row in log]
    assert losses[-1] > min(losses) + 0.1
    W_E, W_U = weights["embed.weight"].float(), weights["unembed.weight"].float().T
    kept = table_loss(W_E, W_U, shares(counts.choose, 8)).item()
    assert kept == pytest.approx(min(losses), abs=2e-3)  # float16 weights
    assert not weights["pos_embed.weight"].any()
    assert {value.dtype for value in weights.values()} == {torch.float16}


def test_schedule():
    recipe = Recipe(256)
    rates = [recipe.lr(step) for step in range(recipe.steps)]
    assert max(rates) == pytest.approx(recipe.peak_lr, rel=0.05)
    assert rates[0] == pytest.approx(recipe.peak_lr / recipe.warmup, rel=0.01)
    assert rates[-1] == pytest.approx(recipe.peak_lr * recipe.floor, rel=0.01)


def test_a_finished_run_is_read_back(tmp_path, monkeypatch):
    ids = torch.randint(1, D_VOCAB, (400,), generator=torch.Generator().manual_seed(2))
    counts = Counts(bigram_counts(ids[:200], D_VOCAB), bigram_counts(ids[200:], D_VOCAB))
    monkeypatch.setattr(
        Recipe, "shape", property(lambda self: zero_layer.Shape(0, d_model=8, n_ctx=8, d_vocab=D_VOCAB))
    )
    weights, log = zero_layer.run(Recipe(8, steps=10), counts, tmp_path / "run", resume=False)
    monkeypatch.setattr(zero_layer, "train", None)  # would fail if called again
    again, same_log = zero_layer.run(Recipe(8, steps=10), counts, tmp_path / "run", resume=True)
    assert same_log == log
    assert all(torch.equal(again[name], value) for name, value in weights.items())
