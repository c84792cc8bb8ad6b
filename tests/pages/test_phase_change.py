"""Page 09: keys by another route, the moments, and live training as a reader does it."""

import json
import math

import pytest
from streamlit.testing.v1 import AppTest

from circuits import history, models
from circuits import live_training as live
from pages.ui.cached import queue
from pages.ui.live_training import describe

SECONDS = 120
SLUG = "phase_change"


def page(**state) -> AppTest:
    at = AppTest.from_file(str(models.ASSETS.parent / "app.py"), default_timeout=SECONDS)
    at.session_state["_predicted"] = {SLUG: "Skip"}
    for name, value in state.items():
        at.session_state[f"{SLUG}.{name}"] = value
    at.run()
    at.switch_page("pages/09_phase_change.py").run()
    assert_whole(at)
    return at


def assert_whole(at: AppTest) -> None:
    assert not at.exception, at.exception
    assert not at.error, [error.value for error in at.error]
    assert not [block for block in at.markdown if ":red-badge[" in block.value]


def press(at: AppTest, label: str) -> None:
    next(button for button in at.button if button.label.startswith(label)).click()
    at.run()
    assert_whole(at)


def shows(at: AppTest, words: str) -> bool:
    return any(words in block.value for block in (*at.markdown, *at.caption))


@pytest.fixture(scope="module")
def keys() -> tuple:
    return page().session_state["_answer_keys"][SLUG]


def test_keys_that_are_formulas(keys):
    assert math.exp(keys[0].answer.value) == pytest.approx(384)
    assert keys[0].answer.accepts("5.95")
    assert math.exp(keys[1].answer.value) == pytest.approx(20_000)
    assert keys[1].answer.accepts("9.90")
    assert keys[4].answer.accepts("-0.4")
    assert not keys[4].answer.accepts("0.4"), "the sign is the question"


def test_which_head_came_first_from_the_raw_log(keys):
    rows = json.loads((models.ASSETS / "checkpoints" / "two-layer" / "history.json").read_text())["metrics"]
    half = {}
    for name, layer in (("previous", 0), ("induction", 1)):
        last = rows[-1][name][layer]
        curve = [(row["step"], row[name][layer][last.index(max(last))]) for row in rows]
        goal = (curve[0][1] + max(score for _, score in curve)) / 2
        half[name] = next(step for step, score in curve if score >= goal)
    word = "previous" if half["previous"] < half["induction"] else "induction"
    assert word in keys[2].answer.correct or half["previous"] == half["induction"]


def test_every_shipped_moment_can_be_shown():
    for step in history.steps():
        assert shows(page(step=step), f"at step {step:,}, on 20 random tokens")


def test_an_unknown_moment_becomes_a_known_one():
    at = page(step=12345)
    assert at.session_state[f"{SLUG}.step"] in history.steps()


def test_playing_starts_over_from_the_last_moment_and_can_pause():
    steps = history.steps()
    at = page(step=steps[-1])
    press(at, "Play")
    assert at.session_state[f"{SLUG}.step"] == steps[0]
    assert any(button.label == "Pause" for button in at.button)
    press(at, "Pause")
    assert any(button.label == "Play" for button in at.button)
    assert at.session_state[f"{SLUG}.step"] == steps[0]


def test_a_readers_text_is_what_the_heads_look_at():
    assert shows(page(source="Your text"), "on your text")


def test_train_stop_and_go_on():
    at = page()
    press(at, "Train")
    bench = at.session_state[f"{SLUG}.bench"]
    reached = bench.run.step
    assert reached >= live.MEASURE_EVERY
    assert len(queue()) == 1
    press(at, "Stop")
    assert len(queue()) == 0
    stopped = bench.run.step
    at.run()
    assert bench.run.step == stopped, "nothing trains after Stop"
    press(at, f"Go on from step {stopped:,}")
    assert bench.run.step > stopped
    press(at, "Stop")


def test_a_second_reader_sees_a_place_and_gets_the_turn():
    turns = queue()
    others = [turns.join() for _ in range(turns.runners)]
    at = page()
    press(at, "Train")
    bench = at.session_state[f"{SLUG}.bench"]
    assert bench.run.step == 0
    assert bench.train() == 1, "one reader before this one"
    for ticket in others:
        turns.leave(ticket)
    at.run()
    assert bench.run.step > 0
    press(at, "Stop")


def test_a_run_that_ends_gives_its_place_back_and_stays_for_comparison(monkeypatch):
    monkeypatch.setattr(live, "STEPS", live.MEASURE_EVERY)
    at = page(layers="One")
    press(at, "Train")
    bench = at.session_state[f"{SLUG}.bench"]
    assert bench.run.done
    assert bench.ticket is None
    assert len(queue()) == 0
    assert shows(at, "not learnt in this run")
    at.session_state[f"{SLUG}.smeared"] = True
    at.run()
    press(at, "Train")
    assert [describe(setup) for setup in bench.earlier] == ["1 layer, seed 0"]
    assert shows(at, "own share")
    press(at, "Forget all")
    assert bench.run is None
    assert bench.earlier == {}
