"""From a finished run to ``assets/models/<name>``: weights, sizes, measured numbers, card.

What is measured is what is shipped: the float16 file is written first, loaded back with
:func:`circuits.models.load`, and every number in ``config.json`` and on the card is that model's.
"""

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path

from safetensors.torch import save
from torch import Tensor

from circuits import models
from circuits.evaluation import Evaluation, RepeatScores, evaluate
from circuits.training.card import card
from circuits.training.data import Data


@dataclass(frozen=True)
class Finished:
    """What a run leaves: float16 weights, ``config.json``'s sizes, the recipe in words and numbers, its log."""

    name: str
    weights: dict[str, Tensor]
    sizes: dict
    recipe: dict
    log: list[dict]


def export(run: Finished, data: Data, assets: Path) -> dict:
    """Write one model's folder and return its ``config.json``."""
    folder = assets / "models" / run.name
    folder.mkdir(parents=True, exist_ok=True)
    config = run.sizes | {"sha256": write_weights(run.weights, folder / "model.safetensors")}
    write_config(folder, config)
    measured = numbers(evaluate(models.load(run.name, assets=assets), data.held_out), data.references)
    config |= {"measured": measured, "recipe": run.recipe, "data": data.facts()}
    write_config(folder, config)
    (folder / "README.md").write_text(card(run.name, config, run.log))
    return config


def write_weights(weights: dict[str, Tensor], path: Path) -> str:
    """Write a safetensors file and return its SHA-256."""
    content = save(weights)
    path.write_bytes(content)
    return hashlib.sha256(content).hexdigest()


def write_config(folder: Path, config: dict) -> None:
    """Write ``config.json`` beside the weights."""
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")


def numbers(result: Evaluation, references: dict[str, float]) -> dict:
    """Return an evaluation as plain numbers of five digits, beside what counting reaches on the same windows."""
    text = {"windows": result.n_windows, "loss": result.loss, "in_context": result.in_context} | references
    measured = {"held_out": text, "repeats": _scores(result.repeats)}
    if result.ablated:
        head = str(result.repeats.previous_token_head)
        measured["ablated"] = {"head": head} | _scores(result.ablated)
    return _rounded(measured)


def _scores(scores: RepeatScores) -> dict:
    values = {name: getattr(scores, name) for name in RepeatScores.__dataclass_fields__}
    return {name: value.tolist() if isinstance(value, Tensor) else value for name, value in values.items()}


def _rounded(value):
    """Round every float of a nested structure to five digits after the point."""
    if isinstance(value, dict):
        return {key: _rounded(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_rounded(inner) for inner in value]
    return round(value, 5) if isinstance(value, float) else value


def recipe_dict(recipe, **more) -> dict:
    """Return a recipe's fields as JSON has them: without the sizes, which ``config.json`` has, or an absent MLP's."""
    absent = {"shape", "d_model"} | (set() if recipe.shape.d_mlp else {"mlp_lr_share"})
    fields = {key: value for key, value in asdict(recipe).items() if key not in absent}
    return {key: list(value) if isinstance(value, tuple) else value for key, value in fields.items()} | more
