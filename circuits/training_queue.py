"""A queue for work that needs a core for some seconds: first come, first served, and nobody holds a place he left.

A reader holds a numbered ticket.  Asking for its place is also the sign of life: a ticket whose reader has
not asked for ``patience`` seconds is dropped, and its turn goes to the next.  The work itself is done by
the reader's own thread in short slices between two questions, so nothing runs for a reader who is gone,
and nothing has to be killed.
"""

import itertools
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass
class TrainingQueue:
    """Up to ``runners`` tickets have their turn at a time; the others wait in the order in which they came.

    ``patience`` must be longer than the longest slice of work on a busy machine.  ``clock`` returns seconds.
    """

    runners: int = 1
    patience: float = 20.0
    clock: Callable[[], float] = time.monotonic
    _seen: dict[int, float] = field(default_factory=dict, repr=False)  # ticket → last sign of life, oldest ticket first
    _numbers: itertools.count = field(default_factory=itertools.count, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def __post_init__(self):
        if self.runners < 1:
            raise ValueError(f"runners is {self.runners}: nobody would ever have a turn")

    def join(self) -> int:
        """Take a ticket at the end of the queue."""
        with self._lock:
            ticket = next(self._numbers)
            self._seen[ticket] = self.clock()
            return ticket

    def place(self, ticket: int) -> int | None:
        """Return how many are before ``ticket``: 0 means go on now; None means the ticket has expired or was given up.

        Asking keeps the ticket alive.
        """
        with self._lock:
            self._drop_silent()
            if ticket not in self._seen:
                return None
            self._seen[ticket] = self.clock()
            return max(0, list(self._seen).index(ticket) - self.runners + 1)

    def work(self, ticket: int | None, step: Callable[[], bool], seconds: float) -> tuple[int, int]:
        """Call ``step`` for ``seconds``, or until it returns False, if it is the ticket's turn.

        Returns the ticket and how many are before it.  Without a ticket, or with one that has expired (nobody
        looked), a new one is taken at the end of the queue.
        """
        before = None if ticket is None else self.place(ticket)
        if before is None:
            ticket = self.join()
            before = self.place(ticket)
        end, more = self.clock() + seconds, True
        while not before and more and self.clock() < end:
            more = step()
            self.place(ticket)
        return ticket, before

    def leave(self, ticket: int) -> None:
        """Give a ticket up: the work is done, or the reader has stopped it.  Giving up twice is no error."""
        with self._lock:
            self._seen.pop(ticket, None)

    def __len__(self) -> int:
        """Return how many tickets are alive, those whose turn it is included."""
        with self._lock:
            self._drop_silent()
            return len(self._seen)

    def _drop_silent(self) -> None:
        oldest = self.clock() - self.patience
        for ticket in [ticket for ticket, seen in self._seen.items() if seen < oldest]:
            del self._seen[ticket]
