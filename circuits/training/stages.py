"""The stages of the training command, each of which makes some of the files under ``assets/`` again.

They build on each other in the order of :data:`STAGES`: the tokenizer, the statistics of the corpus, the models,
the passages that two of them write, and what other pages make from those.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from circuits import contexts, models
from circuits.dictionary import __main__ as dictionary
from circuits.dictionary import search
from circuits.superposition import __main__ as superposition
from circuits.training import corpus, history, samples, tokenizer, zero_layer
from circuits.training.card import corpus_card
from circuits.training.data import SIZES, Data
from circuits.training.export import Finished, export, recipe_dict
from circuits.training.trainer import Recipe, Trainer
from circuits.training.transformer import Shape, state_dict

RUNS = {
    "two-layer": Recipe(Shape(n_layers=2), steps=20_000),
    "one-layer": Recipe(Shape(n_layers=1), steps=8_000),
    "one-layer-mlp": Recipe(Shape(n_layers=1, d_mlp=1024), steps=8_000),
}
"""The models with attention and how they were trained."""

ZERO_LAYERS = {"zero-layer": zero_layer.Recipe(d_model=256)} | {
    name: zero_layer.Recipe(d_model=int(name.removeprefix("zero-layer-d"))) for name in models.RANK_FAMILY
}


@dataclass(frozen=True)
class Job:
    """What the command line asked for.  ``steps`` None means the recipe's own number."""

    corpus: Path
    assets: Path = models.ASSETS
    work: Path = Path(".training")
    resume: bool = False
    precision: str = "no"
    steps: int | None = None
    say: Callable[[str], None] = print

    @cached_property
    def data(self) -> Data:
        return Data.read(self.corpus, self.assets, self.say)

    def recipe(self, recipe):
        """Return the recipe with the number of steps asked for."""
        return replace(recipe, steps=self.steps) if self.steps else recipe


def train_tokenizer(job: Job) -> None:
    """Write ``assets/tokenizer`` from the training part of the corpus."""
    texts = corpus.read(job.corpus).train
    job.say(f"training the tokenizer on {len(texts)} files")
    tokenizer.save(tokenizer.train(texts, SIZES.d_vocab), job.assets / "tokenizer")


def count(job: Job) -> None:
    """Write ``assets/corpus/bigrams.npz``."""
    job.data.table.save(job.assets / "corpus" / "bigrams.npz")
    job.say(f"{len(job.data.table.pairs):,} kinds of pairs; counts alone reach {job.data.references}")


def train_zero_layers(job: Job) -> None:
    """Train and export ``zero-layer`` and the six smaller models of the rank slider."""
    counts = zero_layer.split_counts(job.data.train, SIZES.d_vocab)
    for name, recipe in ZERO_LAYERS.items():
        recipe = job.recipe(recipe)
        weights, log = zero_layer.run(recipe, counts, job.work / name, job.resume)
        kept = min(log, key=lambda row: row["validation_loss"])["step"]
        words = recipe_dict(recipe, validation_every=zero_layer.EVERY, kept_step=kept)
        _report(job, export(Finished(name, weights, recipe.shape.config(), words, log), job.data, job.assets), name)


def train_run(name: str, job: Job) -> None:
    """Train and export one model with attention; ``two-layer`` writes its history too.

    Raises:
        ValueError: the work folder holds a run that was cut, and ``--resume`` was not asked for.
    """
    recipe, folder = job.recipe(RUNS[name]), job.work / name
    if not job.resume and (folder / "state.pt").exists():
        raise ValueError(f"{folder} holds an earlier run: go on from it with --resume, or delete the folder")
    trainer = Trainer(recipe, job.data.train, job.data.held_out, folder, job.precision)
    trainer.resume()
    for _ in trainer.run():
        pass
    if not trainer.accelerator.is_main_process:
        return
    weights = state_dict(trainer.accelerator.unwrap_model(trainer.model))
    words = recipe_dict(recipe, precision=job.precision)
    finished = Finished(name, weights, recipe.shape.config(), words, trainer.metrics)
    _report(job, export(finished, job.data, job.assets), name)
    if name == history.NAME:
        steps = history.write(trainer.metrics, folder / "snapshots", job.assets)
        job.say(f"history: weights at steps {steps}")


def write_samples(job: Job) -> None:
    """Write ``assets/corpus/sampled.npz`` and the note on what lies in ``assets/corpus``."""
    dropped = samples.write(job.data, job.assets)
    (job.assets / "corpus" / "README.md").write_text(corpus_card(job.data.facts(), job.data.references, dropped))
    job.say(f"sampled passages: {dropped}")


def train_dictionary(job: Job) -> None:
    """Train the autoencoder of page 12 on the shipped MLP model, whose folder it belongs to."""
    if job.assets.resolve() != models.ASSETS:
        return job.say(f"no dictionary for {job.assets}: it is trained on the models in {models.ASSETS} alone")
    dictionary.train(job.corpus, dictionary.shipped.Recipe())
    dictionary.contexts()


def write_toy_models(job: Job) -> None:
    """Train the toy models of pages 11 and 12, which need no text."""
    for write in (*superposition.COMMANDS.values(), search.write):
        write(job.assets / "toy_models")


def _report(job: Job, config: dict, name: str) -> None:
    text, repeats = config["measured"]["held_out"], config["measured"]["repeats"]
    job.say(f"{name}: held-out loss {text['loss']:.4f}, accuracy on the second copy {repeats['copy_accuracy']:.3f}")


STAGES: dict[str, Callable[[Job], None]] = {
    "tokenizer": train_tokenizer,
    "corpus": count,
    "zero-layer": train_zero_layers,
    **{name: (lambda job, name=name: train_run(name, job)) for name in RUNS},
    "samples": write_samples,
    "contexts": lambda job: contexts.main(job.assets),
    "dictionary": train_dictionary,
    "toy-models": write_toy_models,
}
