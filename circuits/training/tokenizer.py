"""Byte-level BPE, trained on the corpus: every text can be written, no token is unknown."""

from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

BOS = "<|endoftext|>"
"""Begins every training window and every prompt; always id 0."""


def train(texts: list[str], d_vocab: int) -> Tokenizer:
    """Train a byte-level BPE of ``d_vocab`` tokens, leading spaces as in GPT-2."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=d_vocab, special_tokens=[BOS], initial_alphabet=alphabet)
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def save(tokenizer: Tokenizer, folder: Path) -> None:
    """Write ``tokenizer.json`` and ``tokenizer_config.json``, so that ``from_pretrained`` knows the BOS token."""
    folder.mkdir(parents=True, exist_ok=True)
    wrapped = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token=BOS, eos_token=BOS, unk_token=BOS)
    wrapped.save_pretrained(folder)
