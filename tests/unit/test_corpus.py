"""Reading books, and the batches a model with attention is trained on."""

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer

from circuits import models
from circuits.training import corpus
from circuits.training.batches import MAX_PERIOD, MIN_PERIOD, Batches

D_VOCAB, N_CTX = 4096, 256


@pytest.mark.parametrize(
    ("raw", "normal"),
    [
        ("\ufeffOne line\nand  its\r\n\r\nend.\n", "One line and its end."),
        ("“Yes,” he said, ‘no’.", "\"Yes,\" he said, 'no'."),
        ("a—b – c -- d ―e", "a - b - c - d - e"),
        ("well-known", "well-known"),
        ("an _italic_ word", "an italic word"),
        ("cafe\u0301\u00a0au\tlait", "café au lait"),
        ("", ""),
    ],
)
def test_normalise(raw, normal):
    assert corpus.normalise(raw) == normal
    assert corpus.normalise(normal) == normal


def test_read_holds_out_the_end_of_every_file(tmp_path):
    (tmp_path / "shelf").mkdir()
    (tmp_path / "b.txt").write_text("second " * 500)
    (tmp_path / "shelf" / "a.txt").write_text("first " * 500)
    (tmp_path / "notes.md").write_text("not a book")
    split = corpus.read(tmp_path)
    assert len(split.train) == len(split.held_out) == 2
    for train, held_out, word in zip(split.train, split.held_out, ("second", "first"), strict=True):
        assert set(train.split()) == set(held_out.split()) == {word}  # no word was cut in two
        assert len(held_out) / (len(train) + len(held_out)) == pytest.approx(corpus.HELD_OUT, abs=0.003)


def test_no_folder_no_books(tmp_path):
    with pytest.raises(ValueError, match="no-such-folder"):
        corpus.read(tmp_path / "no-such-folder")
    with pytest.raises(ValueError, match=r"no \.txt files"):
        corpus.read(tmp_path)


def test_every_text_is_preceded_by_bos_and_comes_back():
    tokenizer = Tokenizer.from_file(str(models.ASSETS / "tokenizer" / "tokenizer.json"))
    texts = ["The cat sat on the mat.", "Naïve façade 日本 🙂"]
    ids = corpus.tokenise(texts, tokenizer)
    assert ids.dtype == np.uint16
    seams = np.flatnonzero(ids == 0)
    assert seams[0] == 0
    pieces = [ids[1 : seams[1]], ids[seams[1] + 1 :]]
    assert [tokenizer.decode(piece.tolist()) for piece in pieces] == texts


@pytest.fixture(scope="module")
def text() -> np.ndarray:
    return np.random.default_rng(0).integers(1, 3000, 20_000).astype(np.uint16)


@pytest.fixture(scope="module")
def batches(text) -> Batches:
    return Batches(text, N_CTX, rows=64, d_vocab=D_VOCAB, seed=0)


def test_a_batch_depends_on_seed_and_step_alone(text, batches):
    batches(3)
    again = Batches(text, N_CTX, rows=64, d_vocab=D_VOCAB, seed=0)(7)
    assert all(torch.equal(a, b) for a, b in zip(batches(7), again, strict=True))
    assert not torch.equal(batches(7)[0], batches(8)[0])
    assert not torch.equal(batches(7)[0], Batches(text, N_CTX, rows=64, d_vocab=D_VOCAB, seed=1)(7)[0])


def test_shapes_bos_and_weights(batches):
    tokens, weights = batches(0)
    assert tokens.shape == weights.shape == (64, N_CTX)
    assert (tokens[:, 0] == 0).all()
    assert (tokens[:, 1:] != 0).all()
    assert tokens.max() < D_VOCAB
    assert (weights[:, 0] == 0).all()
    assert weights.sum().item() == pytest.approx(1, abs=1e-5)  # float32 sum of 16,384 numbers
    assert len(weights.unique()) == 2  # all tokens that count, count alike


def repeating(row: torch.Tensor) -> tuple[int, int] | None:
    """Return (start, period) of the block that is tiled to the end of a row."""
    for period in range(MIN_PERIOD, MAX_PERIOD + 1):
        equal = row[period:] == row[:-period]
        tail = len(equal) - 1 - int((~equal).nonzero().max()) if not equal.all() else len(equal)
        if tail > period:
            return len(row) - tail - period, period
    return None


def test_repeats_vary_and_noise_is_not_learned(batches):
    found = [(row, weight, repeating(row)) for step in range(4) for row, weight in zip(*batches(step), strict=True)]
    repeats = [(row, weight, *repeat) for row, weight, repeat in found if repeat]
    # Half of 256 rows: binomial, sd 8.
    assert 96 < len(repeats) < 160
    assert len({period for *_, period in repeats}) > 30
    assert len({start for _, _, start, _ in repeats}) > 40
    masked = [(weight, start, period) for _, weight, start, period in repeats if weight[1] == 0]
    assert 0.3 < len(masked) / len(repeats) < 0.7
    for weight, start, period in masked:
        # The first copy of random tokens is noise; the block may seem to begin a token early by chance.
        learned = int((weight > 0).nonzero().min())
        assert start + period + 1 <= learned <= start + period + 3
        assert (weight[learned:] > 0).all()


def test_rows_of_text_are_stretches_of_it(text, batches):
    flat = text.tobytes()
    tokens, weights = batches(0)
    plain = [row for row, weight in zip(tokens, weights, strict=True) if weight[1] > 0 and not repeating(row)]
    assert plain
    for row in plain:
        assert row[1:].numpy().astype(np.uint16).tobytes() in flat


def test_share_of_repeats_falls_to_a_third(batches):
    shares = [batches.repeat_share(step) for step in (0, 2500, 5000, 20_000)]
    assert shares == [0.5, 0.5, 0.33, 0.33]
