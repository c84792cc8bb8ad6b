"""The training run of the shipped two-layer model, as it was logged: metrics, and weights at twelve moments.

Metrics were taken while the model trained, on a fixed sample of held-out windows and on the repeat probe
(:mod:`circuits.induction`).  The weights are those of the run itself, float16; the last of them is the
shipped model, which is not stored twice.
"""

import json
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from circuits.models import ASSETS, read_weights
from circuits.weights import Weights

NAME = "two-layer"
RESTORE = "git checkout -- assets/checkpoints/two-layer   (or: python -m circuits.training two-layer --corpus DIR)"


@dataclass(frozen=True)
class Metrics:
    """Every logged step of the run.  Losses in nats; ``train_loss`` is NaN after the last step.

    ``in_context`` is negative where the model uses its context (:func:`circuits.induction.in_context_score`).
    """

    step: Int[ndarray, "row"]
    train_loss: Float[ndarray, "row"]
    held_out: Float[ndarray, "row"]
    in_context: Float[ndarray, "row"]
    copy_loss: Float[ndarray, "row"]
    copy_accuracy: Float[ndarray, "row"]
    previous: Float[ndarray, "row layer head"]
    duplicate: Float[ndarray, "row layer head"]
    induction: Float[ndarray, "row layer head"]

    @classmethod
    def from_rows(cls, rows: list[dict]) -> "Metrics":
        """Turn logged rows, one dict a step, into one array a metric."""
        columns = {field.name: [row[field.name] for row in rows] for field in fields(cls) if field.name != "step"}
        arrays = {name: np.array(column, dtype=np.float64) for name, column in columns.items()}
        return cls(step=np.array([row["step"] for row in rows]), **arrays)


def metrics(assets: Path = ASSETS) -> Metrics:
    """Return the metrics of every logged step.

    Raises:
        ValueError: the history is missing or damaged; the message names the file and how to restore it.
    """
    return Metrics.from_rows(_read(Path(assets))["metrics"])


def steps(assets: Path = ASSETS) -> tuple[int, ...]:
    """Return the steps whose weights are shipped, in order; the last is the shipped model."""
    return tuple(moment["step"] for moment in _read(Path(assets))["moments"])


def weights(step: int, assets: Path = ASSETS) -> Weights:
    """Load the weights of one shipped moment, float32, its checksum verified.

    Raises:
        ValueError: no weights were shipped for ``step``, or the file is missing or damaged.
    """
    history = _read(Path(assets))
    moments = {moment["step"]: moment for moment in history["moments"]}
    if step not in moments:
        raise ValueError(f"no weights for step {step}; there are {', '.join(map(str, moments))}")
    state = read_weights(Path(assets) / moments[step]["file"], moments[step]["sha256"], NAME)
    state = {name: value.float() for name, value in state.items()}
    return Weights.from_state_dict(state, history["n_layers"], history["n_heads"])


@cache
def _read(assets: Path) -> dict:
    path = assets / "checkpoints" / NAME / "history.json"
    try:
        history = json.loads(path.read_text())
        return {key: history[key] for key in ("n_layers", "n_heads", "moments", "metrics")}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is missing or damaged ({error!r}). Restore it: {RESTORE}") from error
