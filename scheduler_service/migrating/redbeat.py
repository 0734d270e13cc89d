"""RedBeat's keys as beat's entries: a hash `redbeat:` + name, with its definition and meta. Only reads."""

import json
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta, timezone
from typing import Any, Final
from zoneinfo import ZoneInfo

from celery.schedules import ParseException, crontab, schedule
from redis.exceptions import RedisError

from itinerary.apps.beat_scheduler import REDBEAT_PREFIX
from itinerary.protocol.batches import batched
from itinerary.protocol.errors import ItineraryError
from itinerary.protocol.instants import SECOND, Instant, from_datetime
from scheduler_service.migrating.beat_entry import BeatEntry
from scheduler_service.migrating.redis_source import open_redis, place_in

_AT_ONCE: Final = 500
_KNOWN: Final = frozenset({"name", "task", "args", "kwargs", "options", "schedule", "enabled"})
_UNREADABLE: Final = (TypeError, ValueError, KeyError, OverflowError, ParseException)

Stored = tuple[str, bytes, bytes | None, float | None]


class _NotUnderstood:
    """A value of a type that only RedBeat knows, such as its rrule."""

    def __init__(self, name: str) -> None:
        self.name = name


def read_redbeat(url: str, prefix: str = REDBEAT_PREFIX) -> list[BeatEntry]:
    """Every entry below the prefix, by name; ItineraryError where there is none and never was."""
    client = open_redis(url, "--from-redbeat")
    try:
        found = list(_stored(client, prefix))
        if not found and not client.exists(f"{prefix}:schedule", f"{prefix}:statics"):
            raise ItineraryError(
                f"{place_of(url)} has no keys of RedBeat under {prefix}*: "
                "name the Redis of redbeat_redis_url, and its redbeat_key_prefix with --redbeat-prefix"
            )
    except RedisError as exc:
        raise ItineraryError(f"the Redis of RedBeat cannot be read: {exc}") from exc
    finally:
        client.close()
    return sorted((_entry(*each) for each in found), key=lambda entry: entry.name)


def place_of(url: str) -> str:
    """The place of that Redis, without a password."""
    return place_in(url, "--from-redbeat")


def _stored(client: Any, prefix: str) -> Iterator[Stored]:
    """Name, definition, meta and the time at which RedBeat holds it due, of each entry."""
    escaped = "".join(f"\\{letter}" if letter in "*?[]\\^" else letter for letter in prefix)
    keys = sorted(set(client.scan_iter(match=f"{escaped}*", count=_AT_ONCE, _type="hash")))
    for some in batched(keys, _AT_ONCE):
        with client.pipeline(transaction=False) as pipe:
            for key in some:
                pipe.hmget(key, "definition", "meta")
                pipe.zscore(f"{prefix}:schedule", key)
            answers = pipe.execute()
        for key, held, due in zip(some, answers[::2], answers[1::2], strict=True):
            if held[0] is not None:
                yield key.decode("utf-8", "replace").removeprefix(prefix), held[0], held[1], due


def _entry(name: str, definition: bytes, meta: bytes | None, due: float | None) -> BeatEntry:
    try:
        held = _object(definition)
        last = _sent(_object(meta) if meta else {}, held.get("schedule"), due)
    except _UNREADABLE as exc:
        return BeatEntry(name, "", None, (), {}, {}, refused=f"its definition is not understood: {exc}")
    given: Any = held.get("schedule")
    refused = None
    if isinstance(given, _NotUnderstood):
        instead = "a schedule of kind rrule" if given.name == "rrule" else "a cron line"
        refused = f"{given.name} schedules are not understood yet: say it as {instead}"
    elif not isinstance(given, crontab | schedule):
        refused = f"its schedule is {given!r}: say it as a cron line"
    args, kwargs, options = held.get("args") or (), held.get("kwargs") or {}, held.get("options") or {}
    if not (isinstance(args, list | tuple) and isinstance(kwargs, Mapping) and isinstance(options, Mapping)):
        refused = refused or "its args, kwargs or options are no list and objects"
        args, kwargs, options = (), {}, {}
    return BeatEntry(
        str(held.get("name") or name), str(held.get("task")), given, args, kwargs,
        dict(options),
        tuple(sorted(set(held) - _KNOWN)), refused=refused, last_run_at=last,
        asleep=None if held.get("enabled", True) else "it is disabled there; enable it and import again",
    )  # fmt: skip


def _sent(meta: Mapping[str, Any], given: Any, due: float | None) -> Instant | None:
    """When it was last sent; what never was is due at once, or when RedBeat's index has it due."""
    last = meta.get("last_run_at")
    if isinstance(last, datetime):
        return from_datetime(last)
    if due is None or due < 0 or not hasattr(given, "run_every"):
        return None
    every: timedelta = given.run_every
    return int(due) * SECOND - every // timedelta(microseconds=1)


def _object(text: bytes) -> dict[str, Any]:
    value = json.loads(text, object_hook=_understood)
    if not isinstance(value, dict):
        raise ValueError(f"{value!r} is no object")
    return value


def _understood(held: dict[str, Any]) -> Any:
    """RedBeat's typed values, as its decoder reads them."""
    kind = held.get("__type__")
    rest = {key: value for key, value in held.items() if key != "__type__"}
    match kind:
        case "datetime":
            where = rest.pop("timezone", "UTC")
            zone = ZoneInfo(where) if isinstance(where, str) else timezone(timedelta(seconds=where))
            return datetime(**rest, tzinfo=zone)
        case "interval":
            return schedule(timedelta(seconds=rest["every"]), relative=bool(rest.get("relative")))
        case "crontab":
            return crontab(**rest)
        case "rrule" | "solar":
            return _NotUnderstood(str(kind))
        case "weekday":
            return rest
        case _:
            return held
