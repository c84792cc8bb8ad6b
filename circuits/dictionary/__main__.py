"""``python -m circuits.dictionary {train --corpus DIR, contexts, search}``: make what page 12 shows again."""

import argparse
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer
from tqdm import tqdm

from circuits import models, tokens
from circuits.dictionary import search, shipped
from circuits.training import corpus
from circuits.weights import Weights


def text(source: Path) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the training and held-out windows of a folder of books, or of an ``.npz`` of token ids."""
    if source.suffix == ".npz":
        with np.load(source) as ids:
            train, held_out = ids["train"], ids["held_out"]
    else:
        tokenizer = Tokenizer.from_file(str(models.ASSETS / "tokenizer" / "tokenizer.json"))
        train, held_out = (corpus.tokenise(texts, tokenizer) for texts in corpus.read(source))
    n_ctx = models.read_config(models.ASSETS / "models" / shipped.MODEL, shipped.MODEL)["n_ctx"]
    return tokens.windows(train, n_ctx), tokens.windows(held_out, n_ctx)


def train(source: Path, recipe: shipped.Recipe) -> None:
    """Train, measure after rounding to float16, save."""
    windows, held_out = text(source)
    weights = Weights.of(models.load(shipped.MODEL))
    bar = tqdm(total=recipe.steps, desc="dictionary")

    def progress(steps):
        for now in steps:
            bar.update(now.step - bar.n)
            bar.set_postfix(error=f"{now.error:.3f}", l0=f"{now.l0:.1f}")
            yield now

    model = shipped.train(weights, windows, recipe, progress).half().float()
    every = max(1, len(held_out) // shipped.MEASURED_WINDOWS)
    density, numbers = shipped.measure(weights, model, held_out[::every][: shipped.MEASURED_WINDOWS])
    shipped.save(model, density, recipe, numbers)
    print(numbers)


def contexts() -> None:
    """Make the index of top contexts."""
    shipped.save_contexts(shipped.feature_contexts(progress=tqdm))


def main() -> None:
    """Run one command: train the dictionary, index its contexts, or search for known features."""
    parser = argparse.ArgumentParser(prog="python -m circuits.dictionary", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    training = commands.add_parser("train", help="train, measure and save the autoencoder, then index its contexts")
    training.add_argument("--corpus", type=Path, required=True, help="a folder of .txt books, or an .npz of token ids")
    training.add_argument("--steps", type=int, default=shipped.Recipe.steps)
    training.add_argument("--l1", type=float, default=shipped.Recipe.l1)
    commands.add_parser("contexts", help="index the top contexts of every feature again")
    commands.add_parser("search", help="train the toy that page 12 opens with, and search for its features")
    given = parser.parse_args()
    if given.command == "search":
        return search.write()
    if given.command == "train":
        train(given.corpus, shipped.Recipe(steps=given.steps, l1=given.l1))
    contexts()


if __name__ == "__main__":
    main()
