"""An app's beat schedule as jobs: `beat_schedule`, what `add_periodic_task` added, and beat's own clean-up.

Promises: every entry is moved with its differences told, or refused by name; the app is read as beat would read it,
and no connection is opened.
"""

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from celery import Celery
from celery.app.utils import find_app
from celery.backends.base import DisabledBackend
from celery.beat import BeatLazyFunc
from celery.schedules import crontab, maybe_schedule
from kombu.utils.json import dumps as celerys_json

from itinerary.protocol.errors import BadValue, ItineraryError
from itinerary.protocol.instants import MICROSECOND, SECOND, Instant, format_duration
from itinerary.protocol.typed_values import from_python
from scheduler_service.core.model import Job
from scheduler_service.migrating.beat_schedules import spec_of
from scheduler_service.migrating.comparing import clock_differences
from scheduler_service.migrating.converted import CannotMove, Moved, checked, job_id_of

NOTES: Final = (
    "beat sends whether or not an entry's last run is over, so overlap is `allow`; `skip` may be what you want",
    "after an outage beat sends each entry once; so does misfire `fire_once`, for what is later than its grace of 30s",
)
_CLEAN_UP: Final = "celery.backend_cleanup"
_GAP_RULES: Final[tuple[dict[str, str], ...]] = ({}, {"dst_gap": "shift"}, {"dst_gap": "skip"})
_KEYS: Final = ("task", "schedule", "args", "kwargs", "options", "relative")
_HARMLESS: Final = frozenset({"queue", "priority", "expires", "time_limit", "soft_time_limit"})
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


@dataclass(frozen=True, slots=True)
class BeatEntry:
    """One entry as beat has it; `schedule` is a Celery schedule object."""

    name: str
    task: str
    schedule: Any
    args: Any
    kwargs: Any
    options: Mapping[str, Any]
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MovedEntry:
    """An entry, what it became, and the job where it could be moved."""

    entry: BeatEntry
    moved: Moved
    job: Job | None


def load_app(place: str) -> Celery:
    """The Celery app at `module:app`, ready as beat needs it; ItineraryError where it cannot be had."""
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        app: Celery = find_app(place)
        app.loader.import_default_modules()
        app.finalize()
    except (Exception, SystemExit) as exc:
        said = " ".join(str(exc).split())
        raise ItineraryError(f"cannot load the app {place}: {type(exc).__name__}: {said}") from exc
    if not isinstance(app, Celery):
        raise BadValue("MODULE:APP", place, "it must name a Celery app")
    return app


def entries_of(app: Celery) -> list[BeatEntry]:
    """Every entry that beat would send, by name."""
    found = {str(name): dict(entry) for name, entry in (app.conf.beat_schedule or {}).items()}
    has_backend = not isinstance(app.backend, DisabledBackend)
    if _CLEAN_UP not in found and app.conf.result_expires and has_backend and not app.backend.supports_autoexpire:
        found[_CLEAN_UP] = {"task": _CLEAN_UP, "schedule": crontab("0", "4", "*"), "options": {"expires": 12 * 3600}}
    return [_entry(app, name, entry) for name, entry in sorted(found.items())]


def _entry(app: Celery, name: str, entry: Mapping[str, Any]) -> BeatEntry:
    given: Any = entry.get("schedule")
    schedule = maybe_schedule(given, entry.get("relative", False), app=app)
    return BeatEntry(
        name,
        str(entry.get("task")),
        schedule,
        entry.get("args") or (),
        entry.get("kwargs") or {},
        entry.get("options") or {},
        tuple(sorted(set(entry) - set(_KEYS))),
    )


def move_beat(
    app: Celery,
    now: Instant,
    each: Callable[[list[BeatEntry]], Iterable[BeatEntry]] = lambda entries: entries,
    *,
    clocks: bool = True,
) -> list[MovedEntry]:
    """Every entry, moved or refused; `each` may show how far it has come.

    With `clocks` the coming changes of the clocks are looked at, which takes a while for busy entries.
    """
    taken: set[str] = set()
    found = []
    for entry in each(entries_of(app)):
        job_id = job_id_of(entry.name, taken, "entry")
        taken.add(job_id)
        found.append(_moved(app, entry, job_id, now, clocks))
    return found


def _moved(app: Celery, entry: BeatEntry, job_id: str, now: Instant, clocks: bool) -> MovedEntry:
    try:
        spec, differences = spec_of(entry.schedule, app)
        body = {
            "job_id": job_id,
            **({"title": entry.name} if entry.name != job_id else {}),
            "task": entry.task,
            **_arguments(entry),
            "schedule": spec,
            "overlap": "allow",
        }
        queue = _queue(app, entry)
        body |= {"queue": queue}
        differences += _options(app, entry, body)
    except CannotMove as exc:
        return MovedEntry(entry, Moved(entry.name, refused=str(exc)), None)
    moved, job = checked(entry.name, body, tuple(differences), now)
    if clocks and job is not None and spec["kind"] != "interval":
        return _with_clocks(app, entry, body, differences, now)
    return MovedEntry(entry, moved, job)


def _with_clocks(
    app: Celery, entry: BeatEntry, body: dict[str, Any], differences: Sequence[str], now: Instant
) -> MovedEntry:
    """The entry under the rule for skipped times that comes closest to Celery's, and what differs even so."""
    best: tuple[list[str], MovedEntry] | None = None
    for rule in _GAP_RULES if _is_fixed(body["schedule"]) else _GAP_RULES[:1]:
        ruled = {**body, "schedule": {**body["schedule"], **rule}}
        moved, job = checked(entry.name, ruled, (), now)
        if job is not None:
            told = clock_differences(entry.schedule, app, job.schedule, now)
            if best is None or len(told) < len(best[0]):
                best = told, MovedEntry(entry, Moved(moved.name, moved.body, (*differences, *told)), job)
            if not told:
                break
    assert best is not None  # the first rule is the default, with which the job was accepted
    return best[1]


def _is_fixed(spec: Mapping[str, Any]) -> bool:
    """Whether the rules for skipped times mean anything to the schedule; those that follow elapsed time heed none."""
    return spec["kind"] == "cron" and not any(part.startswith("*") for part in spec["expr"].split()[:2])


def _arguments(entry: BeatEntry) -> dict[str, Any]:
    values = [*entry.args, *entry.kwargs.values()]
    if any(isinstance(value, BeatLazyFunc) for value in values):
        raise CannotMove("an argument is a BeatLazyFunc, worked out at each sending: let the task work it out")
    try:
        stored = from_python({"args": list(entry.args), "kwargs": dict(entry.kwargs)}, _as_celery_sends_it)
        given: dict[str, Any] = json.loads(json.dumps(stored))
    except (TypeError, ValueError) as exc:
        raise CannotMove(f"its arguments are not JSON: {exc}") from exc
    return given


def _as_celery_sends_it(value: Any) -> Any:
    return json.loads(celerys_json(value))


def _queue(app: Celery, entry: BeatEntry) -> str:
    """Where Celery would route it: the entry's own queue, the task's, the app's routes, the app's default."""
    own = entry.options.get("queue") or getattr(app.tasks.get(entry.task), "queue", None)
    wanted = {"queue": own} if own else {}
    routed = app.amqp.router.route(wanted, entry.task, entry.args, entry.kwargs)
    queue = routed.get("queue", app.conf.task_default_queue)
    return str(getattr(queue, "name", queue))


def _options(app: Celery, entry: BeatEntry, body: dict[str, Any]) -> list[str]:
    """Lays what the options mean over the body; the differences in words."""
    options, told = entry.options, [f"the entry's {name} is not known to us and left out" for name in entry.unknown]
    if options.get("eta") is not None or options.get("task_id") is not None:
        raise CannotMove("an entry with an eta or a task_id of its own would run once, whatever its schedule says")
    if entry.task not in app.tasks:
        told.append(f"the app has no task {entry.task}, neither for beat nor for us: its runs will fail as unknown")
    told += _priority(app, options.get("priority"), body)
    told += _expires(options.get("expires"), body)
    told += _limits(options, body)
    for name, value in options.items():
        if name not in _HARMLESS and value is not None:
            said = _DROPPED.get(name, "Itinerary has no equal").format(value=value, queue=body["queue"])
            told.append(f"the option {name} is not carried over: {said}")
    return told


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
        raise CannotMove(f"expires is {expires!r}: give a number of seconds")
    told = format_duration(round(seconds * SECOND) * MICROSECOND)
    body["start_within"] = told
    yield (
        f"beat's message is dropped by a worker that gets to it later than {told}; here the leader withdraws it then, "
        "and the run is recorded as missed"
    )


def _limits(options: Mapping[str, Any], body: dict[str, Any]) -> Iterator[str]:
    soft, hard = options.get("soft_time_limit"), options.get("time_limit")
    limit = soft or hard
    if limit:
        body["timeout"] = format_duration(round(float(limit) * SECOND))
        yield f"the time limit is the job's timeout {body['timeout']}: SoftTimeLimitExceeded, ten seconds later a kill"
