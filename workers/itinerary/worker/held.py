"""Our messages that this worker's main process has received and not yet acknowledged.

Celery keeps such requests in several places: a rate limit's bucket, a timer, its own table, a pool's queue. Promises
that each is found as long as Celery holds it, wherever that is, and keeps none alive by itself.
"""

from collections.abc import Iterable
from typing import Any
from weakref import WeakSet

from itinerary.protocol.instants import SECOND, Instant


class HeldRequests:
    """Our requests since their arrival. Celery's main thread adds, the heartbeat thread reads."""

    def __init__(self) -> None:
        self._requests: WeakSet[Any] = WeakSet()

    def add(self, request: Any) -> None:
        """Note a received request."""
        self._requests.add(request)

    def unacknowledged(self) -> list[str]:
        """Task ids of requests that Celery has yet to start or acknowledge; one may appear twice."""
        return [request.id for request in self._copied() if not request.acknowledged]

    def of(self, task_id: str) -> Any | None:
        """The request of this id that a process has begun, else any other of this id; None if Celery has none."""
        found = [request for request in self._copied() if request.id == task_id]
        return max(found, key=lambda request: request.time_start is not None, default=None)

    def _copied(self) -> Iterable[Any]:
        while True:
            try:
                return list(self._requests)
            except RuntimeError:
                continue  # changed while copied


def started_at(request: Any) -> Instant | None:
    """The time at which the worker's pool began this request."""
    return None if request.time_start is None else int(request.time_start * SECOND)
