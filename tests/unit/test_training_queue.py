"""The queue: order, turns, signs of life, and many threads at once."""

import threading

import pytest

from circuits.training_queue import TrainingQueue


class Clock:
    """Seconds that pass only when told to."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return Clock()


def test_first_come_first_served(clock):
    queue = TrainingQueue(runners=1, clock=clock)
    first, second, third = (queue.join() for _ in range(3))
    assert [queue.place(ticket) for ticket in (third, first, second)] == [2, 0, 1]
    queue.leave(first)
    assert [queue.place(ticket) for ticket in (second, third)] == [0, 1]
    assert queue.place(queue.join()) == 2


def test_two_runners_have_their_turn_together(clock):
    queue = TrainingQueue(runners=2, clock=clock)
    tickets = [queue.join() for _ in range(4)]
    assert [queue.place(ticket) for ticket in tickets] == [0, 0, 1, 2]


def test_a_silent_reader_loses_the_turn(clock):
    queue = TrainingQueue(patience=10.0, clock=clock)
    gone, waiting = queue.join(), queue.join()
    clock.now = 8
    assert queue.place(waiting) == 1
    clock.now = 11
    assert queue.place(waiting) == 0
    assert queue.place(gone) is None
    assert len(queue) == 1


def test_asking_keeps_a_ticket_alive(clock):
    queue = TrainingQueue(patience=10.0, clock=clock)
    ticket = queue.join()
    for clock.now in range(0, 100, 9):
        assert queue.place(ticket) == 0


def test_a_ticket_given_up_is_gone_and_giving_up_twice_is_no_error(clock):
    queue = TrainingQueue(clock=clock)
    ticket = queue.join()
    queue.leave(ticket)
    queue.leave(ticket)
    assert queue.place(ticket) is None
    assert len(queue) == 0


def test_a_queue_without_runners_is_refused():
    with pytest.raises(ValueError, match="runners is 0"):
        TrainingQueue(runners=0)


def test_no_more_than_the_runners_ever_work_at_once():
    """Twenty threads that ask, work and leave: never more than two at work, and all of them get their turn."""
    queue, lock = TrainingQueue(runners=2, patience=60.0), threading.Lock()
    at_work, most, served = set(), 0, []

    def reader(name: int) -> None:
        nonlocal most
        ticket = queue.join()
        while queue.place(ticket) != 0:
            pass
        with lock:
            at_work.add(name)
            most = max(most, len(at_work))
        with lock:
            at_work.remove(name)
            served.append(name)
        queue.leave(ticket)

    threads = [threading.Thread(target=reader, args=(name,)) for name in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert sorted(served) == list(range(20))
    assert 1 <= most <= 2


def test_work_is_done_in_turn_for_a_while_and_no_longer_than_there_is_any():
    now = [0.0]
    queue, done = TrainingQueue(clock=lambda: now[0]), []

    def step() -> bool:
        done.append(now[0])
        now[0] += 1.0
        return len(done) < 5

    ticket, before = queue.work(None, step, seconds=2.5)
    assert (before, len(done)) == (0, 3)
    other, before = queue.work(None, step, seconds=2.5)
    assert (before, len(done)) == (1, 3)  # not its turn
    assert queue.work(ticket, step, seconds=99) == (ticket, 0)
    assert len(done) == 5  # the last step said that there is no more
    queue.leave(ticket)
    assert queue.work(other, lambda: False, seconds=1) == (other, 0)
