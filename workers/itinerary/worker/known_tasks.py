"""The tasks that this worker knows, for the service to suggest them: at its start, soon again, then once a minute.

Owns the choice of names: not Celery's own, and none that the service cannot run here. A leader that has just taken over
knows them within that minute; one that starts beside the worker, and may miss the first, within seconds.
"""

import time
from collections.abc import Collection, Mapping
from typing import Any, Final

from celery import Celery

from itinerary.protocol.task_names import TASKS_FIELD, bounded
from itinerary.protocol.wire import entry
from itinerary.worker.reporting import clock

_AGAIN_AFTER: Final = 4.0
_SENT_EVERY: Final = 60.0
_CELERYS_OWN: Final = "celery."


class KnownTasks:
    """The names of one app, but for those that are `left_out`."""

    def __init__(self, app: Celery, left_out: Collection[str]) -> None:
        self._app = app
        self._left_out = left_out
        self._next = float("-inf")
        self._pause = _AGAIN_AFTER

    def part(self, body: Mapping[str, Any], number: int) -> list[dict[str, str]]:
        """The part of a heartbeat that has them, behind those that list attempts; none if it is not time yet."""
        now = time.monotonic()
        if now < self._next:
            return []
        self._next = now + self._pause
        self._pause = min(2 * self._pause, _SENT_EVERY)
        names = bounded(n for n in list(self._app.tasks) if not n.startswith(_CELERYS_OWN) and n not in self._left_out)
        lists = {"running": [], "received": [], "part": number, TASKS_FIELD: list(names)}
        return [entry("heartbeat", clock(), {**body, **lists})]
