"""The mailbox through which all threads report to the loop. One reader, many writers, unbounded.

Also has the process's steady clock, `monotonic`.
"""

import queue
import time

from itinerary.protocol.instants import SECOND, Duration
from scheduler_service.core.leader.results import Feedback


class Mailbox:
    """A queue of feedback; `None` only wakes the reader."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Feedback | None] = queue.SimpleQueue()

    def put(self, message: Feedback) -> None:
        """Add a message; never blocks."""
        self._queue.put(message)

    def wake(self) -> None:
        """Wake the reader without a message."""
        self._queue.put(None)

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
            return found


def monotonic() -> Duration:
    """This process's monotonic clock, in microseconds."""
    return time.monotonic_ns() // 1000
