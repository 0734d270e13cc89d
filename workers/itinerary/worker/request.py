"""The request class of the worker's tasks: reports when a process is lost, hides secrets from Flower, names runs.

Celery's signals do not report a lost process if its message is put back (`acks_late` with `reject_on_worker_lost`) or a
retry is sent (`retry_on_worker_lost`). Without this the leader would have to wait until the attempt counts as lost.
"""

import logging
import os
import threading
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any, Final

from celery.exceptions import InvalidTaskError, WorkerLostError
from celery.worker.request import Request
from kombu.asynchronous import get_event_loop

from itinerary.protocol.instants import SECOND
from itinerary.protocol.message_headers import SHADOW
from itinerary.protocol.wire import HEADER_QUEUE
from itinerary.worker import reporting
from itinerary.worker.asked_retry import AskedRetry
from itinerary.worker.claimable import Unattached
from itinerary.worker.delivery import is_ours
from itinerary.worker.hiding import AS_IT_IS, Hide
from itinerary.worker.releases import number_of
from itinerary.worker.secret_arguments import hiding_of

_OUTCOMES: Final = frozenset({"task-succeeded", "task-failed", "task-retried"})

# From this release of kombu on, another thread can wake the event loop.
_WAKES: Final = number_of(version("kombu")) >= (5, 7)

log = logging.getLogger("itinerary.worker")


class TellingRequest(Request):
    """The mixin before the task's own Request class."""

    _hide: Hide | None = None

    def __init__(self, message: Any, **options: Any) -> None:
        """Celery's own; InvalidTaskError for a message that Celery could neither run nor fail in a pool's process."""
        super().__init__(message, **options)
        celerys: Any = self
        embedded = celerys._payload[2]
        if embedded and not (isinstance(embedded, Mapping) and all(isinstance(name, str) for name in embedded)):
            raise InvalidTaskError(f"the third part of the body must be an object: {embedded!r:.100}")
        if is_ours(self.request_dict) and not self.request_dict.get(SHADOW):
            self._take_shadow()

    def _take_shadow(self) -> None:
        """Name the run as the task's own `shadow_name` says, which Celery asks where a message is sent."""
        celerys: Any = self
        given, task = celerys.request_dict, celerys.task
        try:
            shadow = task.shadow_name(self.args, self.kwargs, {"queue": given.get(HEADER_QUEUE)})
        except Exception as exc:  # noqa: BLE001 - the user's code; the run keeps its task's name
            log.warning("shadow_name() of task %s failed, and its run %s has no shadow: %r", self.name, self.id, exc)
            return
        if isinstance(shadow, str) and shadow:
            celerys.name = given[SHADOW] = shadow

    def acknowledge(self) -> None:
        """Celery's own, for which kombu asks the broker; it keeps nothing of a queue that is consumed without."""
        celerys: Any = self
        if not celerys.acknowledged and self._is_kept_nowhere():
            celerys.acknowledged = True
        super().acknowledge()

    def _is_kept_nowhere(self) -> bool:
        celerys: Any = self
        consumed = celerys.app.amqp.queues.consume_from.get(celerys.delivery_info.get("routing_key"))
        return consumed is not None and bool(consumed.no_ack)

    def on_failure(self, exc_info: Any, send_failed_event: bool = True, return_ok: bool = False) -> Any:
        """Celery's own, after reporting a process that is lost or cannot claim: Celery may then talk to a broker."""
        exc = getattr(exc_info.exception, "exc", exc_info.exception)  # billiard wraps it, to keep its traceback
        if isinstance(exc, WorkerLostError | Unattached) and is_ours(self.request_dict):
            task: Any = self.task
            task.itinerary_lost(self.id, exc, self._wanted_retry())
        return super().on_failure(exc_info, send_failed_event, return_ok)

    def send_event(self, type: str, **fields: Any) -> None:
        """Celery's own, without the values of secrets in the outcome."""
        if type in _OUTCOMES:
            if self._hide is None:
                ours = is_ours(self.request_dict)
                self._hide = hiding_of(self.args, self.kwargs, os.environ) if ours else AS_IT_IS
            hide = self._hide
            fields = {name: hide(value) if isinstance(value, str) else value for name, value in fields.items()}
        super().send_event(type, **fields)
        if type in _OUTCOMES:
            _wake_consumer()

    def info(self, safe: bool = False) -> Any:
        """Celery's information about the request; for our messages with the texts of the arguments in their place."""
        return super().info(safe=safe or is_ours(self.request_dict))

    def _wanted_retry(self) -> AskedRetry | None:
        task, retries = self.task, int(self.request_dict.get("retries") or 0)
        if not getattr(task, "retry_on_worker_lost", False):
            return None
        if task.max_retries is not None and retries >= task.max_retries:
            return None
        return AskedRetry(reporting.clock() + int(task.default_retry_delay * SECOND), None, None, retries + 1)

    def _retry_worker_lost(self, exc: Any, exc_info: Any) -> Any:
        """Ask the leader to retry: Celery would send a message of the same id, which could never be claimed."""
        if not is_ours(self.request_dict):
            celerys: Any = super()
            return celerys._retry_worker_lost(exc, exc_info)
        if self.task.acks_late:
            self.acknowledge()
        return True


def _wake_consumer() -> None:
    """Wake the consumer from a thread of the pool: its poll may have begun when no place was free."""
    hub: Any = get_event_loop()
    if hub is not None and _WAKES and threading.current_thread() is not threading.main_thread():
        hub.call_soon(_nothing)


def _nothing() -> None:
    """Let the hub begin a new poll."""


def telling(kind: type[Request]) -> type[Request]:
    """The same class of requests with the mixin."""
    if issubclass(kind, TellingRequest):
        return kind
    return type(kind.__name__, (TellingRequest, kind), {"__module__": kind.__module__, "__doc__": kind.__doc__})
