"""What the worker's main process has received of ours and neither started nor acknowledged.

Celery keeps such requests in several places: a rate limit's bucket, a timer, its own table, a pool's queue. Promises
that each is found as long as Celery holds it, wherever that is, and that nothing is kept alive by being known here.
"""

from collections.abc import Iterable
from typing import Any
from weakref import WeakSet


class HeldRequests:
    """The requests of ours, from their arrival on. Celery's main thread adds, the heart's thread reads."""

    def __init__(self) -> None:
        self._requests: WeakSet[Any] = WeakSet()

    def add(self, request: Any) -> None:
        """This one was received."""
        self._requests.add(request)

    def unacknowledged(self) -> list[str]:
        """Task ids of what Celery has still to start, or to acknowledge; one may be there twice."""
        return [request.id for request in self._copied() if not request.acknowledged]

    def of(self, task_id: str) -> Any | None:
        """The request of this id that a process has begun, else any other of this id; None where Celery has none."""
        found = [request for request in self._copied() if request.id == task_id]
        return max(found, key=lambda request: request.time_start is not None, default=None)

    def _copied(self) -> Iterable[Any]:
        while True:
            try:
                return list(self._requests)
            except RuntimeError:
                continue  # changed while copied
