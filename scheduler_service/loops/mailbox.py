"""The mailbox through which all threads report to the loop. One reader, many writers, unbounded.

Also has the process's steady clock, `monotonic`.
"""

import queue
import threading
import time
from collections.abc import Callable
from typing import Final

from itinerary.protocol.instants import MILLISECOND, SECOND, Duration, Instant
from scheduler_service.core.leader.results import Feedback, RunsDispatched

# A clock that is slowed loses less in the second for which the loop sleeps at most.
_BEHIND: Final = 20 * MILLISECOND


class Mailbox:
    """A queue of feedback; `None` only wakes the reader."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Feedback | None] = queue.SimpleQueue()
        self._hurries = threading.Event()

    def put(self, message: Feedback) -> None:
        """Add a message; never blocks."""
        self._queue.put(message)
        if isinstance(message, RunsDispatched):
            self._hurries.set()

    def wake(self) -> None:
        """Wake the reader without a message."""
        self._queue.put(None)
        self._hurries.set()

    def rest(self, seconds: float) -> bool:
        """Leave all messages for some seconds, unless one comes that runs wait for; return whether one did."""
        return self._hurries.wait(max(0.0, seconds))

    def drain(self, wait: Duration) -> list[Feedback]:
        """Take all messages, waiting up to `wait` for the first."""
        found: list[Feedback] = []
        try:
            first = self._queue.get(timeout=max(0, wait) / SECOND) if wait > 0 else self._queue.get_nowait()
            while True:
                if first is not None:
                    found.append(first)
                first = self._queue.get_nowait()
        except queue.Empty:
            self._hurries.clear()  # one that was put since is taken after a whole rest, which does no harm
            return found

    def drain_until(self, wake_at: Instant, clock: Callable[[], Instant]) -> list[Feedback]:
        """Take all messages, waiting for the first until `clock`, which may run slower than ours, shows `wake_at`."""
        found = self.drain(wake_at - clock())
        while not found and 0 < (left := wake_at - clock()) < _BEHIND:
            found = self.drain(left)
        return found


def monotonic() -> Duration:
    """This process's monotonic clock, in microseconds."""
    return time.monotonic_ns() // 1000
