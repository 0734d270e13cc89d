"""A CronJob's schedule in our words: the dialect of its controller's library (robfig/cron v3). Pure.

It reads `5/15` as 5-59/15 and has no 7 for Sunday. It joins the two day fields by *or* unless one holds a plain `*`, so
that `*/2` counts as restricted. Nothing happens in an hour that the clocks skip, and a repeated one
counts twice.
"""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import reduce
from operator import or_
from typing import Any, Final

from itinerary.protocol.errors import BadValue
from itinerary.protocol.instants import SECOND, Instant, format_duration
from scheduler_service.core.schedules.cron import ALIASES
from scheduler_service.core.schedules.cron_fields import (
    FIVE,
    HOUR,
    MINUTE,
    MONTH,
    WEEKDAY,
    FieldKind,
    read_field,
    values_text,
)
from scheduler_service.core.schedules.special_days import MONTHS, WEEKDAYS
from scheduler_service.migrating.converted import CannotConvert
from scheduler_service.migrating.their_times import Fires, interval_fires, matching_minutes

CLOCK_RULES: Final = {"dst_gap": "skip", "dst_fold": "both"}
_NAMES: Final = {
    MONTH: dict(zip(MONTHS, range(1, 13), strict=True)),
    WEEKDAY: dict(zip(WEEKDAYS, range(7), strict=True)),
}
_EVERY: Final = "@every "
_SPAN: Final = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_UNITS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "h": 3600}


def kubernetes_spec(text: str, timezone: str) -> tuple[dict[str, Any], list[str]]:
    """Our schedule of a CronJob's, and how it differs; CannotConvert for what its controller refuses too."""
    if text.startswith(_EVERY):
        return _interval(text, timezone)
    if text in ALIASES:
        return {"kind": "cron", "expr": text, "timezone": timezone, **_rules(text)}, []
    fields = text.split()
    if len(fields) != len(FIVE):
        raise CannotConvert(f"its schedule {text!r} has {len(fields)} fields: a CronJob's has five")
    expr = " ".join(_written(kind, field) for kind, field in zip(FIVE, fields, strict=True))
    return {"kind": "cron", "expr": expr, "timezone": timezone, **_rules(expr)}, []


def kubernetes_fires(text: str, schedule: Mapping[str, Any]) -> Fires:
    """The controller's times, by a plain model of its library: each minute whose wall time matches."""
    if schedule["kind"] == "interval":
        return interval_fires(schedule)
    items = [
        [_item(kind, item) for item in filter(None, field.split(","))]
        for kind, field in zip(FIVE, ALIASES.get(text, text).split(), strict=True)
    ]
    masks = [reduce(or_, (values for values, _ in each)) for each in items]
    joined = all if any(star for each in (items[2], items[4]) for _, star in each) else any

    def of(start: Instant, end: Instant) -> Sequence[Instant]:
        found = []
        for at, wall in matching_minutes(schedule["timezone"], start, end):
            shown = (wall.minute, wall.hour, wall.day, wall.month, wall.isoweekday() % 7)
            minute, hour, day, month, weekday = (mask >> value & 1 for mask, value in zip(masks, shown, strict=True))
            if minute and hour and month and joined((day, weekday)):
                found.append(at)
        return found

    return of


def _rules(expr: str) -> dict[str, str]:
    """The rules for changes of the clocks; lines that follow elapsed time heed none."""
    is_elapsed = expr == "@hourly" or any(field.startswith("*") for field in expr.split()[:2])
    return {} if is_elapsed else dict(CLOCK_RULES)


def _written(kind: FieldKind, text: str) -> str:
    """The field as we read it: the same text where that means the same, else its values."""
    mask, starred = 0, False
    for item in filter(None, text.split(",")):
        values, star = _item(kind, item)
        mask, starred = mask | values, starred or star
    if not mask:
        raise CannotConvert(f"its {kind.name} {text!r} names nothing")
    if starred:  # a plain * among the items is every value
        return "*"
    lower = text.lower()
    if kind in (MINUTE, HOUR) or not lower.startswith(("*", "?")):
        with suppress(BadValue):
            read = read_field(kind, lower, "")
            if read.mask == mask and not read.special and not lower.startswith("?"):
                return lower
    return values_text(kind, mask)


def _item(kind: FieldKind, item: str) -> tuple[int, bool]:
    """The values of one item of a list, and whether it is a plain `*`."""
    span, slash, step_text = item.partition("/")
    low_text, dash, high_text = span.partition("-")
    step = _number(kind, step_text, item) if slash else 1
    if low_text in ("*", "?"):
        low, high = kind.low, kind.high
    else:
        low = _value(kind, low_text, item)
        high = _value(kind, high_text, item) if dash else kind.high if slash else low
    if not kind.low <= low <= high <= kind.high or step < 1:
        raise CannotConvert(f"its {kind.name} {item!r} is not understood: give {kind.low}-{kind.high}, rising")
    return sum(1 << value for value in range(low, high + 1, step)), low_text in ("*", "?") and step == 1


def _value(kind: FieldKind, text: str, item: str) -> int:
    found = _NAMES.get(kind, {}).get(text.lower())
    return _number(kind, text, item) if found is None else found


def _number(kind: FieldKind, text: str, item: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise CannotConvert(f"its {kind.name} {item!r} is not understood: give numbers, ranges and steps")
    return int(text)


def _interval(text: str, timezone: str) -> tuple[dict[str, Any], list[str]]:
    span = text.removeprefix(_EVERY).strip()
    if not span or _SPAN.sub("", span):
        raise CannotConvert(f"its schedule {text!r} names no duration such as 1h30m")
    seconds = sum(float(number) * _UNITS[unit] for number, unit in _SPAN.findall(span))
    every = max(1, int(seconds))  # the library cuts fractions of a second off
    length = format_duration(every * SECOND)
    counted = f"a CronJob counts from its last start; here it runs at 00:00 ({timezone}) + k x {length}"
    return {"kind": "interval", "every": length, "timezone": timezone}, [counted]
