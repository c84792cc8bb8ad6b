"""Sampled passages: what is dropped, and that sampling follows the model."""

import numpy as np
import pytest
import torch

from circuits.training.samples import ONCE, RUN, recites, runs, sample, unfit
from circuits.training.transformer import Shape, Transformer


def test_equal_runs_and_only_they_have_equal_hashes():
    tokens = np.random.default_rng(0).integers(0, 3, 2000)  # few tokens, so that runs of five recur
    hashes = runs(tokens, 5)
    as_text = np.array([tokens[i : i + 5].tobytes() for i in range(len(tokens) - 4)], dtype=object)
    assert len(hashes) == len(as_text)
    assert len(np.unique(hashes)) == len(set(as_text))
    for value in np.unique(hashes)[:50]:
        assert len(set(as_text[hashes == value])) == 1


def test_windows_that_recite_are_found():
    rng = np.random.default_rng(0)
    corpus = rng.integers(1, 4096, 5000)
    windows = np.concatenate([np.zeros((3, 1), dtype=int), rng.integers(1, 4096, (3, 255))], axis=1)
    windows[1, 100 : 100 + RUN] = corpus[700 : 700 + RUN]
    windows[2, 100 : 100 + RUN - 1] = corpus[700 : 700 + RUN - 1]  # one too short to count
    assert recites(windows, np.sort(runs(corpus, RUN))).tolist() == [False, True, False]


@pytest.mark.parametrize("d_mlp", [0, 24])
@torch.inference_mode()
def test_samples_are_seeded_begin_with_bos_and_follow_the_logits(d_mlp):
    torch.manual_seed(0)
    shape = Shape(2, d_mlp=d_mlp, d_model=16, n_heads=2, d_head=8, n_ctx=40, d_vocab=20)
    model = Transformer(shape)
    tokens = sample(model, 5, 0.8, torch.Generator().manual_seed(3))
    assert tokens.shape == (5, 40)
    assert (tokens[:, 0] == 0).all()
    assert (tokens[:, 1:] != 0).all()
    assert torch.equal(tokens, sample(model, 5, 0.8, torch.Generator().manual_seed(3)))
    # Near temperature 0 every token is the most likely one of those that make no run of four come twice.
    greedy = sample(model, 5, 1e-6, torch.Generator().manual_seed(3))
    ranked = model.logits(greedy).argsort(-1, descending=True)
    for window, order in zip(greedy.tolist(), ranked.tolist(), strict=True):
        for at in range(1, shape.n_ctx):
            seen = {tuple(window[i : i + ONCE]) for i in range(at - ONCE + 1)}
            allowed = [t for t in order[at - 1] if t and tuple([*window[:at][1 - ONCE :], t]) not in seen]
            assert window[at] == allowed[0]


def test_rude_words_are_found_inside_others_and_in_capitals():
    assert unfit(["a mild morning", "Old SHITTEN sails", "they bewitched her"]).tolist() == [False, True, False]
