"""Training on pages 11 and 12: runs are shared and take turns; the page is whole before, while and after."""

from collections import namedtuple

import pytest
from streamlit.testing.v1 import AppTest

from circuits.dictionary import search
from circuits.superposition import sweep
from circuits.training_queue import TrainingQueue
from pages.ui import live
from pages.ui.cached import queue
from pages.ui.registry import PAGES_FOLDER

Report = namedtuple("Report", "step steps")
SECONDS = 240


class Clock:
    """Seconds that pass only when a test says so."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def reports(steps: int, clock: Clock | None = None):
    """Yield a report a step; with a ``clock`` each takes longer than a slice."""
    for step in range(1, steps + 1):
        if clock:
            clock.now += 1.0
        yield Report(step, steps)


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_a_run_goes_on_where_it_was(clock):
    turns, run = TrainingQueue(clock=clock), live.Run(reports(3, clock))
    assert not run.finished
    for step in (1, 2, 3):
        assert run.advance(turns) == 0
        assert run.last.step == step
    assert run.finished
    assert len(turns) == 0
    assert run.advance(turns) == 0  # and asking again does nothing
    assert run.last.step == 3


def test_runs_take_turns_and_one_at_rest_keeps_nobody_waiting(clock):
    turns, first, second = TrainingQueue(clock=clock), live.Run(reports(9, clock)), live.Run(reports(9, clock))
    first.advance(turns)
    assert second.advance(turns) == 1
    assert second.last is None
    first.rest(turns)
    assert second.advance(turns) == 0
    assert second.last.step == 1
    assert first.advance(turns) == 1  # back at the end of the queue, with what it had
    assert first.last.step == 1


def test_a_run_whose_readers_left_loses_its_turn(clock):
    turns, left, other = TrainingQueue(clock=clock), live.Run(reports(9, clock)), live.Run(reports(9, clock))
    left.advance(turns)
    assert other.advance(turns) == 1
    for _ in range(3):
        clock.now += turns.patience / 2
        other.advance(turns)
    assert other.last is not None


def test_two_readers_of_one_run_do_not_train_it_twice(clock):
    turns, run = TrainingQueue(clock=clock), live.Run(reports(3, clock))
    with run.lock:  # the other one's slice
        assert run.advance(turns) == 0
    assert run.last is None


def test_the_server_forgets_the_run_looked_at_longest_ago(monkeypatch):
    monkeypatch.setattr(live, "KEPT", 2)

    def asked(key: str) -> live.Run:
        return live.run_of("a test", key, lambda: reports(1))

    first, second = asked("first"), asked("second")
    assert asked("first") is first
    asked("third")
    assert asked("first") is first
    assert asked("second") is not second


PLACES = {
    "11_superposition": ("superposition.sweep", sweep.DEFAULT, sweep.DEFAULT._replace(n_features=4, d_hidden=1)),
    "12_dictionary_learning": ("dictionary_learning.search", search.DEFAULT, search.Question("5 in 2", "half")),
}
CONTROLS = {
    "11_superposition": {"superposition.n": 4, "superposition.m": 1},
    "12_dictionary_learning": {"dictionary_learning.toy": "5 in 2", "dictionary_learning.rows": "half"},
}


def finish(name: str, key) -> None:
    """Train a run to its end, as the page's timer would."""
    run = live.run_of(name, key, lambda: iter(()))
    while not run.finished:
        run.advance(queue())


def open_page(file: str, **state) -> AppTest:
    at = AppTest.from_file(str(PAGES_FOLDER.parent / "app.py"), default_timeout=SECONDS)
    slug = file[3:]
    at.session_state["_predicted"] = {slug: "Skip"}
    for key, value in state.items():
        at.session_state[key] = value
    at.run()
    at.switch_page(f"pages/{file}.py").run()
    return at


def says(at: AppTest, words: str) -> bool:
    return any(words in block.value for block in (*at.markdown, *at.caption))


def assert_whole(at: AppTest) -> None:
    assert not at.exception, at.exception
    assert not at.error, [error.value for error in at.error]
    assert not says(at, ":red-badge[")
    assert says(at, "Key takeaways")
    assert len(at.get("vega_lite_chart")) >= 6


@pytest.fixture
def forgotten():
    """A server on which nothing was trained yet."""
    live._runs.clear()
    yield
    live._runs.clear()


@pytest.mark.parametrize("file", PLACES)
def test_the_first_visit_trains_nothing(file, forgotten):
    name, default, _ = PLACES[file]
    at = open_page(file)
    assert_whole(at)
    assert says(at, "Trained beforehand")
    assert live.run_of(name, default, lambda: iter(())).last is None


@pytest.mark.parametrize("file", PLACES)
def test_while_another_setting_trains_the_page_shows_what_it_had(file, forgotten):
    name, _, other = PLACES[file]
    at = open_page(file, **CONTROLS[file])
    assert_whole(at)
    assert says(at, "Still shown")
    at.button(key=f"{name}.stop").click().run()
    assert_whole(at)
    assert says(at, "Stopped before its first report")
    live.run_of(name, other, lambda: iter(())).advance(queue())
    at.run()
    assert_whole(at)
    assert says(at, "Stopped at step")
    assert not says(at, "Still shown")  # what is half trained is shown when the reader stops
    at.button(key=f"{name}.go").click().run()
    assert at.button(key=f"{name}.stop")
    finish(name, other)
    at.run()
    assert_whole(at)
    assert says(at, "Trained on this server")
    assert not says(at, "Still shown")


def test_trained_here_is_what_was_shipped(forgotten):
    name, default, _ = PLACES["11_superposition"]
    at = open_page("11_superposition")
    shares = [block.value for block in at.caption if "the shares sum to" in block.value]
    at.button(key=f"{name}.go").click().run()
    assert_whole(at)
    finish(name, default)
    at.run()
    assert says(at, "Trained on this server")
    assert [block.value for block in at.caption if "the shares sum to" in block.value] == shares
    next(button for button in at.button if button.label == "Reset this page").click().run()
    assert_whole(at)
