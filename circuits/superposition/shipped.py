"""Results that nobody should wait for, kept under ``assets/toy_models`` with the code that makes them.

``python -m circuits.superposition sweep`` writes ``sweep.safetensors``: what page 11 opens with (some seconds).
``… solutions`` writes ``solutions.safetensors``: the exact solutions at the stops of its phase diagram.
``python -m circuits.superposition phase`` writes ``phase.json``: the boundary of the phase diagram and a
grid of trained models over it (about two minutes).  ``python -m circuits.superposition uniform`` writes
``uniform.safetensors``: 400 equally important features in 30 dimensions at many densities (about ten
minutes of one core).
"""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Bool, Float
from safetensors import SafetensorError
from safetensors.torch import load as load_safetensors
from safetensors.torch import save
from torch import Tensor
from tqdm import tqdm

from circuits.superposition import phase, sweep, toy
from circuits.superposition.phase import Solution
from circuits.superposition.sweep import Sweep
from circuits.superposition.toy import Toys

ASSETS = Path(__file__).resolve().parents[2] / "assets" / "toy_models"
REMAKE = "python -m circuits.superposition {}"

BOUNDARY_IMPORTANCES = torch.logspace(-1, 0, 21)
"""The curve is found for I ≤ 1 and mirrored: exchanging the features turns I into 1/I."""

POINT_DENSITIES = tuple(k / 100 for k in range(3, 101))
POINT_IMPORTANCES = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
"""Points of the phase diagram that a reader can ask for: the exact solution of one takes seconds."""

GRID_DENSITIES, GRID_IMPORTANCES = torch.logspace(-1.5, 0, 12), torch.logspace(-1, 1, 11)
GRID_SEEDS = 10

UNIFORM_FEATURES, UNIFORM_HIDDEN = 400, 30
UNIFORM_DENSITIES = tuple(round(float(p), 4) for p in torch.logspace(0, -2, 14))
UNIFORM_TRAINING = {"seeds": 1, "steps": 1500, "batch": 512, "lr": 0.005}


@dataclass(frozen=True)
class PhaseDiagram:
    """``boundary[i]`` is the density under which the pair wins at ``importance[i]``; points are trained models."""

    importance: Float[Tensor, "curve"]
    boundary: Float[Tensor, "curve"]
    point_density: Float[Tensor, "point"]
    point_importance: Float[Tensor, "point"]
    point_theta: Float[Tensor, "point 4"]

    def pair_wins(self, density: Float[Tensor, "point"], importance: Float[Tensor, "point"]) -> Bool[Tensor, "point"]:
        """Return on which side of the boundary points lie (linear in log I between the computed ones)."""
        edge = np.interp(importance.log().numpy(), self.importance.log().numpy(), self.boundary.numpy())
        return density < torch.from_numpy(edge).to(density)


@dataclass(frozen=True)
class Solutions:
    """The best of the small family at every point a reader can ask for."""

    theta: Float[Tensor, "importance density 4"]
    loss: Float[Tensor, "importance density"]

    def at(self, density: float, importance: float) -> Solution:
        """Return the solution at the stop nearest to a point."""
        row = min(range(len(POINT_IMPORTANCES)), key=lambda k: abs(POINT_IMPORTANCES[k] - importance))
        column = min(range(len(POINT_DENSITIES)), key=lambda k: abs(POINT_DENSITIES[k] - density))
        return Solution(self.theta[row, column][None], self.loss[row, column][None])


@dataclass(frozen=True)
class Uniform:
    """Models of many equally important features: ``W[k]`` was trained at ``densities[k]``."""

    densities: tuple[float, ...]
    W: Float[Tensor, "density feature hidden"]


def phase_diagram(assets: Path = ASSETS) -> PhaseDiagram:
    """Read the precomputed phase diagram.

    Raises:
        ValueError: the file cannot be read; the message names the command that makes it again.
    """
    content = json.loads(_read(assets / "phase.json", "phase"))
    return PhaseDiagram(**{name: torch.tensor(values) for name, values in content.items()})


def uniform(assets: Path = ASSETS) -> Uniform:
    """Read the precomputed models of 400 features in 30 dimensions.

    Raises:
        ValueError: a file is missing or damaged; the message names the command that makes it again.
    """
    config = json.loads(_read(assets / "uniform.json", "uniform"))
    content = _read(assets / "uniform.safetensors", "uniform")
    if hashlib.sha256(content).hexdigest() != config["sha256"]:
        raise ValueError(f"{assets / 'uniform.safetensors'} is damaged. {_restore(REMAKE.format('uniform'))}")
    return Uniform(tuple(config["densities"]), load_safetensors(content)["W"].float())


def default_sweep(assets: Path = ASSETS) -> Sweep:
    """Read the sweep of the problem that page 11 opens with.

    Raises:
        ValueError: the file cannot be read; the message names the command that makes it again.
    """
    state = read_tensors(assets / "sweep.safetensors", REMAKE.format("sweep"))
    return Sweep(sweep.STEPS, sweep.STEPS, Toys(sweep.DEFAULT.settings, state["W"], state["b"]))


def solutions(assets: Path = ASSETS) -> Solutions:
    """Read the exact solutions at the stops of page 11's phase diagram.

    Raises:
        ValueError: the file cannot be read; the message names the command that makes it again.
    """
    state = read_tensors(assets / "solutions.safetensors", REMAKE.format("solutions"))
    return Solutions(state["theta"].double(), state["loss"].double())


def read_tensors(path: Path, remake: str) -> dict[str, Tensor]:
    """Read a file of tensors.

    Raises:
        ValueError: it is missing or cut short; the message names ``remake``, the command that makes it again.
    """
    try:
        return load_safetensors(path.read_bytes())
    except (OSError, SafetensorError) as error:
        raise ValueError(f"{path} cannot be read ({error}). {_restore(remake)}") from error


def _read(path: Path, command: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ValueError(f"{path} cannot be read ({error}). {_restore(REMAKE.format(command))}") from error


def _restore(remake: str) -> str:
    return f"Restore it: git checkout -- assets/toy_models   (or: {remake})"


def write_sweep(assets: Path = ASSETS) -> None:
    """Train the problem that page 11 opens with, write ``sweep.safetensors``."""
    assets.mkdir(parents=True, exist_ok=True)
    *_, last = tqdm(sweep.train(sweep.DEFAULT), desc="sweep", total=sweep.REPORTS)
    (assets / "sweep.safetensors").write_bytes(save({"W": last.trained.W, "b": last.trained.b}))


def write_solutions(assets: Path = ASSETS) -> None:
    """Solve all points of the phase diagram at once, write ``solutions.safetensors`` (about a minute)."""
    assets.mkdir(parents=True, exist_ok=True)
    importance, density = torch.meshgrid(torch.tensor(POINT_IMPORTANCES), torch.tensor(POINT_DENSITIES), indexing="ij")
    found = phase.solve(density.flatten(), importance.flatten())
    tensors = {"theta": found.theta.unflatten(0, density.shape), "loss": found.loss.unflatten(0, density.shape)}
    content = save({name: values.float().contiguous() for name, values in tensors.items()})
    (assets / "solutions.safetensors").write_bytes(content)


def write_phase(assets: Path = ASSETS) -> None:
    """Find the boundary, train the grid, write ``phase.json``."""
    assets.mkdir(parents=True, exist_ok=True)
    *_, lower = tqdm(phase.boundary(BOUNDARY_IMPORTANCES), desc="boundary", total=phase.HALVINGS)
    settings = phase.grid(GRID_DENSITIES, GRID_IMPORTANCES)
    *_, last = tqdm(toy.train(settings, seeds=GRID_SEEDS), desc="grid", total=30)
    upper = slice(None, -1)  # I = 1 once
    content = {
        "importance": torch.cat([BOUNDARY_IMPORTANCES, 1 / BOUNDARY_IMPORTANCES[upper].flip(0)]),
        "boundary": torch.cat([lower, lower[upper].flip(0)]),
        "point_density": torch.tensor([setting.density for setting in settings]),
        "point_importance": torch.tensor([setting.decay for setting in settings]),
        "point_theta": phase.choose(last.toys).theta,
    }
    rounded = {name: torch.round(values.double(), decimals=4).tolist() for name, values in content.items()}
    (assets / "phase.json").write_text(json.dumps(rounded))


def write_uniform(assets: Path = ASSETS) -> None:
    """Train the models of 400 features, one density after another, write ``uniform.safetensors``."""
    assets.mkdir(parents=True, exist_ok=True)
    models = []
    for density in tqdm(UNIFORM_DENSITIES, desc="uniform"):
        setting = toy.Setting(n_features=UNIFORM_FEATURES, d_hidden=UNIFORM_HIDDEN, density=density)
        *_, last = toy.train([setting], **UNIFORM_TRAINING)
        models.append(last.toys.W[0, 0])
    content = save({"W": torch.stack(models).half()})
    (assets / "uniform.safetensors").write_bytes(content)
    config = {"densities": UNIFORM_DENSITIES, "sha256": hashlib.sha256(content).hexdigest()} | UNIFORM_TRAINING
    (assets / "uniform.json").write_text(json.dumps(config, indent=2) + "\n")
