"""The transformer that is trained, its loss, and the loop: against PyTorch, against ``forward``, against itself."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from circuits.training import trainer as trainer_module
from circuits.training.trainer import Recipe, token_losses
from circuits.training.transformer import Shape, Transformer, UnembedLoss, restore, sinusoids, state_dict
from circuits.weights import Weights, forward
from tests import training_steps
from tests.training_steps import tiny_trainer

FLOAT32 = 1e-5
"""Two float32 routes to the same sum: losses near 4, logits near 1."""

FLOAT16 = 2e-3
"""What rounding the weights to float16 does to logits of size 1."""

SHAPES = [Shape(1, d_mlp=24, d_model=16, n_heads=2, d_head=8, n_ctx=20, d_vocab=50), training_steps.SHAPE]


@pytest.mark.parametrize("rows", [7, 256, 300, 513])
def test_unembed_loss_is_cross_entropy(rows):
    """Value and both gradients, within one block of rows, at its edge and across."""
    generator = torch.Generator().manual_seed(rows)
    x, W_U = (torch.randn(n, 12, generator=generator).requires_grad_() for n in (rows, 30))
    targets = torch.randint(0, 30, (rows,), generator=generator)
    weights = torch.rand(rows, generator=generator)
    weights /= weights.sum()
    loss = UnembedLoss.apply(x, W_U, targets, weights)
    grads = torch.autograd.grad(3 * loss, (x, W_U))
    expected = (F.cross_entropy(x @ W_U.T, targets, reduction="none") * weights).sum()
    torch.testing.assert_close(loss, expected, rtol=FLOAT32, atol=0)
    for grad, right in zip(grads, torch.autograd.grad(3 * expected, (x, W_U)), strict=True):
        torch.testing.assert_close(grad, right, rtol=FLOAT32, atol=FLOAT32 * right.abs().max().item())


def test_unembed_loss_takes_autocasts_precision():
    x, W_U = torch.randn(40, 12), torch.randn(30, 12)
    targets, weights = torch.randint(0, 30, (40,)), torch.full((40,), 1 / 40)
    exact = UnembedLoss.apply(x, W_U, targets, weights)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        low = UnembedLoss.apply(x, W_U, targets, weights)
    assert low.dtype == torch.float32
    assert 0 < abs(low - exact) < 0.05  # bfloat16 keeps three digits of logits of size 10


@pytest.mark.parametrize("shape", SHAPES, ids=["mlp", "attention-only"])
def test_logits_are_those_of_forward(shape):
    torch.manual_seed(0)
    model = Transformer(shape)
    tokens = torch.randint(0, shape.d_vocab, (3, 17))
    weights = Weights.from_state_dict(state_dict(model), shape.n_layers, shape.n_heads).map(torch.Tensor.float)
    run = forward(weights, tokens)
    torch.testing.assert_close(model.logits(tokens), run.logits, rtol=0, atol=FLOAT16)
    torch.testing.assert_close(model.patterns(tokens), run.pattern.transpose(0, 1), rtol=0, atol=FLOAT16)
    # Restored from float16, the two hold the very same numbers.
    same = restore(shape, state_dict(model))
    torch.testing.assert_close(same.logits(tokens), run.logits, rtol=0, atol=FLOAT32)


@pytest.mark.parametrize("shape", SHAPES, ids=["mlp", "attention-only"])
def test_training_loss_is_the_weighted_mean_and_sees_no_future(shape):
    torch.manual_seed(0)
    model = Transformer(shape)
    tokens = torch.randint(0, shape.d_vocab, (3, 17))
    weights = torch.rand(3, 17)
    expected = (token_losses(model, tokens) * weights[:, 1:]).sum()
    torch.testing.assert_close(model(tokens, weights), expected, rtol=FLOAT32, atol=0)
    changed = tokens.clone()
    changed[:, 9:] = (changed[:, 9:] + 1) % shape.d_vocab
    torch.testing.assert_close(model.logits(tokens)[:, :9], model.logits(changed)[:, :9], rtol=0, atol=FLOAT32)


def test_a_shift_of_the_sinusoids_is_a_rotation():
    table = sinusoids(40, 8).double()
    rotation = torch.linalg.lstsq(table[:-1], table[1:]).solution
    torch.testing.assert_close(table[:-1] @ rotation, table[1:], rtol=0, atol=1e-5)  # the table is float32
    # The slowest pair turns by a quarter of its circle in 40 positions: fitted less exactly.
    torch.testing.assert_close(rotation @ rotation.T, torch.eye(8, dtype=torch.float64), rtol=0, atol=1e-3)


def test_schedule_warms_up_and_falls_to_its_floor():
    recipe = Recipe(Shape(1), steps=1000)
    rates = np.array([recipe.lr(step) for step in range(1001)])
    assert rates[0] == pytest.approx(recipe.peak_lr / recipe.warmup)
    assert rates.argmax() in (recipe.warmup - 1, recipe.warmup)
    assert rates.max() == recipe.peak_lr
    assert rates[550] == pytest.approx(recipe.peak_lr * (1 + recipe.floor) / 2)
    assert rates[1000] == pytest.approx(recipe.peak_lr * recipe.floor)
    assert (np.diff(rates[recipe.warmup :]) < 0).all()


def test_the_mlp_takes_its_share_of_the_rate(tmp_path):
    """AdamW's first step moves every weight by the rate itself, whatever the gradient."""
    shape = replace(training_steps.SHAPE, n_layers=1, d_mlp=24)
    recipe = replace(training_steps.RECIPE, shape=shape, warmup=1, weight_decay=0.0, mlp_lr_share=0.25)
    trainer = training_steps.tiny_trainer(tmp_path, recipe)
    before = {name: value.detach().clone() for name, value in trainer.model.named_parameters()}
    trainer.update()
    moved = {name: (value - before[name]).abs().max().item() for name, value in trainer.model.named_parameters()}
    assert moved["blocks.0.mlp.in.weight"] == pytest.approx(0.25 * recipe.peak_lr, rel=1e-2)
    assert moved["blocks.0.attn.q.weight"] == pytest.approx(recipe.peak_lr, rel=1e-2)


RECIPE = replace(training_steps.RECIPE, steps=7)


@pytest.fixture
def logs_every_step(monkeypatch):
    for name, value in {"LOG_EVERY": 1, "SAVE_EVERY": 3, "SNAPSHOT_EVERY": 2}.items():
        monkeypatch.setattr(trainer_module, name, value)


def test_a_resumed_run_is_the_uncut_run(tmp_path, logs_every_step):
    whole = tiny_trainer(tmp_path / "whole", RECIPE)
    rows = list(whole.run())
    assert [row["step"] for row in rows] == list(range(7))

    cut = tiny_trainer(tmp_path / "cut", RECIPE).run()
    for _ in range(5):  # the state was last saved before step 3; steps 3 and 4 are lost
        next(cut)
    resumed = tiny_trainer(tmp_path / "cut", RECIPE)
    resumed.resume()
    assert resumed.step == 3
    assert list(resumed.run()) == rows[3:]
    assert resumed.metrics == whole.metrics
    for mine, its in zip(resumed.model.parameters(), whole.model.parameters(), strict=True):
        assert torch.equal(mine, its)
    snapshots = sorted(file.stem for file in (tmp_path / "cut" / "snapshots").iterdir())
    assert snapshots == ["000000", "000002", "000004", "000006", "000007"]


def test_resume_refuses_another_recipe(tmp_path, logs_every_step):
    list(tiny_trainer(tmp_path, RECIPE).run())
    with pytest.raises(ValueError, match="another recipe"):
        tiny_trainer(tmp_path, replace(RECIPE, steps=9)).resume()


def test_nothing_to_resume_is_a_fresh_start(tmp_path):
    trainer = tiny_trainer(tmp_path, RECIPE)
    trainer.resume()
    assert trainer.step == 0


def test_two_processes_take_the_steps_of_one(tmp_path):
    """The same global batch over two CPU processes gives the same losses and weights."""
    root = Path(__file__).resolve().parents[2]
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    out = tmp_path / "two.json"
    subprocess.run(
        [*command, root / "tests" / "training_steps.py", out, tmp_path / "two"],
        check=True,
        cwd=root,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        timeout=300,
    )
    training_steps.main(tmp_path / "one.json", tmp_path / "one")
    one, two = (json.loads((tmp_path / f"{name}.json").read_text()) for name in ("one", "two"))
    assert (one["processes"], two["processes"]) == (1, 2)
    assert two["losses"] == pytest.approx(one["losses"], abs=1e-5)
    assert two["weights"] == pytest.approx(one["weights"], rel=1e-5)
