"""A few steps of a tiny run, losses and weights to a file: one process, or several under ``accelerate launch``.

python tests/training_steps.py OUT.json WORK
accelerate launch --num_processes 2 tests/training_steps.py OUT.json WORK
"""

import json
import sys
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from circuits.training.trainer import Recipe, Trainer
from circuits.training.transformer import Shape

SHAPE = Shape(n_layers=2, d_model=16, n_heads=2, d_head=8, d_vocab=64)
RECIPE = Recipe(SHAPE, steps=4, rows=4, warmup=2)


def tiny_trainer(folder: Path, recipe: Recipe = RECIPE) -> Trainer:
    """Return a trainer of a model of 7,000 weights on text that is a noisy walk through the vocabulary."""
    rng = np.random.default_rng(0)
    text = (np.cumsum(rng.integers(1, 4, 5000)) % (SHAPE.d_vocab - 1) + 1).astype(np.uint16)
    held_out = torch.randint(1, SHAPE.d_vocab, (4, SHAPE.n_ctx), generator=torch.Generator().manual_seed(1))
    held_out[:, 0] = 0
    return Trainer(recipe, text, held_out, folder)


def main(out: str, folder: str) -> None:
    trainer = tiny_trainer(Path(folder))
    losses = []
    for trainer.step in range(RECIPE.steps):
        losses.append(trainer.update())
    if trainer.accelerator.is_main_process:
        model = trainer.accelerator.unwrap_model(trainer.model)
        weights = [value.detach().double().norm().item() for value in model.parameters()]
        processes = trainer.accelerator.num_processes
        Path(out).write_text(json.dumps({"processes": processes, "losses": losses, "weights": weights}))


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(*sys.argv[1:])
