"""The autoencoder that ships with the app: a dictionary of the MLP activations of ``one-layer-mlp``.

``python -m circuits.dictionary train --corpus DIR`` trains it (about half an hour of one core), measures it on
the held-out text and writes ``assets/dictionary``; ``… contexts`` makes only the index of top contexts again.
"""

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

import torch
from jaxtyping import Float, Int
from safetensors.torch import load as load_safetensors
from safetensors.torch import save as save_safetensors
from torch import Tensor

from circuits import contexts, mlp, models
from circuits.contexts import Contexts
from circuits.dictionary import autoencoder, features, measures
from circuits.dictionary.autoencoder import Autoencoder
from circuits.weights import Weights

MODEL = "one-layer-mlp"
FOLDER, INDEX = "dictionary", "dictionary/contexts.npz"
REMAKE = "python -m circuits.dictionary {}"
WINDOWS_AT_ONCE = 128
"""Windows whose activations are mixed before they are cut into batches: neighbours resemble each other."""

BATCH = 1024
MEASURED_WINDOWS = 400
"""Held-out windows (a hundred thousand tokens) on which density, dead features and losses are measured."""


@dataclass(frozen=True)
class Recipe:
    """What decides a run besides the data; ``l1`` is relative to activations of mean squared norm 1."""

    expansion: int = 4
    l1: float = 0.06
    steps: int = 2500
    lr: float = 1e-3
    resample_at: tuple[int, ...] = (150, 300)
    seed: int = 0


@dataclass(frozen=True)
class Dictionary:
    """The shipped autoencoder with what was measured of it on held-out text."""

    model: Autoencoder
    density: Float[Tensor, "feature"]
    config: dict


def activation_batches(
    weights: Weights, windows: Int[Tensor, "window pos"], seed: int
) -> Iterator[Float[Tensor, "sample d_mlp"]]:
    """Yield batches of MLP activations on text, windows in random order, positions mixed; once through the text."""
    generator = torch.Generator().manual_seed(seed)
    for chosen in torch.randperm(len(windows), generator=generator).split(WINDOWS_AT_ONCE):
        blocks = windows[chosen].split(features.BLOCK)
        activations = torch.cat([mlp.activations_on(weights, block).flatten(0, 1) for block in blocks])
        yield from activations[torch.randperm(len(activations), generator=generator)].split(BATCH)


def train(
    weights: Weights, windows: Int[Tensor, "window pos"], recipe: Recipe, progress: Callable = iter
) -> Autoencoder:
    """Train on the activations of ``windows``; products are taken in bfloat16, sums and weights are float32.

    The activations are scaled to mean squared norm 1 for the training, so that λ means the same for every model;
    a relu network commutes with that scale, which is put back into the biases at the end.
    """
    first = next(activation_batches(weights, windows[: 4 * WINDOWS_AT_ONCE], recipe.seed))
    scale = first.square().sum(-1).mean().rsqrt()
    batches = (scale * batch for batch in activation_batches(weights, windows, recipe.seed))
    steps = autoencoder.train(
        batches, recipe.expansion * first.shape[-1], torch.tensor(recipe.l1),
        recipe.steps, recipe.lr, recipe.seed, recipe.resample_at,
    )  # fmt: skip
    # Casts are not kept: a cached one would stay the first step's weights as long as the block is open.
    with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False):
        for now in progress(steps):
            last = now.model
    return replace(last, b_enc=last.b_enc / scale, b_dec=last.b_dec / scale)


@torch.inference_mode()
def measure(weights: Weights, model: Autoencoder, windows: Int[Tensor, "window pos"]) -> tuple[Tensor, dict]:
    """Return every feature's density on ``windows``, and the numbers for the card."""
    count, active, error, l0 = 0, torch.zeros(model.n_features), 0.0, 0.0
    total, squares = torch.zeros(model.W_dec.shape[1]), 0.0
    for block in windows.split(features.BLOCK):
        x = mlp.activations_on(weights, block).flatten(0, 1)
        f = model.encode(x)
        count, active, l0 = count + len(x), active + (f > 0).sum(0), l0 + measures.l0(f).item() * len(x)
        error += (x - model.decode(f)).square().sum().item()
        total, squares = total + x.sum(0), squares + x.square().sum().item()
    loss = features.losses(weights, model, windows)
    numbers = {
        "tokens": count,
        "l0": l0 / count,
        "explained_variance": 1 - error / (squares - total.square().sum().item() / count),
        "dead": int((active == 0).sum()),
        "loss_clean": loss.clean,
        "loss_zero": loss.zero,
        "loss_spliced": loss.spliced,
        "loss_recovered": loss.recovered,
    }
    return active / count, {name: round(value, 5) for name, value in numbers.items()}


def save(model: Autoencoder, density: Tensor, recipe: Recipe, numbers: dict, assets: Path = models.ASSETS) -> None:
    """Write weights (float16), ``config.json`` and the card."""
    folder = assets / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {field.name: getattr(model, field.name).half().contiguous() for field in fields(model)}
    content = save_safetensors(tensors | {"density": density.float()})
    (folder / "autoencoder.safetensors").write_bytes(content)
    config = {
        "model": MODEL,
        "model_sha256": models.read_config(assets / "models" / MODEL, MODEL)["sha256"],
        "sha256": hashlib.sha256(content).hexdigest(),
        "n_features": model.n_features,
        "recipe": asdict(recipe),
        "held_out": numbers,
    }
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")


def load(assets: Path = models.ASSETS) -> Dictionary:
    """Read the shipped autoencoder.

    Raises:
        ValueError: a file is missing or damaged, or belongs to other weights of the model; the message says
            which, and the command that makes it again.
    """
    folder = assets / FOLDER
    config, weights = folder / "config.json", folder / "autoencoder.safetensors"
    try:
        config = json.loads(config.read_text())
        content = weights.read_bytes()
    except (OSError, json.JSONDecodeError) as error:
        raise ValueError(f"the dictionary in {folder} cannot be read ({error}). {_restore()}") from error
    if hashlib.sha256(content).hexdigest() != config["sha256"]:
        raise ValueError(f"{weights} is damaged: its checksum is not the one noted. {_restore()}")
    if models.read_config(assets / "models" / MODEL, MODEL)["sha256"] != config["model_sha256"]:
        raise ValueError(f"{weights} belongs to other weights of {MODEL} than those here. {_restore()}")
    state = {name: value.float() for name, value in load_safetensors(content).items()}
    return Dictionary(density=state.pop("density"), model=Autoencoder(**state), config=config)


def _restore() -> str:
    return f"Restore it: git checkout -- assets/{FOLDER}   (or: {REMAKE.format('train --corpus DIR')})"


def feature_contexts(assets: Path = models.ASSETS, progress: Callable = iter) -> Contexts:
    """Find the top contexts of every feature in the sample text and the models' own passages, afresh."""
    bridge, dictionary = models.load(MODEL, assets=assets), load(assets)
    weights = Weights.of(bridge)
    return contexts.top_contexts(
        contexts.windows(bridge, assets),
        lambda block: dictionary.model.encode(mlp.activations_on(weights, block)),
        progress=progress,
    )


def save_contexts(found: Contexts, assets: Path = models.ASSETS) -> None:
    """Write the index beside the weights it was made from."""
    text = contexts.digest(contexts.windows(models.load(MODEL, assets=assets), assets))
    contexts.save(assets / INDEX, found, load(assets).config["sha256"], text)


def load_contexts(text: Int[Tensor, "window pos"], assets: Path = models.ASSETS) -> Contexts:
    """Read the index; ``text`` are the windows it should speak of (:func:`circuits.contexts.windows`).

    Raises:
        ValueError: it is missing, or was made from another dictionary or another text.
    """
    try:
        return contexts.load(assets / INDEX, load(assets).config["sha256"], contexts.digest(text))
    except ValueError as error:
        reason = str(error).removesuffix(contexts.REBUILD)
        raise ValueError(f"{reason}Make it again: {REMAKE.format('contexts')}") from error
