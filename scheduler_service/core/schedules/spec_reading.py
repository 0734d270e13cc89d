"""Readers for the values of a spec: each parses a JSON value, or names the field in its error.

Promises an error that says what is allowed. It never corrects a value, and never reads one in place of another.
"""

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime
from functools import lru_cache
from typing import Any, Final

from itinerary.protocol.errors import BadValue
from itinerary.protocol.instants import DAY, SECOND, Duration, Instant, format_instant, parse_duration, parse_instant
from scheduler_service.core.schedules.zones import DAY_SECONDS, instants_of, zone

_NAIVE = re.compile(r"\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?", re.ASCII)
_TIME = re.compile(r"(\d{2}):(\d{2})(?::(\d{2}))?", re.ASCII)
WEEKDAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_EPOCH_ORDINAL: Final = date(1970, 1, 1).toordinal()


def only_known(spec: Mapping[str, Any], known: Iterable[str]) -> None:
    """Refuse the first key that this kind of schedule does not have."""
    allowed = ("kind", *known)
    for key in spec:
        if key not in allowed:
            raise BadValue(str(key), spec[key], f"a schedule of kind {spec.get('kind')} has {', '.join(allowed)}")


def choice(spec: Mapping[str, Any], key: str, allowed: tuple[str, ...]) -> str:
    """Read one of a few words; the first is the default."""
    value = spec.get(key, allowed[0])
    if not isinstance(value, str) or value not in allowed:
        raise BadValue(key, value, f"one of {', '.join(allowed)}")
    return value


def flag(spec: Mapping[str, Any], key: str) -> bool:
    """Read true or false, by default false."""
    value = spec.get(key, False)
    if not isinstance(value, bool):
        raise BadValue(key, value, "true or false")
    return value


def whole(spec: Mapping[str, Any], key: str, low: int, high: int, default: int | None = None) -> int:
    """Read a whole number within bounds."""
    value = spec.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise BadValue(key, value, f"a whole number from {low} to {high}")
    return value


def zone_name(spec: Mapping[str, Any]) -> str:
    """Read the IANA zone of a spec, by default UTC."""
    name = spec.get("timezone", "UTC")
    if not isinstance(name, str):
        raise BadValue("timezone", name, "the name of an IANA time zone, such as UTC or Europe/Berlin")
    return zone(name).key


def duration(spec: Mapping[str, Any], key: str, default: str | None = None) -> Duration:
    """Read a duration in whole seconds."""
    value = parse_duration(spec.get(key, default), key)
    if value % SECOND:
        raise BadValue(key, spec.get(key), "whole seconds")
    return value


def moment(value: object, key: str, timezone: str | None) -> Instant:
    """Read an instant: RFC 3339 with an offset, or a wall time that exists in `timezone` (its first pass)."""
    if not isinstance(value, str) or not _NAIVE.fullmatch(value):
        return parse_instant(value, key)
    if timezone is None:
        raise BadValue(key, value, "add an offset (Z, +02:00), or give the field timezone")
    micros = wall_micros(value, key)
    found = instants_of(timezone, micros // SECOND)
    if not found:
        raise BadValue(key, value, f"this time does not exist in {timezone}: its clocks jump over it")
    instant = found[0] * SECOND + micros % SECOND
    try:
        format_instant(instant)
    except OverflowError:
        raise BadValue(key, value, "give a time that in UTC too lies within the years 1 to 9999") from None
    return instant


def wall_micros(value: str, key: str) -> int:
    """Read a wall time as microseconds since 1970-01-01T00:00 on the same clock."""
    try:
        wall = datetime.fromisoformat(value.replace("t", "T"))
    except ValueError as exc:
        raise BadValue(key, value, f"a date and time that exist ({exc})") from exc
    seconds = (wall.toordinal() - _EPOCH_ORDINAL) * 86_400 + wall.hour * 3600 + wall.minute * 60 + wall.second
    return seconds * SECOND + wall.microsecond


def day_number(value: object, key: str) -> int:
    """Read a date `2026-11-27` as days since 1970-01-01."""
    try:
        if isinstance(value, str) and len(value) == 10:
            return date.fromisoformat(value).toordinal() - _EPOCH_ORDINAL
    except ValueError as exc:
        raise BadValue(key, value, f"a date that exists ({exc})") from exc
    raise BadValue(key, value, "a date such as 2026-11-27, or a date and time such as 2026-11-27T09:30")


def time_of_day(value: object, key: str) -> int:
    """Read `05:30` or `05:30:15` as seconds since midnight."""
    found = _TIME.fullmatch(value) if isinstance(value, str) else None
    if found:
        hour, minute, second = (int(part or 0) for part in found.groups())
        if hour < 24 and minute < 60 and second < 60:
            return hour * 3600 + minute * 60 + second
    raise BadValue(key, value, "a time of day such as 05:30 or 05:30:15")


def items(spec: Mapping[str, Any], key: str, most: int) -> tuple[Any, ...]:
    """Read a list of at most `most` items; absent and null are the empty list."""
    value = spec.get(key)
    if value is None:
        return ()
    if not isinstance(value, (list, tuple)) or len(value) > most:
        raise BadValue(key, value, f"a list of at most {most} items")
    return tuple(value)


def weekdays(spec: Mapping[str, Any], key: str) -> list[str]:
    """Read `mon-fri`, `mon,wed` or a list of names, in the order of the week; absent and null are every day."""
    given = spec.get(key)
    if given is None:
        return list(WEEKDAYS)
    parts = given.split(",") if isinstance(given, str) else given
    if not isinstance(parts, (list, tuple)) or not 1 <= len(parts) <= 14:
        raise BadValue(key, given, f"such as mon-fri, or a list of {', '.join(WEEKDAYS)}")
    named = {day for part in parts for day in _weekday_range(part, key)}
    return [day for day in WEEKDAYS if day in named]


def _weekday_range(part: object, key: str) -> list[str]:
    first, _, last = part.strip().lower().partition("-") if isinstance(part, str) else ("", "", "")
    if first not in WEEKDAYS or (last or first) not in WEEKDAYS:
        raise BadValue(key, part, f"such as mon-fri, or a list of {', '.join(WEEKDAYS)}")
    low, high = WEEKDAYS.index(first), WEEKDAYS.index(last or first)
    return [WEEKDAYS[n % 7] for n in range(low, high + 1 + 7 * (high < low))]


def weekday_mask(names: Iterable[str]) -> int:
    """Return weekdays as bits; bit 0 is Sunday."""
    return sum(1 << WEEKDAYS.index(day) for day in names)


def time_text(seconds: int) -> str:
    """Write a time of day: `05:30`, or `05:30:15`."""
    text = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}"
    return text if seconds % 60 == 0 else f"{text}:{seconds % 60:02d}"


def month_start(instant: Instant) -> int:
    """Return the first second of the instant's month in UTC: precise enough for a warning, and shared by many jobs."""
    return _month_of(instant // DAY)


@lru_cache(maxsize=4_096)
def _month_of(day: int) -> int:
    first = datetime.fromtimestamp(day * DAY_SECONDS, UTC).replace(day=1)
    return int(first.timestamp())
