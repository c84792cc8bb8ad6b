"""The prose that ships with the app: text of our own for every page that must compute on some.

``assets/sample_text/*.txt``, one piece a file, its title on the first line.  Line breaks become spaces
by the very rule that made the training corpus, so that the models meet the kind of text they know.
"""

from pathlib import Path
from typing import NamedTuple

from jaxtyping import Int
from torch import Tensor
from transformer_lens.model_bridge import TransformerBridge

from circuits import models, tokens
from circuits.training.corpus import normalise

FOLDER = models.ASSETS / "sample_text"


class Passage(NamedTuple):
    """One piece: ``text`` is a single line without the title."""

    title: str
    text: str


def passages(folder: Path = FOLDER) -> tuple[Passage, ...]:
    """Return the pieces in the order of their file names, normalised as the corpus was.

    Raises:
        ValueError: there is no text in ``folder``, or a file in it is empty or cannot be read.
    """
    files = sorted(Path(folder).glob("*.txt"))
    if not files:
        raise ValueError(f"no .txt files in {folder}. Restore them: git checkout -- assets/sample_text")
    return tuple(_passage(file) for file in files)


def _passage(file: Path) -> Passage:
    try:
        title, _, text = file.read_text(encoding="utf-8").partition("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{file} cannot be read ({error}). Restore it: git checkout -- assets/sample_text") from error
    if not text.strip():
        raise ValueError(f"{file} holds no text under its title. Restore it: git checkout -- assets/sample_text")
    return Passage(normalise(title), normalise(text))


def read(folder: Path = FOLDER) -> str:
    """Return all pieces as one line of text, without their titles."""
    return " ".join(passage.text for passage in passages(folder))


def windows(model: TransformerBridge, folder: Path = FOLDER) -> Int[Tensor, "window n_ctx"]:
    """Return the whole text in windows of the model's ``n_ctx`` tokens, each beginning with BOS."""
    return tokens.windows(tokens.encode(model, read(folder)), model.cfg.n_ctx, bos=model.tokenizer.bos_token_id)
