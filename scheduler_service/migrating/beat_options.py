"""An entry's options and arguments as fields of a job, with each difference of meaning as a sentence."""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any, Final

from celery import Celery

from itinerary.apps.beat_schedule import CannotMove, stored_arguments
from itinerary.apps.beat_schedule import queue_of as route
from itinerary.protocol.errors import BadValue
from itinerary.protocol.instants import MICROSECOND, SECOND, format_duration
from itinerary.protocol.message_headers import SHADOW
from itinerary.protocol.run_fields import HEADERS
from scheduler_service.migrating.beat_entry import BeatEntry
from scheduler_service.migrating.converted import CannotConvert
from scheduler_service.migrating.rate_limits import rate_limit_difference

_HARMLESS: Final = frozenset({"queue", "priority", "expires", "time_limit", "soft_time_limit", "headers", SHADOW})
_DROPPED: Final = {
    "countdown": "runs start at the time itself, not {value} s later",
    "link": "what was linked is not sent; let the task send it",
    "link_error": "what was linked is not sent; let the task send it",
    "chain": "what was chained is not sent; let the task send it",
    "retry": "publishing is tried again until it is known to have worked",
    "retry_policy": "publishing is tried again until it is known to have worked",
    "routing_key": "the run goes to the queue {queue}",
    "exchange": "the run goes to the queue {queue}",
    "serializer": "messages are JSON",
    "ignore_result": "the result is kept with the run",
}


def arguments_of(entry: BeatEntry) -> dict[str, Any]:
    """`args` and `kwargs` as a job holds them; CannotConvert where JSON cannot."""
    if entry.stored:
        return {"args": entry.args, "kwargs": entry.kwargs}
    try:
        return stored_arguments(entry.args, entry.kwargs)
    except CannotMove as exc:
        raise CannotConvert(str(exc)) from exc


def queue_of(app: Celery, entry: BeatEntry) -> str:
    """The queue to which Celery would route it: the entry's own, the task's, the app's routes, the app's default."""
    own = entry.options.get("queue") or getattr(app.tasks.get(entry.task), "queue", None)
    return route(app, entry.task, own, entry.args, entry.kwargs)


def options_of(app: Celery, entry: BeatEntry, body: dict[str, Any], app_known: bool = True) -> list[str]:
    """Put what the options mean into the body; return the differences as sentences."""
    options = entry.options
    differences = [f"the entry's {name} is not known to us and left out" for name in entry.unknown]
    if options.get("eta") is not None or options.get("task_id") is not None:
        raise CannotConvert("an entry with an eta or a task_id of its own would run once, whatever its schedule says")
    if app_known and entry.task not in app.tasks:
        differences.append(
            f"the app has no task {entry.task}, neither for beat nor for us: its runs will fail as unknown"
        )
    differences += _priority(app, options.get("priority"), body)
    differences += _expires(options.get("expires"), body)
    differences += _limits(options, body)
    differences += _headers(options, body)
    differences += rate_limit_difference(entry.task, getattr(app.tasks.get(entry.task), "rate_limit", None))
    for name, value in options.items():
        if name not in _HARMLESS and value is not None:
            message = _DROPPED.get(name, "Itinerary has no equal").format(value=value, queue=body["queue"])
            differences.append(f"the option {name} is not carried over: {message}")
    return differences


def _priority(app: Celery, priority: Any, body: dict[str, Any]) -> Iterator[str]:
    if not isinstance(priority, int):
        return
    # Redis takes 0 first, as we do; on AMQP the greatest number goes first.
    first_is_zero = not str(app.conf.broker_url or "").startswith(("amqp", "pyamqp"))
    body["priority"] = min(9, max(0, priority if first_is_zero else 9 - priority))
    if body["priority"] != priority:
        yield f"priority {priority} of the broker is {body['priority']} here, where 0 is first and 9 last"


def _expires(expires: Any, body: dict[str, Any]) -> Iterator[str]:
    seconds = expires.total_seconds() if isinstance(expires, timedelta) else expires
    if seconds is None:
        return
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or seconds <= 0:
        raise CannotConvert(f"expires is {expires!r}: give a number of seconds")
    span = format_duration(round(seconds * SECOND) * MICROSECOND)
    body["start_within"] = span
    yield (
        f"beat's message is dropped by a worker that gets to it later than {span}; here the leader withdraws it then, "
        "and the run is recorded as missed"
    )


def _headers(options: Mapping[str, Any], body: dict[str, Any]) -> Iterator[str]:
    headers = options.get("headers") or {}
    if options.get(SHADOW) and isinstance(headers, Mapping):
        headers = {**headers, SHADOW: options[SHADOW]}
    if not headers:
        return
    try:
        body["headers"] = HEADERS.read(headers, "headers")
    except BadValue as exc:
        yield f"its headers are not carried over: {exc}"


def _limits(options: Mapping[str, Any], body: dict[str, Any]) -> Iterator[str]:
    soft, hard = options.get("soft_time_limit"), options.get("time_limit")
    limit = soft or hard
    if limit:
        body["timeout"] = format_duration(round(float(limit) * SECOND))
        yield f"the time limit is the job's timeout {body['timeout']}: SoftTimeLimitExceeded, ten seconds later a kill"
