"""Where a unit is most active: its top contexts in text that ships with the app.

    python -m circuits.contexts        # builds assets/corpus/neuron_contexts.npz again

The text is the sample prose and, where they are there, passages sampled from our own models
(``assets/corpus/sampled.npz``), in windows that begin with BOS.  A window offers each unit its strongest position
alone: eight contexts are eight different passages.  The index notes which weights and which text it was made from
and is refused for any other.
"""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from tqdm import tqdm
from transformer_lens.model_bridge import TransformerBridge

from circuits import mlp, models, sample_text
from circuits.weights import Weights

MODEL = "one-layer-mlp"
INDEX, SAMPLED = "corpus/neuron_contexts.npz", "corpus/sampled.npz"
PER_UNIT, BLOCK = 8, 8
REBUILD = "Make it again: python -m circuits.contexts"


class Contexts(NamedTuple):
    """The strongest contexts of every unit, strongest first: a window, the position in it, the activation."""

    window: Int[Tensor, "unit rank"]
    position: Int[Tensor, "unit rank"]
    activation: Float[Tensor, "unit rank"]


def windows(model: TransformerBridge, assets: Path = models.ASSETS) -> Int[Tensor, "window n_ctx"]:
    """Return the text in which contexts are looked for: the sample prose, then the sampled passages."""
    own = sample_text.windows(model, assets / "sample_text")
    if not (assets / SAMPLED).exists():
        return own
    with np.load(assets / SAMPLED) as file:
        sampled = torch.from_numpy(next(iter(file.values())).astype(np.int64))
    return torch.cat([own, sampled[:, : model.cfg.n_ctx]])


@torch.inference_mode()
def top_contexts(
    windows: Int[Tensor, "window pos"],
    activations: Callable[[Int[Tensor, "window pos"]], Float[Tensor, "window pos unit"]],
    per_unit: int = PER_UNIT,
    progress: Callable = iter,
) -> Contexts:
    """Find the contexts in which each unit is most active, at most one a window, BOS left out."""
    peaks = []
    for block in progress(windows.split(BLOCK)):
        peaks.append(activations(block)[:, 1:].max(1))
    strongest = torch.cat([peak.values for peak in peaks])
    best = strongest.topk(min(per_unit, len(windows)), dim=0)
    position = torch.cat([peak.indices for peak in peaks]).gather(0, best.indices) + 1
    return Contexts(best.indices.T, position.T, best.values.T)


def digest(windows: Int[Tensor, "window pos"]) -> str:
    """Return the fingerprint of a text, so that an index can tell whether it is still its own."""
    return hashlib.sha256(windows.to(torch.int32).numpy().tobytes()).hexdigest()


def save(path: Path, contexts: Contexts, weights_sha256: str, text_sha256: str) -> None:
    """Write an index: a few bytes a context."""
    np.savez_compressed(
        path,
        window=contexts.window.numpy().astype(np.int16),
        position=contexts.position.numpy().astype(np.int16),
        activation=contexts.activation.numpy().astype(np.float16),
        weights_sha256=weights_sha256,
        text_sha256=text_sha256,
    )


def load(path: Path, weights_sha256: str, text_sha256: str) -> Contexts:
    """Read an index.

    Raises:
        ValueError: it is missing or unreadable, or was made from other weights or another text.
    """
    try:
        with np.load(path) as file:
            made_from = {"weights": str(file["weights_sha256"]), "text": str(file["text_sha256"])}
            parts = [torch.from_numpy(file[name].astype(kind)) for name, kind in DTYPES.items()]
    except (OSError, KeyError, ValueError) as error:
        raise ValueError(f"{path} cannot be read ({error}). {REBUILD}") from error
    for what, expected in (("weights", weights_sha256), ("text", text_sha256)):
        if made_from[what] != expected:
            raise ValueError(f"{path} was made from other {what} than those here. {REBUILD}")
    return Contexts(*parts)


DTYPES = {"window": np.int64, "position": np.int64, "activation": np.float32}


def neuron_contexts(model: TransformerBridge, assets: Path = models.ASSETS, progress: Callable = iter) -> Contexts:
    """Find the top contexts of every MLP neuron of the shipped model, afresh."""
    weights = Weights.of(model)
    return top_contexts(windows(model, assets), lambda block: mlp.activations_on(weights, block), progress=progress)


def main(assets: Path = models.ASSETS) -> None:
    """Build the index of the shipped MLP model's neurons."""
    model = models.load(MODEL, assets=assets)
    sha256 = models.read_config(assets / "models" / MODEL, MODEL)["sha256"]
    text = windows(model, assets)
    save(assets / INDEX, neuron_contexts(model, assets, progress=tqdm), sha256, digest(text))
    print(f"{assets / INDEX}: top {PER_UNIT} of {len(text)} windows")


if __name__ == "__main__":
    main()
