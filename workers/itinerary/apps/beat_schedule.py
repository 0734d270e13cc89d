"""An app's beat schedule as JSON: what `python -m itinerary export-beat` prints and `jobs import-beat` reads.

Promises: every entry that beat would send is there, as beat reads it or with the reason why it cannot be moved. A value
that JSON lacks is a text. Opens no connection, and holds no password.
"""

import json
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

import celery
from celery import Celery
from celery.backends.base import DisabledBackend
from celery.beat import BeatLazyFunc
from celery.schedules import crontab, maybe_schedule, schedule, solar
from kombu.utils.json import dumps as celerys_json

from itinerary.apps.beat_scheduler import scheduler_of
from itinerary.protocol.typed_values import from_python

FORMAT: Final = "itinerary.beat/1"
CRON_FIELDS: Final = ("minute", "hour", "day_of_month", "month_of_year", "day_of_week")
_CLEAN_UP: Final = "celery.backend_cleanup"
_KEYS: Final = ("task", "schedule", "args", "kwargs", "options", "relative")
_PRESENT_WITHIN: Final = timedelta(seconds=5)


class CannotMove(Exception):
    """This entry has no form outside its app; the text says why."""


def export_beat(app: Celery, place: str) -> dict[str, Any]:
    """The app's entries by name, and what else of the app decides what becomes of them."""
    zone: Any = app.timezone
    names = (getattr(zone, "key", None), getattr(zone, "zone", None), str(zone))
    return {
        "format": FORMAT,
        "app": place,
        "celery": celery.__version__,
        "timezone": next(name for name in names if isinstance(name, str)),
        "enable_utc": bool(app.conf.enable_utc),
        "transport": str(app.conf.broker_url or "").partition("://")[0],
        "scheduler": scheduler_of(app),
        "queue": str(app.conf.task_default_queue),
        "tasks": {name: queue_of(app, name, getattr(task, "queue", None)) for name, task in sorted(app.tasks.items())},
        "rate_limits": {
            name: rate for name, task in sorted(app.tasks.items()) if (rate := getattr(task, "rate_limit", None))
        },
        "entries": [_entry(app, name, entry) for name, entry in sorted(_entries(app).items())],
    }


def differing(first: Mapping[str, Any], second: Mapping[str, Any]) -> None:
    """Mark in `first` what the app says otherwise when it is loaded again, as the export `second`."""
    again = {entry["name"]: entry for entry in second["entries"]}
    for entry in first["entries"]:
        other = again.pop(entry["name"], None)
        entry["again"] = other and {key: other[key] for key in entry if key != "again" and other[key] != entry[key]}


def queue_of(app: Celery, task: str, own: Any, args: Any = (), kwargs: Any = None) -> str:
    """The queue to which Celery would route it: its own, by the app's routes, the app's default."""
    routed = app.amqp.router.route({"queue": own} if own else {}, task, args, kwargs or {})
    queue = routed.get("queue", app.conf.task_default_queue)
    return str(getattr(queue, "name", queue))


def stored_arguments(args: Iterable[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Both as a job holds them; CannotMove where JSON cannot."""
    args, kwargs = list(args), dict(kwargs)
    if any(isinstance(value, BeatLazyFunc) for value in [*args, *kwargs.values()]):
        raise CannotMove("an argument is a BeatLazyFunc, worked out at each sending: let the task work it out")
    try:
        stored: dict[str, Any] = json.loads(json.dumps(from_python({"args": args, "kwargs": kwargs}, _as_celery_sends)))
    except (TypeError, ValueError) as exc:
        raise CannotMove(f"its arguments are not JSON: {exc}") from exc
    return stored


def _as_celery_sends(value: Any) -> Any:
    return json.loads(celerys_json(value))


def _entries(app: Celery) -> dict[str, dict[str, Any]]:
    found = {str(name): dict(entry) for name, entry in (app.conf.beat_schedule or {}).items()}
    has_backend = not isinstance(app.backend, DisabledBackend)
    if _CLEAN_UP not in found and app.conf.result_expires and has_backend and not app.backend.supports_autoexpire:
        found[_CLEAN_UP] = {"task": _CLEAN_UP, "schedule": crontab("0", "4", "*"), "options": {"expires": 12 * 3600}}
    return found


def _entry(app: Celery, name: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    task, options = str(entry.get("task")), dict(entry.get("options") or {})
    args, kwargs = entry.get("args") or (), entry.get("kwargs") or {}
    own = options.pop("queue", None) or getattr(app.tasks.get(task), "queue", None)
    exported = {
        "name": name,
        "task": task,
        "schedule": None,
        "args": [],
        "kwargs": {},
        "options": {str(key): _plain(value) for key, value in options.items() if value is not None},
        "queue": queue_of(app, task, own, args, kwargs),
        "unknown": sorted(map(str, set(entry) - set(_KEYS))),
        "refused": None,
    }
    try:
        given: Any = maybe_schedule(entry.get("schedule"), entry.get("relative", False), app=app)  # type: ignore[arg-type]
        exported["schedule"] = _schedule(given, app)
        exported |= stored_arguments(args, kwargs)
    except CannotMove as exc:
        exported["refused"] = str(exc)
    return exported


def _schedule(given: Any, app: Celery) -> dict[str, Any]:
    kind = type(given)
    if isinstance(given, solar):
        where = {name: getattr(given, name, None) for name in ("lat", "lon")}
        return {"kind": "solar", "event": given.event, **where}
    if kind not in (crontab, schedule):
        raise CannotMove(
            f"{kind.__module__}.{kind.__qualname__} is a schedule of its own making: say it as a cron line"
        )
    own_clock = given.nowfun is not None
    if own_clock and not _shows_present(given, app):
        raise CannotMove("its nowfun tells another time than the present: no schedule here can do that")
    if kind is crontab:
        return {"kind": "crontab", **{name: _cron_field(given, name) for name in CRON_FIELDS}, "nowfun": own_clock}
    every = given.run_every // timedelta(microseconds=1)
    return {"kind": "interval", "microseconds": every, "relative": bool(given.relative), "nowfun": own_clock}


def _cron_field(given: Any, name: str) -> str | int | list[int]:
    """The field as it was written, or the values that Celery made of it."""
    written = getattr(given, f"_orig_{name}")
    return written if isinstance(written, str | int) else sorted(int(value) for value in getattr(given, name))


def _shows_present(given: Any, app: Celery) -> bool:
    """Whether the schedule's own clock (`nowfun`) tells the time that it is."""
    moment = given.nowfun()
    return isinstance(moment, datetime) and abs(given.maybe_make_aware(moment) - app.now()) < _PRESENT_WITHIN


def _plain(value: Any) -> Any:
    if isinstance(value, timedelta):
        return value.total_seconds()
    try:
        return json.loads(json.dumps(value))
    except (TypeError, ValueError):
        return str(value)
