"""Every exercise of page 11 by another route, and what its controls do."""

import itertools

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from circuits import models
from circuits.superposition import sweep
from tests.pages.opened import opened
from tests.pages.test_live import finish

ROOT = models.ASSETS.parent


@pytest.fixture(scope="module")
def page() -> AppTest:
    return opened("superposition", 240)


@pytest.fixture(scope="module")
def keys(page) -> tuple:
    return page.session_state["_answer_keys"]["superposition"]


def share(corners: np.ndarray) -> float:
    """D_0 by the definition."""
    return 1 / sum((corners[0] @ corner) ** 2 for corner in corners)


def test_polytopes(keys):
    angle = 2 * np.pi * np.arange(5) / 5
    assert keys[0].answer.value == pytest.approx(share(np.stack([np.cos(angle), np.sin(angle)], 1)))
    tetrahedron = np.array([s for s in itertools.product((1, -1), repeat=3) if np.prod(s) > 0]) / 3**0.5
    assert keys[1].answer.value == pytest.approx(share(tetrahedron))


def test_crossover(keys):
    """Monte Carlo of both losses at the key: they agree within the sampling error."""
    p, n = keys[2].answer.value, 1_000_000
    rng = np.random.default_rng(0)
    x = rng.random((n, 2)) * (rng.random((n, 2)) < p)
    h = x[:, 0] - x[:, 1]
    pair = (x[:, 0] - np.maximum(h, 0)) ** 2 + (x[:, 1] - np.maximum(-h, 0)) ** 2
    dedicated = (x[:, 1] - p / 2) ** 2
    assert pair.mean() == pytest.approx(dedicated.mean(), abs=5 * (pair.std() + dedicated.std()) / n**0.5)


def test_counts(keys):
    assert [keys[3].answer.value, keys[4].answer.value] == [5, 2]


def test_checks_are_green_and_the_typed_text_is_shown(page):
    text = "\n".join(element.value for element in page.markdown)
    assert "red-badge" not in text
    assert text.count("green-badge") >= 4  # three on the toy, one on the embeddings
    assert "Nearest to `·Mr`" in text
    page.text_input[0].set_value("Mr. Smith went to London").run()
    assert not page.exception
    assert "Nearest to `·London`" in "\n".join(element.value for element in page.markdown)


@pytest.mark.parametrize(("n", "m"), [(5, 2), (2, 5)])
def test_a_linear_model_shows_its_check(n, m):
    """Also with room for all of its features."""
    problem = sweep.Problem(n, m, activation="linear")
    at = AppTest.from_file(str(ROOT / "app.py"), default_timeout=240)
    for name, value in (("n", n), ("m", m), ("activation", "linear")):
        at.session_state[f"superposition.{name}"] = value
    at.run()
    at.switch_page("pages/11_superposition.py").run()
    finish("superposition.sweep", problem)
    at.run()
    assert not at.exception
    text = "\n".join(element.value for element in at.markdown)
    assert "holds] |features stored − min(n, m)|, in a linear model" in text
    assert "red-badge" not in text
