"""rq-scheduler's jobs in Redis: a set of ids by their next times, and a hash for each. Only reads.

Definitions are pickled or JSON. A pickle is read without running anything that it names (`plain_pickle.py`), so
arguments of other classes are refused by the class's name.
"""

import json
import zlib
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any, Final

from redis.exceptions import RedisError

from itinerary.apps.beat_schedule import CannotMove, stored_arguments
from itinerary.protocol.errors import BadValues, ItineraryError
from itinerary.protocol.instants import SECOND, Instant, format_instant, parse_duration
from scheduler_service.core.contract.job_json import read_job
from scheduler_service.core.schedules.cron import ALIASES
from scheduler_service.core.schedules.cron_fields import FIVE, read_field
from scheduler_service.core.schedules.schedule import upcoming
from scheduler_service.migrating.converted import CannotConvert, Converted, checked, job_id_of
from scheduler_service.migrating.explicit_fields import explicit
from scheduler_service.migrating.functions import task_of
from scheduler_service.migrating.plain_pickle import MOST_BYTES, NotPlain, load_plain
from scheduler_service.migrating.redis_source import open_redis, place_in
from scheduler_service.migrating.their_times import Fires, chained, naive_cron

NOTES: Final = (
    "rq-scheduler enqueues whether or not the last run is over, so overlap is `allow`; `skip` may be what you want",
    "after an outage it enqueues each job once; so does misfire `fire_once`, for what is later than its grace of 30s",
    "in an hour that the clocks skip it enqueues early, and more than once; here such a time is as much later, once",
)
SCHEDULED: Final = "rq:scheduler:scheduled_jobs"
_JOB: Final = "rq:job:"
_AT_ONCE: Final = 500
_FIELDS: Final = ("data", "meta", "origin", "timeout", "description", "dependency_id")
_ODD: Final = (TypeError, ValueError, OverflowError, RecursionError, BadValues)  # values that rq would not write

Stored = tuple[str, float, Mapping[str, bytes | None]]


def read_rq(url: str, *, task: str | None, queue: str | None, timezone: str, now: Instant) -> list[Converted]:
    """Every scheduled job, by id; ItineraryError where there is none."""
    try:
        with closing(open_redis(url, "URL")) as client:
            stored = sorted(_stored(client))
    except RedisError as exc:
        raise ItineraryError(f"the Redis of rq-scheduler cannot be read: {exc}") from exc
    if not stored:
        raise ItineraryError(f"{place_of(url)} has no jobs in {SCHEDULED}: name the Redis that rq-scheduler is given")
    taken: set[str] = set()
    return [_entry(*each, task, queue, timezone, now, taken) for each in stored]


def place_of(url: str) -> str:
    """The place of that Redis, without a password."""
    return place_in(url, "URL")


def _stored(client: Any) -> Iterator[Stored]:
    """Each job's id, next time in seconds, and hash."""
    listed = client.zrange(SCHEDULED, 0, -1, withscores=True)
    for begin in range(0, len(listed), _AT_ONCE):
        some = listed[begin : begin + _AT_ONCE]
        with client.pipeline(transaction=False) as pipe:
            for key, _ in some:
                pipe.hmget(_JOB.encode() + key, _FIELDS)
            for (key, score), held in zip(some, pipe.execute(), strict=True):
                yield key.decode("utf-8", "replace"), score, dict(zip(_FIELDS, held, strict=True))


def _entry(
    name: str, score: float, held: Mapping[str, bytes | None], task: str | None, queue: str | None, timezone: str,
    now: Instant, taken: set[str],
) -> Converted:  # fmt: skip
    differences: list[str] = []
    try:
        due = round(score) * SECOND
        function, args, kwargs = _called(held["data"])
        meta = _read(held["meta"], "meta") if held["meta"] else {}
        schedule = _schedule(meta, due, timezone, differences)
        called = task_of(function, args, kwargs, task, differences)
        if held["dependency_id"]:
            raise CannotConvert("it depends on another job of rq: let that one enqueue it")
        body = {"job_id": job_id_of(_id_of(name, function), taken, "job"), **called, "schedule": schedule}
        body |= {"overlap": "allow", **_rest(held, queue), **_end(body, meta, due, now)}
    except CannotConvert as exc:
        return Converted(name, refused=str(exc))
    except _ODD as exc:
        return Converted(name, refused=f"it is no job that rq-scheduler would store: {exc}")
    taken.add(str(body["job_id"]))
    converted, _ = checked(name, body, tuple(differences), now, _fires(schedule, due, meta))
    if schedule["kind"] != "once" or due > now or converted.body is None:
        return converted
    late = f"its time, {format_instant(due)}, is past; rq-scheduler would enqueue it at once: `itinerary enqueue` does"
    return Converted(name, converted.body, converted.differences, left_out=late)


def _id_of(name: str, function: str) -> str:
    """The job's own id, or where rq drew one (a UUID), the function's name."""
    drawn = len(name) == 36 and name.count("-") == 4
    return function if drawn else name


def _called(data: bytes | None) -> tuple[str, list[Any], dict[str, Any]]:
    if data is None:
        raise CannotConvert("its definition is gone from Redis: rq forgets it too")
    function, instance, args, kwargs = _parts(_read(_inflated(data), "definition"))
    if instance is not None:
        raise CannotConvert(f"it calls a method of {instance!r}: let it call a function")
    try:
        stored = stored_arguments(args, kwargs)
    except CannotMove as exc:
        raise CannotConvert(str(exc)) from exc
    return str(function), stored["args"], stored["kwargs"]


def _parts(value: Any) -> tuple[Any, Any, Any, Any]:
    if not isinstance(value, list | tuple) or len(value) != 4 or not isinstance(value[0], str):
        raise CannotConvert("its definition is no function with arguments")
    return value[0], value[1], value[2], value[3]


def _inflated(data: bytes) -> bytes:
    try:
        found = zlib.decompressobj().decompress(data, MOST_BYTES + 1)
    except zlib.error:
        return data
    return found


def _read(data: bytes, what: str) -> Any:
    if data[:1] in (b"{", b"["):
        try:
            return json.loads(data)
        except ValueError as exc:
            raise CannotConvert(f"its {what} is no JSON: {exc}") from exc
    try:
        return load_plain(data)
    except NotPlain as exc:
        raise CannotConvert(f"its {what} holds a pickled {exc}, which to read runs code: use plain values") from exc
    except ValueError as exc:
        raise CannotConvert(f"its {what} is not understood: {exc}") from exc


def _schedule(meta: Any, due: Instant, timezone: str, differences: list[str]) -> dict[str, Any]:
    if not isinstance(meta, Mapping):
        raise CannotConvert("its meta is no object")
    if line := meta.get("cron_string"):
        differences.append(
            f"rq-scheduler reads its line in the zone of its own machine; here that is {timezone} (--timezone)"
        )
        return _cron(str(line), timezone)
    if seconds := meta.get("interval"):
        differences.append("rq-scheduler counts from when it last enqueued, which drifts; here from its next time on")
        return {"kind": "interval", "every": f"{int(seconds)}s", "anchor": format_instant(due), "timezone": timezone}
    return {"kind": "once", "at": format_instant(due)}


def _cron(line: str, timezone: str) -> dict[str, Any]:
    """Five fields, joined by *and*; wall times, of which the skipped are later and the repeated come once."""
    if line.startswith("@"):
        return {"kind": "cron", "expr": line, "timezone": timezone}
    fields = line.split()
    if len(fields) != len(FIVE):
        raise CannotConvert(
            f"its line {line!r} has {len(fields)} fields: those with seconds or years are not understood"
        )
    expr = [explicit(kind, field, timezone) for kind, field in zip(FIVE, fields, strict=True)]
    rules = {} if "*" in (expr[2], expr[4]) else {"day_match": "and"}
    rules |= {"dst_gap": "shift", "dst_fold": "first"} if timezone != "UTC" else {}
    return {"kind": "cron", "expr": " ".join(expr), "timezone": timezone, **rules}


def _fires(schedule: Mapping[str, Any], due: Instant, meta: Mapping[str, Any]) -> Fires:
    """The times of rq-scheduler: the next that it stores, and each from the one before it."""
    if schedule["kind"] == "once":
        return chained(due, lambda _: None, 1)
    count = int(meta["repeat"]) if meta.get("repeat") else None
    if schedule["kind"] == "interval":
        every = parse_duration(schedule["every"], "every")
        return chained(due, lambda at: at + every, count)
    fields = ALIASES.get(schedule["expr"], schedule["expr"]).split()
    masks = [read_field(kind, field.lower(), "").mask for kind, field in zip(FIVE, fields, strict=True)]
    return chained(due, naive_cron(masks, schedule["timezone"]), count)


def _rest(held: Mapping[str, bytes | None], queue: str | None) -> dict[str, Any]:
    origin = (held["origin"] or b"").decode("utf-8", "replace")
    seconds = (held["timeout"] or b"").decode("ascii", "replace")
    limit = {"timeout": f"{seconds}s"} if seconds.isdecimal() and int(seconds) else {}
    return {**({"queue": queue or origin} if queue or origin else {}), **limit}


def _end(body: Mapping[str, Any], meta: Mapping[str, Any], due: Instant, now: Instant) -> dict[str, str]:
    """A job that is repeated so many times ends after the last of them."""
    left = meta.get("repeat")
    if not left or body["schedule"]["kind"] == "once":
        return {}
    checked_job, _ = read_job(dict(body), created_at=now)
    times = upcoming(checked_job.schedule, due - 1, int(left))
    return {"end_at": format_instant(times[-1] + 1)} if times else {}
