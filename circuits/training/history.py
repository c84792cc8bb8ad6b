"""Which moments of a run to ship: twelve, close together where the model changes.

How far the run has come is the mean of three curves, each scaled to 0 … 1 and made monotone by its running
maximum: the best previous-token score, the best induction score and the accuracy on the second copy.  Moments
are spread evenly over *that*, not over steps.
"""

import json
import shutil
from pathlib import Path

import numpy as np
from jaxtyping import Float
from safetensors.torch import load_file

from circuits.history import NAME, Metrics
from circuits.models import read_config
from circuits.training.export import write_weights

N_MOMENTS = 12


def progress(metrics: Metrics) -> Float[np.ndarray, "row"]:
    """Return how far the run has come at each logged row, from 0 to 1, never falling."""
    best = (metrics.previous.max((1, 2)), metrics.induction.max((1, 2)), metrics.copy_accuracy)
    return np.mean([_rise(curve) for curve in best], axis=0)


def _rise(curve: Float[np.ndarray, "row"]) -> Float[np.ndarray, "row"]:
    highest = np.maximum.accumulate(curve)
    span = highest[-1] - highest[0]
    return (highest - highest[0]) / span if span > 0 else np.zeros_like(highest)


def choose(metrics: Metrics, available: list[int], n_moments: int = N_MOMENTS) -> list[int]:
    """Choose steps from ``available``: the first, the last, one half-way, the others even in progress.

    A run so short that it left no more than ``n_moments`` snapshots keeps them all.
    """
    steps = np.array(sorted(available))
    if len(steps) <= n_moments:
        return steps.tolist()
    done = np.interp(steps, metrics.step, progress(metrics))
    chosen = {0, len(steps) - 1, len(steps) // 2}
    n_between = n_moments - len(chosen)
    for target in (np.arange(n_between) + 0.5) / n_between:
        distance = np.abs(done - target)
        distance[list(chosen)] = np.inf
        chosen.add(int(distance.argmin()))
    return steps[sorted(chosen)].tolist()


def write(metrics: list[dict], snapshots: Path, assets: Path) -> list[int]:
    """Write ``assets/checkpoints/two-layer`` from a finished run whose model has been exported; return the steps.

    The last moment points to the shipped model: its weights are not stored a second time.
    """
    folder = assets / "checkpoints" / NAME
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    files = {int(file.stem): file for file in snapshots.glob("*.safetensors")}
    steps = choose(Metrics.from_rows(metrics), list(files))
    config = read_config(assets / "models" / NAME, NAME)
    moments = [_keep(step, files[step], folder) for step in steps[:-1]]
    moments.append({"step": steps[-1], "file": f"models/{NAME}/model.safetensors", "sha256": config["sha256"]})
    sizes = {key: config[key] for key in ("n_layers", "n_heads")}
    history = sizes | {"moments": moments, "metrics": metrics}
    (folder / "history.json").write_text(json.dumps(history, separators=(",", ":")) + "\n")
    return steps


def _keep(step: int, snapshot: Path, folder: Path) -> dict:
    path = folder / f"step-{step:06d}.safetensors"
    sha256 = write_weights(load_file(snapshot), path)
    return {"step": step, "file": f"checkpoints/{NAME}/{path.name}", "sha256": sha256}
