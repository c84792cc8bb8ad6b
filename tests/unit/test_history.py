"""The history: which moments are chosen, and that the loader gives back what was written."""

import json

import numpy as np
import pytest
import torch

from circuits import history
from circuits.history import Metrics
from circuits.training import history as writer
from circuits.training.export import write_config, write_weights
from circuits.training.transformer import Shape, Transformer, state_dict
from circuits.weights import Weights

STEPS = list(range(0, 10_001, 50))
SHAPE = Shape(2, d_model=8, n_heads=2, d_head=4, n_ctx=8, d_vocab=12)


def row(step: int) -> dict:
    """One logged row of a run whose previous-token head rises at step 1,200 and induction at 1,600."""
    previous = 1 / (1 + np.exp(-(step - 1200) / 100))
    induced = 1 / (1 + np.exp(-(step - 1600) / 100))
    return {
        "step": step,
        "train_loss": None if step == STEPS[-1] else 8 - induced,
        "held_out": 8 - induced,
        "in_context": -induced,
        "copy_loss": 8 - 7 * induced,
        "copy_accuracy": induced,
        "previous": [[previous, 0.01], [0.01, 0.01]],
        "duplicate": [[0.01, 0.01], [0.01, 0.01]],
        "induction": [[0.01, 0.01], [0.01, induced]],
    }


@pytest.fixture(scope="module")
def rows() -> list[dict]:
    return [row(step) for step in STEPS]


def test_twelve_moments_crowd_where_the_model_changes(rows):
    chosen = writer.choose(Metrics.from_rows(rows), list(range(0, 10_001, 100)))
    assert chosen == sorted(set(chosen))
    assert len(chosen) == 12
    assert chosen[0] == 0
    assert chosen[-1] == 10_000
    assert 5000 in chosen
    assert sum(900 <= step <= 2100 for step in chosen) >= 8
    assert sum(step < 900 for step in chosen[1:]) <= 1


def test_progress_never_falls_and_runs_from_0_to_1(rows):
    dip = [dict(row, copy_accuracy=0.2) if row["step"] == 8000 else row for row in rows]
    done = writer.progress(Metrics.from_rows(dip))
    assert done[0] == 0
    assert done[-1] == pytest.approx(1)
    assert (np.diff(done) >= 0).all()


def test_a_run_without_change_is_spread_somehow_but_wholly(rows):
    flat = [rows[0] | {"step": step} for step in STEPS]
    chosen = writer.choose(Metrics.from_rows(flat), list(range(0, 10_001, 100)))
    assert len(set(chosen)) == 12


def test_a_short_run_keeps_every_snapshot(rows):
    assert writer.choose(Metrics.from_rows(rows), [0, 100, 50]) == [0, 50, 100]


@pytest.fixture
def assets(tmp_path, rows):
    """A finished tiny run: snapshots every 100 steps, the last of them exported as the shipped model."""
    snapshots = tmp_path / "snapshots"
    snapshots.mkdir()
    for step in range(0, 10_001, 100):
        torch.manual_seed(step)
        write_weights(state_dict(Transformer(SHAPE)), snapshots / f"{step:06d}.safetensors")
    folder = tmp_path / "assets" / "models" / "two-layer"
    folder.mkdir(parents=True)
    torch.manual_seed(10_000)
    sha256 = write_weights(state_dict(Transformer(SHAPE)), folder / "model.safetensors")
    write_config(folder, SHAPE.config() | {"sha256": sha256})
    writer.write(rows, snapshots, tmp_path / "assets")
    history._read.cache_clear()
    return tmp_path / "assets"


def test_loader_gives_back_metrics_and_weights(assets, rows):
    metrics = history.metrics(assets)
    assert metrics.step.tolist() == STEPS
    assert metrics.previous.shape == (len(STEPS), 2, 2)
    assert np.isnan(metrics.train_loss[-1])
    assert metrics.copy_accuracy.tolist() == [row["copy_accuracy"] for row in rows]
    steps = history.steps(assets)
    assert len(steps) == 12
    for step in steps:
        torch.manual_seed(step)
        expected = Weights.from_state_dict(state_dict(Transformer(SHAPE)), 2, 2)
        assert torch.equal(history.weights(step, assets).W_Q, expected.W_Q.float())


def test_the_last_moment_is_not_stored_twice(assets):
    folder = assets / "checkpoints" / "two-layer"
    assert len(list(folder.glob("step-*.safetensors"))) == 11


def test_unknown_step_names_those_there_are(assets):
    with pytest.raises(ValueError, match="step 17; there are 0, "):
        history.weights(17, assets)


def test_damaged_weights_name_file_and_command(assets):
    file = assets / "checkpoints" / "two-layer" / "step-000000.safetensors"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    with pytest.raises(ValueError, match=r"step-000000\.safetensors is damaged.*git checkout"):
        history.weights(0, assets)
    file.unlink()
    with pytest.raises(ValueError, match=r"step-000000\.safetensors is missing.*git checkout"):
        history.weights(0, assets)


@pytest.mark.parametrize("content", [None, "{", "[]", json.dumps({"metrics": []})])
def test_damaged_index_names_file_and_command(tmp_path, content):
    folder = tmp_path / "checkpoints" / "two-layer"
    folder.mkdir(parents=True)
    if content is not None:
        (folder / "history.json").write_text(content)
    with pytest.raises(ValueError, match=r"history\.json.*git checkout -- assets/checkpoints/two-layer"):
        history.steps(tmp_path)
