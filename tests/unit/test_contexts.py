"""Top contexts against a full sort, and an index that knows what it was made from."""

import numpy as np
import pytest
import torch

from circuits import contexts, models, sample_text

UNITS, WINDOWS, LENGTH = 5, 21, 7  # more windows than a block holds


@pytest.fixture(scope="module")
def activations() -> torch.Tensor:
    return torch.randn(WINDOWS, LENGTH, UNITS, generator=torch.Generator().manual_seed(0))


@pytest.fixture(scope="module")
def tokens() -> torch.Tensor:
    return torch.arange(WINDOWS)[:, None].repeat(1, LENGTH)  # a window's tokens say its number


@pytest.fixture(scope="module")
def found(activations, tokens) -> contexts.Contexts:
    return contexts.top_contexts(tokens, lambda block: activations[block[:, 0]], per_unit=4)


def test_contexts_are_the_strongest_windows(activations, found):
    for unit in range(UNITS):
        peaks = []
        for window in range(WINDOWS):
            body = activations[window, 1:, unit]
            peaks.append((body.max().item(), window, int(body.argmax()) + 1))
        expected = sorted(peaks, reverse=True)[:4]
        ranked = zip(found.activation[unit], found.window[unit], found.position[unit], strict=True)
        assert [(a.item(), int(w), int(p)) for a, w, p in ranked] == expected


def test_bos_is_left_out_and_few_windows_are_enough(activations, tokens):
    loud = activations.clone()
    loud[:, 0] = 100
    found = contexts.top_contexts(tokens[:3], lambda block: loud[block[:, 0]], per_unit=8)
    assert found.window.shape == (UNITS, 3)
    assert found.activation.max() < 100


def test_an_index_is_refused_for_other_weights_or_text(tmp_path, found, tokens):
    path, text = tmp_path / "index.npz", contexts.digest(tokens)
    contexts.save(path, found, "abc", text)
    read = contexts.load(path, "abc", text)
    assert torch.equal(read.window, found.window)
    assert torch.equal(read.position, found.position)
    torch.testing.assert_close(read.activation, found.activation, atol=2e-3, rtol=2e-3)  # kept as float16
    with pytest.raises(ValueError, match="other weights"):
        contexts.load(path, "abd", text)
    with pytest.raises(ValueError, match="other text"):
        contexts.load(path, "abc", contexts.digest(tokens[1:]))
    path.write_bytes(b"not an archive")
    with pytest.raises(ValueError, match=r"index\.npz cannot be read"):
        contexts.load(path, "abc", text)
    with pytest.raises(ValueError, match="cannot be read"):
        contexts.load(tmp_path / "missing.npz", "abc", text)


def test_the_text_is_the_sample_prose_and_what_was_sampled(tmp_path):
    model = models.load("one-layer-mlp")
    (tmp_path / "sample_text").symlink_to(models.ASSETS / "sample_text")
    own = contexts.windows(model, tmp_path)
    assert torch.equal(own, sample_text.windows(model))
    (tmp_path / "corpus").mkdir()
    sampled = np.random.default_rng(0).integers(1, 4096, (3, 256)).astype(np.uint16)
    np.savez(tmp_path / contexts.SAMPLED, tokens=sampled)
    both = contexts.windows(model, tmp_path)
    assert torch.equal(both[: len(own)], own)
    assert both[len(own) :].tolist() == sampled.tolist()
