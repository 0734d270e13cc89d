"""Where every thread drops what the loop must hear. One reader, many writers, never full."""

import queue
import time

from itinerary.protocol.instants import SECOND, Duration
from scheduler_service.core.leader.results import Feedback


class Mailbox:
    """A queue of feedback; `None` only wakes the reader."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Feedback | None] = queue.SimpleQueue()

    def put(self, message: Feedback) -> None:
        """Leave a message; never blocks."""
        self._queue.put(message)

    def wake(self) -> None:
        """Let the reader look around without a message."""
        self._queue.put(None)

    def drain(self, wait: Duration) -> list[Feedback]:
        """All messages there are, after waiting up to `wait` for the first."""
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
