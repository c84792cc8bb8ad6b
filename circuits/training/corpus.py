"""Reading a folder of plain-text books: normalise, hold out, tokenise.

The trainer takes any folder of ``.txt`` files.  Books arrive with hard line breaks inside
paragraphs, three kinds of quotation mark and four kinds of dash; one documented step
(:func:`normalise`) makes them the text a reader would type into the app.
"""

import re
import unicodedata
from pathlib import Path
from typing import NamedTuple

import numpy as np
from tokenizers import Tokenizer

HELD_OUT = 0.02
"""Share of every file, taken from its end, that no model is trained on."""

_PUNCTUATION = str.maketrans({"“": '"', "”": '"', "„": '"', "‘": "'", "’": "'", "`": "'", "_": "", "\ufeff": ""})
_DASH = re.compile(r"\s*(?:[—–―]|--+)\s*")
_SPACE = re.compile(r"\s+")


class Split(NamedTuple):
    """One corpus, cut once: ``train`` and ``held_out`` are lists of texts, a text a file."""

    train: list[str]
    held_out: list[str]


def normalise(text: str) -> str:
    """Return ``text`` as one line of plain typographic English.

    NFC; straight quotes; underscores (italics) dropped; every dash becomes `` - ``; every run of
    white space, line breaks included, becomes one space.  The last is why the newline token never
    occurs in training: hard line breaks in these books say nothing about the sentence.
    """
    text = unicodedata.normalize("NFC", text).translate(_PUNCTUATION)
    return _SPACE.sub(" ", _DASH.sub(" - ", text)).strip()


def read(folder: Path) -> Split:
    """Read every ``.txt`` under ``folder`` in name order and hold out the last 2 % of each.

    Raises:
        ValueError: there is no such folder, or no ``.txt`` file in it.
    """
    if not Path(folder).is_dir():
        raise ValueError(f"there is no folder {folder}: --corpus wants a folder of plain-text books")
    files = sorted(Path(folder).glob("**/*.txt"))
    if not files:
        raise ValueError(f"no .txt files in {folder}: --corpus wants a folder of plain-text books")
    train, held_out = [], []
    for file in files:
        text = normalise(file.read_text(encoding="utf-8", errors="replace"))
        # Cut at a space, so that no word is split between the two parts.
        cut = text.rfind(" ", 0, int(len(text) * (1 - HELD_OUT)))
        train.append(text[:cut])
        held_out.append(text[cut:])
    return Split(train, held_out)


def tokenise(texts: list[str], tokenizer: Tokenizer) -> np.ndarray:
    """Encode ``texts`` into one flat uint16 array, every text preceded by BOS (id 0)."""
    pieces = []
    for encoding in tokenizer.encode_batch_fast(texts, add_special_tokens=False):
        pieces.append(np.concatenate([[0], np.asarray(encoding.ids)]).astype(np.uint16))
    return np.concatenate(pieces)
