"""Every exercise key of page 08 by another route, and the page on texts of the reader's own."""

import math

import pytest
import torch
from streamlit.testing.v1 import AppTest

from circuits import models, tokens
from circuits.weights import Head, Weights, forward

SECONDS = 120

TEXTS = {
    "empty": "",
    "one token": "the",
    "nothing repeats": "one two three",
    "all the same": "the the the the the",
    "markup": "$a$ <b>x</b> *y* :smile: $a$ <b>x</b> *y*",
    "over-long": "the cat sat on the mat and " * 80,
}


def page(**state) -> AppTest:
    at = AppTest.from_file(str(models.ASSETS.parent / "app.py"), default_timeout=SECONDS)
    at.session_state["_predicted"] = {"induction_heads": "Skip"}
    for name, value in state.items():
        at.session_state[name.replace("__", ".")] = value
    at.run()
    at.switch_page("pages/08_induction_heads.py").run()
    assert not at.exception
    assert not at.error, [error.value for error in at.error]
    assert not [block for block in at.markdown if ":red-badge[" in block.value]
    return at


@pytest.fixture(scope="module")
def keys() -> tuple:
    return page().session_state["_answer_keys"]["induction_heads"]


def test_gain_and_floor(keys):
    beta = keys[0].answer.value
    assert math.exp(beta) / (math.exp(beta) + 24) == pytest.approx(0.9)
    assert keys[0].answer.accepts("5.4")
    floor = sum(1 / (i + 1) for i in range(51, 101)) / 50
    assert keys[1].answer.value == pytest.approx(floor, abs=1e-6)
    assert keys[1].answer.accepts(f"{math.log(2) / 50:.4f}")


def test_the_best_induction_head(keys):
    """A probe and a loop of its own."""
    weights = Weights.of(models.load("two-layer"))
    generator = torch.Generator().manual_seed(11)
    scores = torch.zeros(weights.n_heads)
    for _ in range(8):
        once = torch.randint(1, weights.d_vocab, (50,), generator=generator)
        pattern = forward(weights, torch.cat([torch.zeros(1, dtype=torch.long), once, once])).pattern[1]
        scores += torch.stack([pattern[:, i, i - 49] for i in range(51, 101)]).mean(0)
    assert keys[4].answer.right == (Head(1, int(scores.argmax())),)


def test_choices_are_among_the_options(keys):
    assert all(keys[number].answer.correct in keys[number].answer.options for number in (2, 3))
    assert "duplicate" in keys[2].answer.correct


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_a_readers_text(text):
    at = page(text=text, induction_heads__source="Your text")
    repeats = text not in ("", "the", "one two three")
    assert any("induction score" in block.value for block in at.markdown) == repeats
    assert any("Nothing repeats" in caption.value for caption in at.caption) != repeats


def test_odd_probes():
    page(induction_heads__period=60, induction_heads__repeats=4, induction_heads__bos=False, induction_heads__swap=60)
    page(induction_heads__period=4, induction_heads__swap=1, induction_heads__ablate=True)


def test_the_workbench_moves():
    at = page(induction_heads__offset="itself")
    assert any("accuracy on the copies = `0.0%`" in block.value for block in at.markdown)
    assert not any("attention on the match" in block.value for block in at.markdown)
    at = page(induction_heads__built_bos=False)
    assert any("accuracy on the copies = `95.7%`" in block.value for block in at.markdown)


def test_the_picture_shows_the_strongest_head_on_the_text_until_one_is_chosen():
    text = "Ismene met Quill in the garden. Ismene met Quill"
    at = page(text=text, induction_heads__source="Your text")
    model = models.load("two-layer")
    ids = torch.tensor(tokens.encode(model, text))
    pattern = models.run(model, ids).pattern[1]
    targets = [(i, j) for i in range(len(ids)) for j in range(1, i + 1) if ids[j - 1] == ids[i]]
    on_target = [sum(pattern[head, i, j] for i, j in targets).item() for head in range(8)]
    assert any(f"induction score of L1H{max(range(8), key=on_target.__getitem__)}" in b.value for b in at.markdown)
    at = page(text=text, induction_heads__source="Your text", induction_heads__head="L1H4")
    assert any("induction score of L1H4" in block.value for block in at.markdown)
