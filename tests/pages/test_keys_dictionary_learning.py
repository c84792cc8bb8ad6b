"""Every exercise of page 12 by another route, and what the page says of a feature."""

import json
import re

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from circuits import models, sample_text
from circuits.dictionary import search, shipped

ROOT = models.ASSETS.parent


@pytest.fixture(scope="module")
def page() -> AppTest:
    at = AppTest.from_file(str(ROOT / "app.py"), default_timeout=240).run()
    at.switch_page("pages/12_dictionary_learning.py").run()
    assert not at.exception
    assert not at.error
    return at


@pytest.fixture(scope="module")
def keys(page) -> tuple:
    return page.session_state["_answer_keys"]["dictionary_learning"]


def test_closed_forms(keys):
    f = np.arange(0, 2, 1e-4)
    assert keys[0].answer.value == pytest.approx(f[np.argmin((1 - f) ** 2 + 0.3 * f)], abs=1e-3)
    assert "penalty is escaped" in keys[1].answer.correct
    assert keys[2].answer.correct == "No"
    assert keys[3].answer.value == 0


def test_loss_recovered(keys):
    held_out = json.loads((models.ASSETS / "dictionary" / "config.json").read_text())["held_out"]
    none, ours, whole = (held_out[f"loss_{name}"] for name in ("zero", "spliced", "clean"))
    assert keys[4].answer.accepts(f"{(none - ours) / (none - whole):.2f}")


def test_known_features_are_found_and_the_checks_are_green(page):
    text = "\n".join(element.value for element in page.markdown)
    assert "20 of 20" in text
    assert "red-badge" not in text
    assert text.count("green-badge") >= 2


def test_the_neurons_own_sparsity_stands_beside_the_dictionarys(page):
    model = models.load("one-layer-mlp")
    windows = sample_text.windows(model)[:16]
    _, cache = model.run_with_cache(windows)
    active = cache["blocks.0.mlp.hook_post"].flatten(0, 1) > 0
    text = "\n".join(element.value for element in page.markdown)
    assert f"without any dictionary = `{active.sum(-1).float().mean():.1f}`" in text
    assert f"({int((~active.any(0)).sum())} of 1,024 neurons are silent" in text
    encode = shipped.load().model.encode
    l0 = (encode(cache["blocks.0.mlp.hook_post"].flatten(0, 1)) > 0).sum(-1).float().mean().item()
    assert f"has `{l0:.1f}` features active at once" in text
    assert ("it makes the layer sparser" in text) == (l0 < active.sum(-1).float().mean().item())
    assert ("does **not** make the layer sparser" in text) != ("it makes the layer sparser" in text)


def test_the_price_of_the_penalty_is_measured(page):
    """At the default λ = 0.2 interference makes it twice the λ/2 of the closed form."""
    text = "\n".join(element.value for element in page.markdown)
    measured = float(re.search(r"Here, at \$\\lambda = 0.2\$, it is `([\d.]+)`", text)[1])
    assert measured == pytest.approx(search.load().report.shrinkage[search.L1S.index(0.2)].item(), abs=5e-4)
    assert measured > 0.1 + 0.02


def test_any_feature_can_be_looked_at(page):
    page.button(key="dictionary_learning random").click().run()
    assert not page.exception
    assert not page.error
    for feature in (0, 4095):
        page.number_input(key="dictionary_learning.feature").set_value(feature).run()
        assert not page.exception
        assert not page.error
