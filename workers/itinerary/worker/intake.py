"""The main process's intake: drops and logs messages that cannot be taken, and reports the runs of ours.

Owns one bootstep of Celery's consumer. Promises that no message, however malformed, ends the worker or returns to it
again and again. A task that cannot be claimed never gets a message of ours. A run whose message is refused here ends at
once with its reason. Of others' messages it reads only the headers that Celery itself reads.
"""

import logging
import math
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final, Protocol

from celery import bootsteps
from celery.exceptions import NotRegistered
from kombu.exceptions import ContentDisallowed, DecodeError
from redis.exceptions import DataError

from itinerary.worker.claimable import UNCLAIMABLE
from itinerary.worker.delivery import is_ours
from itinerary.worker.unattached import guard

UNKNOWN_TASK: Final = "unknown_task"
UNDECODABLE: Final = "undecodable"
MALFORMED: Final = "malformed"
_SHOWN: Final = 300
_EVENTS_WITHIN: Final = 0.1
_OF_A_MESSAGE: Final = (ValueError, TypeError, LookupError, AttributeError, RecursionError, DataError)
"""What a malformed message raises where it is read, although kombu counts DataError and KeyError as a lost broker."""

log = logging.getLogger("itinerary.worker")


class Desk(Protocol):
    """The attached app, as the intake needs it."""

    def before_strategies(self) -> None:
        """Prepare for Celery's reading of the registered tasks."""

    def unclaimable(self, task: str) -> str | None:
        """Why messages of ours cannot be claimed for this task."""

    def refuse(self, headers: Any, exc: Exception, reason: str) -> None:
        """End the run of this message with this error."""


class Intake(bootsteps.StartStopStep):
    """A bootstep created with the consumer, before it takes messages; `start` runs for each of its connections."""

    requires = ("celery.worker.consumer.tasks:Tasks",)
    desk: Desk

    def __init__(self, consumer: Any, **options: Any) -> None:
        super().__init__(consumer, **options)
        errors = (*consumer.connection_errors, *consumer.channel_errors)
        self._away = tuple(kind for kind in errors if not issubclass(kind, _OF_A_MESSAGE))
        self._flush_at = float("-inf")
        self._guard_pool: Callable[[], None] | None = partial(guard, consumer.pool)
        self._create_handler = consumer.create_task_handler
        self._update_strategies = consumer.update_strategies
        consumer.create_task_handler = self._handler
        consumer.update_strategies = self._strategies
        consumer.on_send_event_buffered = partial(self._flush_events_later, consumer)
        consumer.on_unknown_task = self._telling(consumer.on_unknown_task, _unknown)
        consumer.on_decode_error = self._telling(consumer.on_decode_error, _undecodable)
        consumer.on_invalid_task = self._telling(consumer.on_invalid_task, _invalid)

    def _flush_events_later(self, consumer: Any) -> None:
        """Send the buffered events of many tasks together: no message waits meanwhile, as for a flush a task."""
        # A time, not a mark: a lost connection clears the timer, and no flush may be waited for that never comes.
        if consumer.hub is not None and (now := time.monotonic()) >= self._flush_at:
            self._flush_at = now + _EVENTS_WITHIN
            consumer.hub.call_later(_EVENTS_WITHIN, consumer._flush_events)

    def start(self, consumer: Any) -> None:
        """Guard each channel that takes messages from Redis: remote control's come later, and again after an error."""
        transport = consumer.connection.transport
        if not hasattr(consumer.task_consumer.channel, "handlers"):
            return
        create = transport.create_channel
        for channel in transport.channels:
            self._guard(channel)
        transport.create_channel = lambda connection: self._guard(create(connection))

    def _guard(self, channel: Any) -> Any:
        channel.handlers |= {name: self._guarded(read) for name, read in channel.handlers.items()}
        channel.qos.restore_unacked = partial(_put_back, channel, channel.qos.restore_unacked)
        return channel

    def stop(self, consumer: Any) -> None:
        """Drop the guard together with the connection."""

    def _guarded(self, read: Callable[..., Any]) -> Callable[..., Any]:
        """Drop items that are not messages: they are gone from their list already, and would end the worker."""

        def guarded(**options: Any) -> Any:
            try:
                return read(**options)
            except self._away:
                raise
            except _OF_A_MESSAGE as exc:
                what = getattr(exc, "doc", None) or getattr(exc, "object", None) or ""
                log.error("an item of a queue is no message and is dropped: %r: %.300r", exc, what[:_SHOWN])
                return True

        return guarded

    def _handler(self, **options: Any) -> Callable[[Any], Any]:
        take = self._create_handler(**options)

        def on_message(message: Any) -> None:
            try:
                flaw = _flaw(message.headers) or self._hindrance(message.headers)
                if flaw is None:
                    take(message)
                    return
            except self._away:
                raise
            except Exception as exc:  # noqa: BLE001 - whatever the message makes Celery raise would end the worker
                flaw = (exc, MALFORMED)
            self._drop(message, *flaw)

        return on_message

    def _hindrance(self, headers: Any) -> tuple[Exception, str] | None:
        if not is_ours(headers):
            return None
        name = headers.get("task")
        if not isinstance(name, str):
            return TypeError(f"the task must be a name: {name!r:.100}"), MALFORMED
        why = self.desk.unclaimable(name)
        return None if why is None else (TypeError(f"task {name} {why}: its runs cannot be claimed"), UNCLAIMABLE)

    def _drop(self, message: Any, exc: Exception, reason: str) -> None:
        log.error("a message is dropped: %r reason=%s headers=%.300r", exc, reason, message.headers)
        self._report(message, exc, reason)
        if not message.acknowledged:
            message.reject_log_error(log, self._away)

    def _report(self, message: Any, exc: Exception, reason: str) -> None:
        if isinstance(message.headers, dict) and is_ours(message.headers):
            self.desk.refuse(message.headers, exc, reason)

    def _telling(self, celerys: Callable[..., Any], cause: "_Cause") -> Callable[..., Any]:
        """Answer for messages that Celery cannot take: Celery's own, or for ours the log line and the report."""

        def answer(*args: Any) -> None:
            message, exc, reason = cause(*args)
            if isinstance(message.headers, dict) and is_ours(message.headers):
                self._drop(message, exc, reason)  # Celery would touch a result backend, which may be away
            else:
                celerys(*args)

        return answer

    def _strategies(self) -> None:
        guard_pool, self._guard_pool = self._guard_pool, None
        if guard_pool is not None:  # by now the pool has started, and Celery takes its methods for the first time
            guard_pool()
        self.desk.before_strategies()
        self._update_strategies()


_Cause = Callable[..., tuple[Any, Exception, str]]


def _unknown(body: Any, message: Any, exc: Exception) -> tuple[Any, Exception, str]:
    return message, NotRegistered(message.headers["task"]), UNKNOWN_TASK


def _undecodable(message: Any, exc: Exception) -> tuple[Any, Exception, str]:
    return message, exc, UNDECODABLE


def _invalid(body: Any, message: Any, exc: Exception) -> tuple[Any, Exception, str]:
    return message, exc, UNDECODABLE if isinstance(exc, ContentDisallowed | DecodeError) else MALFORMED


def _put_back(channel: Any, restore: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Put back what is not acknowledged; nothing once the channel has lost its connection.

    Celery 5.7 closes a broken connection twice: the second time kombu's error would end the worker.
    """
    return None if channel.connection.client is None else restore(*args, **kwargs)


def _flaw(headers: Any) -> tuple[Exception, str] | None:
    """The error that Celery would find only on the way to a process, and that would end it."""
    if not isinstance(headers, dict):
        return TypeError("headers must be an object"), MALFORMED
    for name, fits in _READ_BY_CELERY.items():
        value = headers.get(name)
        if value is not None and not fits(value):
            return TypeError(f"the header {name} cannot be {value!r:.100}"), MALFORMED
    if isinstance(headers.get("task"), str) and not headers.get("id"):
        return TypeError("the header id is missing"), MALFORMED
    return None


def _is_limit(value: Any) -> bool:
    if value is None:
        return True
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value >= 0


def _are_limits(value: Any) -> bool:
    return isinstance(value, list | tuple) and len(value) in (0, 2) and all(map(_is_limit, value))


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


# The main process uses no other header after Celery itself has checked the message.
_READ_BY_CELERY: Final[dict[str, Callable[[Any], bool]]] = {
    "id": _is_text,
    "shadow": _is_text,
    "timelimit": _are_limits,
    "stamps": lambda value: isinstance(value, dict),
    "stamped_headers": lambda value: isinstance(value, list | tuple) and all(map(_is_text, value)),
}
