"""APScheduler 3's jobs as JSON: what `export-apscheduler` prints and `jobs import-apscheduler` reads.

Reads the scheduler without starting it: jobs that its module adds, and its job stores. Stored jobs are pickled, and to
unpickle runs whatever was put there, so they are read only where that was asked for. Never writes.
"""

import copy
import pickle
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from typing import Any, Final

from itinerary.apps.beat_schedule import CannotMove, stored_arguments
from itinerary.protocol.errors import BadValue

FORMAT: Final = "itinerary.apscheduler/1"
_PICKLED: Final = "it is pickled: --unpickle reads it, which runs whatever code its store holds"
_TIMES: Final = 200
_TIMES_AROUND: Final = 2_000
_HOURS: Final = 400 * 24
_JUST_NOW: Final = timedelta(minutes=1)


def export_apscheduler(
    scheduler: Any, place: str, *, unpickle: bool, span: "tuple[datetime, datetime] | None" = None
) -> dict[str, Any]:
    """Every job of the scheduler, or why it cannot be read; BadValue for what is no scheduler of APScheduler 3.

    With a `span`, each job has all of its times within it.
    """
    if not hasattr(scheduler, "_pending_jobs") or not hasattr(scheduler, "_jobstores"):
        kind = type(scheduler).__name__
        raise BadValue("MODULE:SCHEDULER", place, f"it names a {kind}, not a scheduler of APScheduler 3")
    entries = [_entry(state, None, span) for state in _pending(scheduler)]
    for alias, store in sorted(scheduler._jobstores.items()):
        entries += _of_store(alias, store, unpickle, span)
    return {"format": FORMAT, "scheduler": place, "entries": entries}


def _pending(scheduler: Any) -> Iterator[dict[str, Any]]:
    """The jobs that were added before the start; what they leave open is the scheduler's default."""
    for job, _, _ in scheduler._pending_jobs:
        names = ("id", "name", "func", "func_ref", "args", "kwargs", "trigger")
        state = {name: getattr(job, name, None) for name in names}
        state |= {name: getattr(job, name, default) for name, default in scheduler._job_defaults.items()}
        yield {**state, "paused": getattr(job, "next_run_time", True) is None}


def _of_store(
    alias: str, store: Any, unpickle: bool, span: "tuple[datetime, datetime] | None"
) -> Iterator[dict[str, Any]]:
    kind = type(store).__name__
    try:
        stored = _states(store, kind)
    except Exception as exc:  # noqa: BLE001  # a database's or Redis's own
        stored = None
        why = f"the job store {alias} cannot be read: {' '.join(str(exc).split())[:300]}"
    else:
        why = f"{kind} is no job store that can be read: it knows SQLAlchemyJobStore, RedisJobStore, MemoryJobStore"
    if stored is None:
        yield _refused(f"job store {alias}", why)
        return
    for name, held in stored:
        if not isinstance(held, bytes):
            yield _entry(held, alias, span)
        elif not unpickle:
            yield _refused(name, _PICKLED)
        else:
            try:
                state = pickle.loads(held)  # asked for by --unpickle
                yield _entry(
                    {**state, "func_ref": state["func"], "paused": state["next_run_time"] is None}, alias, span
                )
            except Exception as exc:  # noqa: BLE001  # a class that is gone, or anything that it runs
                yield _refused(name, f"it cannot be unpickled: {type(exc).__name__}: {exc}")


def _states(store: Any, kind: str) -> "list[tuple[str, Any]] | None":
    """The jobs by id, pickled or as objects; None for a store of another kind."""
    if kind == "MemoryJobStore":
        return [(job.id, _state_of(job)) for job in store.get_all_jobs()]
    if kind == "SQLAlchemyJobStore":
        table = store.jobs_t
        with store.engine.connect() as connection:
            rows = connection.execute(table.select().order_by(table.c.id)).mappings()
            return [(str(row["id"]), bytes(row["job_state"])) for row in rows]
    if kind == "RedisJobStore":
        return sorted((key.decode(), bytes(held)) for key, held in store.redis.hgetall(store.jobs_key).items())
    return None


def _state_of(job: Any) -> dict[str, Any]:
    return {**job.__getstate__(), "func": job.func, "func_ref": job.func_ref, "paused": job.next_run_time is None}


def _refused(name: str, why: str) -> dict[str, Any]:
    return {"name": name, "refused": why}


def _entry(state: Mapping[str, Any], store: "str | None", span: "tuple[datetime, datetime] | None") -> dict[str, Any]:
    name = str(state["id"])
    try:
        reference, task, args = _called(state)
        trigger = _trigger(state["trigger"], is_pending=store is None)
        return {
            "name": name,
            "title": str(state.get("name") or ""),
            "store": store,
            "function": reference,
            "task": task,
            **stored_arguments(args, state.get("kwargs") or {}),
            "trigger": trigger,
            "times": _times(state["trigger"], datetime.now(timezone.utc), None, _TIMES),
            **({} if span is None else {"span": _times(state["trigger"], *span)}),
            "clocks": _around_changes(state["trigger"]) if trigger["kind"] == "cron" else [],
            **{key: state.get(key) for key in ("misfire_grace_time", "coalesce", "max_instances", "paused")},
            "refused": None,
        }
    except CannotMove as exc:
        return _refused(name, str(exc))


def _called(state: Mapping[str, Any]) -> "tuple[str, str | None, list[Any]]":
    """The function as `module:name`, the Celery task that it sends if it does, and the arguments."""
    reference, args = state.get("func_ref"), list(state.get("args") or ())
    owner = getattr(state.get("func"), "__self__", None)
    if args and hasattr(args[0], "apply_async"):  # a stored method's own object
        owner = args.pop(0)
    if reference is None:
        raise CannotMove(f"its function {state.get('func')!r} has no name of its own: give it one in a module")
    named = getattr(owner, "name", None)
    if not hasattr(owner, "apply_async") or not isinstance(named, str):
        return str(reference), None, args
    if not str(reference).endswith(".delay"):
        raise CannotMove(f"it calls {reference} of the task {named}: let it call delay with the task's own arguments")
    return str(reference), named, args


def _trigger(trigger: Any, *, is_pending: bool) -> dict[str, Any]:
    """A trigger of APScheduler's own; CannotMove for the combined ones and all others."""
    kind = type(trigger).__name__
    if not type(trigger).__module__.startswith("apscheduler.triggers."):
        raise CannotMove(f"its trigger {type(trigger).__module__}.{kind} is of its own making: say it as a cron line")
    if kind == "DateTrigger":
        return {"kind": "date", "at": _text(trigger.run_date)}
    if kind not in ("CronTrigger", "IntervalTrigger"):
        raise CannotMove(f"its trigger {trigger} has no equal: write a job for each of its parts")
    zone = trigger.timezone
    names = (getattr(zone, "key", None), getattr(zone, "zone", None), str(zone))
    common = {
        "timezone": next(name for name in names if isinstance(name, str)),
        "start": _text(trigger.start_date),
        "end": _text(trigger.end_date),
        "jitter": trigger.jitter,
    }
    if kind == "CronTrigger":
        return {"kind": "cron", "fields": {field.name: str(field) for field in trigger.fields}, **common}
    if is_pending and abs(trigger.start_date - trigger.interval - datetime.now(timezone.utc)) < _JUST_NOW:
        common["start"] = None  # nobody gave it: it would be another at each import
    return {"kind": "interval", "microseconds": trigger.interval // timedelta(microseconds=1), **common}


def _times(trigger: Any, start: datetime, end: "datetime | None", most: "int | None" = None) -> "list[str]":
    """The times that APScheduler itself would choose, without its jitter; at most so many."""
    steady = copy.copy(trigger)
    if getattr(steady, "jitter", None):
        steady.jitter = None
    found: list[str] = []
    last, now = None, start
    while most is None or len(found) < most:
        last = steady.get_next_fire_time(last, now)
        if last is None or (end is not None and last >= end):
            break
        found.append(str(_text(last)))
        now = last
    return found


def _around_changes(trigger: Any) -> "list[dict[str, Any]]":
    """The same about each change of the zone's clocks, where libraries differ most."""
    found = []
    for hour in _changes(trigger.timezone):
        start, end = hour - timedelta(hours=3), hour + timedelta(hours=27)
        times = _times(trigger, start, end, _TIMES_AROUND)
        until = times[-1] if len(times) == _TIMES_AROUND else _text(end)
        found.append({"from": _text(start), "to": until, "times": times})
    return found


@lru_cache(maxsize=16)
def _changes(zone: Any) -> "list[datetime]":
    """The hours before which the clocks of the zone change, in the next 400 days."""
    hour = datetime.now(timezone.utc).replace(minute=0, second=0, microsecond=0)
    hours = [hour + timedelta(hours=number) for number in range(_HOURS)]
    offsets = [each.astimezone(zone).utcoffset() for each in hours]
    return [each for each, now, then in zip(hours, offsets, offsets[1:]) if now != then]  # noqa: B905  # Python 3.10


def _text(moment: "datetime | None") -> "str | None":
    return None if moment is None else moment.astimezone(timezone.utc).isoformat().replace("+00:00", "Z")
