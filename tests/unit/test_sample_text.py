"""The sample text: enough of it, plain, and cut as the corpus was."""

import re

import pytest
import torch

from circuits import models, sample_text, tokens

MIN_WORDS = 6500


@pytest.fixture(scope="module")
def model():
    return models.load("zero-layer")


def test_it_is_long_plain_and_in_one_line():
    text = sample_text.read()
    assert len(text.split()) >= MIN_WORDS
    assert text.isascii()
    assert not re.search(r"[\n\t\r]|  |--|_", text)


def test_every_file_is_a_titled_passage_in_name_order():
    files = sorted(sample_text.FOLDER.glob("*.txt"))
    passages = sample_text.passages()
    assert len(passages) == len(files) >= 8
    for file, passage in zip(files, passages, strict=True):
        first, _, rest = file.read_text().partition("\n")
        assert passage.title == first.strip()
        assert passage.text.split() == rest.split(), "nothing but white space may change"


def test_names_recur():
    """A model that copies from context has something to copy."""
    text = sample_text.read()
    for phrase in ("Ismene Quill", "Pellworth", "Thornbury", "There is always another tide", "One wheel at a time"):
        assert text.count(phrase) >= 3, phrase


def test_windows_hold_the_text_from_its_start(model):
    cut = sample_text.windows(model)
    ids = tokens.encode(model, sample_text.read())
    assert cut.shape == (len(ids[1:]) // (model.cfg.n_ctx - 1), model.cfg.n_ctx)
    assert len(cut) >= 32, "term importance is measured on 32 windows"
    assert (cut[:, 0] == model.tokenizer.bos_token_id).all()
    assert torch.equal(cut[:, 1:].flatten(), torch.tensor(ids[1 : 1 + len(cut) * (model.cfg.n_ctx - 1)]))


def test_missing_or_empty_files_are_named(tmp_path):
    with pytest.raises(ValueError, match=re.escape(str(tmp_path))):
        sample_text.passages(tmp_path)
    (tmp_path / "01_blank.txt").write_text("A title and nothing else\n")
    with pytest.raises(ValueError, match="01_blank"):
        sample_text.read(tmp_path)
    (tmp_path / "01_blank.txt").write_bytes(b"Title\n\xff\xfe")
    with pytest.raises(ValueError, match="01_blank"):
        sample_text.read(tmp_path)
