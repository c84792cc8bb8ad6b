"""The training command: a run becomes a folder whose numbers are those of the file in it; clear errors."""

import json
import re
import shutil
from pathlib import Path

import pytest
import torch

from circuits import models
from circuits.evaluation import evaluate, loss_on_windows
from circuits.training import stages
from circuits.training.__main__ import main
from circuits.training.data import Data
from circuits.training.export import Finished, export, recipe_dict
from circuits.training.stages import RUNS, STAGES, ZERO_LAYERS, Job
from circuits.training.trainer import Recipe
from circuits.training.transformer import Shape, Transformer, state_dict

ROUNDED = 6e-6
"""Numbers in ``config.json`` have five digits after the point."""


@pytest.fixture(scope="module")
def assets(tmp_path_factory) -> Path:
    """An assets folder with the tokenizer alone."""
    folder = tmp_path_factory.mktemp("assets")
    shutil.copytree(models.ASSETS / "tokenizer", folder / "tokenizer")
    return folder


@pytest.fixture(scope="module")
def books(tmp_path_factory) -> Path:
    """Two short books of nonsense, long enough that their ends fill a window."""
    folder = tmp_path_factory.mktemp("books")
    for name, words in (("one", "the cat sat on the mat and"), ("two", "a dog ran after the red ball while")):
        text = " ".join(f"{words} {i}." for i in range(2000))
        (folder / f"{name}.txt").write_text(text)
    return folder


@pytest.fixture(scope="module")
def data(books, assets) -> Data:
    return Data.read(books, assets, say=lambda text: None)


LOG = [
    {"step": step, "held_out": 8.0, "copy_accuracy": 0.0, "previous": [[0.1] * 8], "induction": [[0.2] * 8]}
    for step in (0, 50)
]


def random_run(name: str, shape: Shape) -> Finished:
    torch.manual_seed(0)
    recipe = recipe_dict(Recipe(shape, steps=50), precision="no")
    return Finished(name, state_dict(Transformer(shape)), shape.config(), recipe, LOG)


@pytest.mark.parametrize(("name", "d_mlp"), [("one-layer", 0), ("one-layer-mlp", 1024)])
def test_export_measures_the_file_it_wrote(name, d_mlp, data, assets):
    config = export(random_run(name, Shape(1, d_mlp=d_mlp)), data, assets)
    assert json.loads((assets / "models" / name / "config.json").read_text()) == config
    model = models.load(name, assets=assets)
    result = evaluate(model, data.held_out)
    measured = config["measured"]
    assert measured["held_out"]["loss"] == pytest.approx(result.loss, abs=ROUNDED)
    assert measured["held_out"]["loss"] == pytest.approx(loss_on_windows(model, data.held_out), abs=ROUNDED)
    assert measured["held_out"]["windows"] == len(data.held_out)
    assert measured["repeats"]["copy_accuracy"] == pytest.approx(result.repeats.copy_accuracy, abs=ROUNDED)
    assert measured["ablated"]["head"] == str(result.repeats.previous_token_head)
    flat = torch.tensor(measured["repeats"]["previous"])
    torch.testing.assert_close(flat, result.repeats.previous, rtol=0, atol=ROUNDED)


def test_card_says_what_was_measured(data, assets):
    config = export(random_run("one-layer", Shape(1)), data, assets)
    card = (assets / "models" / "one-layer" / "README.md").read_text()
    assert card.startswith("# one-layer\n")
    assert f"**this model** | {config['measured']['held_out']['loss']:.3f} |" in card
    assert f"{config['data']['training_tokens']:,} tokens to train on" in card
    for head in range(8):
        scores = " | ".join(
            f"{config['measured']['repeats'][kind][0][head]:.3f}" for kind in ("previous", "duplicate", "induction")
        )
        assert f"| L0H{head} | {scores} |" in card
    assert f"{config['data']['tokens_never_seen']} of the 4,096 tokens" in card
    assert not re.search(r"\{\w|nan|None", card)


def test_facts_of_the_corpus(data):
    facts = data.facts()
    assert facts["files"] == 2
    assert facts["training_tokens"] == int((data.train != 0).sum())
    assert facts["held_out_tokens"] == len(data.held_out) * 255
    assert data.references["uniform"] > data.references["unigram"] > data.references["bigram"]


def test_zero_layer_stage_end_to_end(books, assets, data, tmp_path, monkeypatch):
    monkeypatch.setattr(stages, "ZERO_LAYERS", {"zero-layer-d2": ZERO_LAYERS["zero-layer-d2"]})
    said = []
    assert STAGES["zero-layer"](Job(books, assets, tmp_path, steps=10, say=said.append)) is None
    config = json.loads((assets / "models" / "zero-layer-d2" / "config.json").read_text())
    model = models.load("zero-layer-d2", assets=assets)
    assert config["measured"]["held_out"]["loss"] == pytest.approx(loss_on_windows(model, data.held_out), abs=ROUNDED)
    assert "ablated" not in config["measured"]
    assert config["recipe"]["kept_step"] == 10
    assert any("zero-layer-d2: held-out loss" in line for line in said)


def test_recipes_cover_the_family():
    assert set(RUNS) | {"zero-layer"} == set(models.SHIPPED)
    assert set(ZERO_LAYERS) == {"zero-layer", *models.RANK_FAMILY}
    assert list(STAGES) == [
        "tokenizer",
        "corpus",
        "zero-layer",
        *RUNS,
        "samples",
        "contexts",
        "dictionary",
        "toy-models",
    ]


def test_the_dictionary_is_not_trained_for_another_folder(books, assets, tmp_path, monkeypatch):
    monkeypatch.setattr(stages.dictionary, "train", None)  # would fail if called
    said = []
    STAGES["dictionary"](Job(books, assets, tmp_path, say=said.append))
    assert "no dictionary" in said[0]


@pytest.mark.parametrize("stage", ["tokenizer", "corpus", "two-layer", "all"])
def test_no_folder_or_no_books_is_one_clear_line(stage, tmp_path, assets, capsys):
    arguments = ["--assets", str(assets), "--work", str(tmp_path / "work"), "--precision", "no"]
    assert main([stage, "--corpus", str(tmp_path / "nowhere"), *arguments]) == 2
    assert re.fullmatch(r"error: there is no folder .*nowhere: .*\n", capsys.readouterr().err)
    assert main([stage, "--corpus", str(tmp_path), *arguments]) == 2
    assert re.fullmatch(r"error: no \.txt files in .*\n", capsys.readouterr().err)


def test_stages_before_the_tokenizer_say_so(tmp_path, books, capsys):
    assert main(["corpus", "--corpus", str(books), "--assets", str(tmp_path)]) == 2
    assert "python -m circuits.training tokenizer" in capsys.readouterr().err


def test_too_short_a_corpus_says_so(tmp_path, assets, capsys):
    (tmp_path / "tiny.txt").write_text("Once upon a time. " * 20)
    assert main(["corpus", "--corpus", str(tmp_path), "--assets", str(assets)]) == 2
    assert "too short" in capsys.readouterr().err


def test_a_cut_run_is_not_overwritten(tmp_path, books, assets, capsys):
    (tmp_path / "one-layer").mkdir()
    (tmp_path / "one-layer" / "state.pt").touch()
    options = ["--corpus", str(books), "--assets", str(assets), "--work", str(tmp_path), "--precision", "no"]
    assert main(["one-layer", *options]) == 2
    assert "--resume" in capsys.readouterr().err


def test_tokenizer_stage_writes_what_transformers_reads(tmp_path, books):
    assert main(["tokenizer", "--corpus", str(books), "--assets", str(tmp_path)]) == 0
    tokenizer = models.tokenizer(tmp_path)
    assert tokenizer.bos_token_id == 0
    assert tokenizer.decode(tokenizer.encode("the cat")) == "the cat"
