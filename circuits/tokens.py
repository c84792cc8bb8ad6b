"""Text to tokens and back, and the labels under which tokens are shown.

Everything visible is made here: white space is drawn (``·the``, ``↵``, ``⇥``), a byte that is no
character on its own is written ``\\xE6``, and a label that must be unique carries its position.
"""

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from jaxtyping import Int
from tokenizers import Tokenizer
from torch import Tensor
from transformer_lens.model_bridge import TransformerBridge
from transformers import PreTrainedTokenizerFast

BOS_LABEL = "<BOS>"
_VISIBLE = {" ": "·", "\n": "↵", "\t": "⇥", "\r": "␍", "\xa0": "⍽"}


@dataclass(frozen=True)
class Prompt:
    """Encoded text: ``ids`` begin with BOS and are cut to the limit; ``n_tokens`` is what the text has."""

    text: str
    ids: tuple[int, ...]
    n_tokens: int
    limit: int

    @property
    def cut(self) -> bool:
        return self.n_tokens > self.limit

    @property
    def tensor(self) -> Int[Tensor, "pos"]:
        return torch.tensor(self.ids)


def prompt(model: TransformerBridge, text: str) -> Prompt:
    """Encode ``text`` for a page: BOS first, at most ``n_ctx`` tokens, the rest counted but not used."""
    ids = encode(model, text)
    limit = model.cfg.n_ctx
    return Prompt(text=text, ids=tuple(ids[:limit]), n_tokens=len(ids), limit=limit)


def encode(model: TransformerBridge, text: str) -> list[int]:
    """Return the token ids of ``text``, BOS first.

    Special tokens typed by a reader stay plain text: ``<|endoftext|>`` in a prompt is eight ordinary tokens.
    """
    # Half an emoji (a lone surrogate) is not UTF-8 and becomes a question mark.
    text = text.encode("utf-8", "replace").decode("utf-8")
    return [model.tokenizer.bos_token_id, *_plain_backend(model.tokenizer).encode(text, add_special_tokens=False).ids]


@cache
def _plain_backend(tokenizer: PreTrainedTokenizerFast) -> Tokenizer:
    """A copy of the tokenizer that never reads special tokens in text (the original is shared and stays as it is)."""
    backend = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    backend.encode_special_tokens = True
    return backend


def unescape(line: str) -> str:
    """Turn a typed ``\\n`` or ``\\t`` (two characters) into the newline or tab it stands for."""
    return line.replace("\\n", "\n").replace("\\t", "\t")


def token_bytes(model: TransformerBridge, token: int) -> bytes:
    """Return the bytes that one token stands for (BPE pieces are bytes, not always characters)."""
    piece = model.tokenizer.convert_ids_to_tokens(int(token))
    return bytes(_byte_of()[char] for char in piece)


@cache
def _byte_of() -> dict[str, int]:
    """GPT-2's table: printable bytes stand for themselves, the others for code points from 256 on."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    return {chr(byte): byte for byte in plain} | {chr(256 + i): byte for i, byte in enumerate(others)}


def text(model: TransformerBridge, token: int) -> str:
    """Return the text of one token as a reader would type it (a lone byte becomes U+FFFD)."""
    return token_bytes(model, token).decode("utf-8", "replace")


def label(model: TransformerBridge, token: int) -> str:
    """Return how one token is shown: white space drawn, lone bytes as ``\\xE6``, never empty."""
    if token == model.tokenizer.bos_token_id:
        return BOS_LABEL
    text = token_bytes(model, token).decode("utf-8", "backslashreplace")
    return visible(text)


def visible(text: str) -> str:
    """Return ``text`` with white space, control characters and lone combining marks drawn."""
    return "".join(map(_visible, text))


def _visible(char: str) -> str:
    if char in _VISIBLE:
        return _VISIBLE[char]
    if unicodedata.category(char)[0] in "CZ":  # control, format and odd spaces: named by their number
        return f"\\u{{{ord(char):04X}}}"
    # A combining mark alone would sit on its neighbour: give it something to sit on.
    return f"◌{char}" if unicodedata.combining(char) else char


def labels(model: TransformerBridge, ids: Iterable[int]) -> list[str]:
    """Return the visible labels of ``ids``; equal tokens have equal labels."""
    return [label(model, token) for token in ids]


def unique_labels(model: TransformerBridge, ids: Iterable[int]) -> list[str]:
    """Return labels made unique by their position: ``3 ·the``.  For pickers and tables."""
    return [f"{position} {text}" for position, text in enumerate(labels(model, ids))]


MANY = 8
"""So many pieces of a word are named in an error; a whole page of text may have been pasted."""


def single_token(model: TransformerBridge, text: str) -> int:
    """Return the one token that ``text`` is.

    Raises:
        ValueError: ``text`` is empty or several tokens; the message shows the pieces and, where it would
            help, that the same word with a leading space is one token.
    """
    ids = encode(model, text)[1:]
    if len(ids) == 1:
        return ids[0]
    if not ids:
        raise ValueError("type a token: the box is empty")
    pieces = " + ".join(labels(model, ids[:MANY])) + (" + …" if len(ids) > MANY else "")
    hint = ""
    if not text.startswith(" ") and len(encode(model, " " + text)) == 2:
        hint = f"; with a leading space it is one token: {_visible(' ')}{text}"
    shown = text if len(text) <= 60 else f"{text[:60]}…"
    raise ValueError(f"{shown!r} is {len(ids):,} tokens ({pieces}){hint}")


def windows(ids: Iterable[int], n_ctx: int, bos: int = 0) -> Int[Tensor, "window n_ctx"]:
    """Cut a long text into windows of ``n_ctx`` tokens that begin with BOS; a short rest is dropped.

    BOS tokens inside ``ids`` (the seams between files) are left out.  A loss on text is the mean over all
    ``n_ctx − 1`` predicted tokens of such windows.
    """
    ids = torch.as_tensor(np.asarray(ids, dtype=np.int64))
    ids = ids[ids != bos]
    body = ids[: len(ids) // (n_ctx - 1) * (n_ctx - 1)].reshape(-1, n_ctx - 1)
    return torch.cat([torch.full((len(body), 1), bos), body], dim=1)
