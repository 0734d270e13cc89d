"""systemd's OnCalendar= and its spans of time in our words. Pure.

A calendar event is wall time: nothing in an hour that the clocks skip, the first pass alone of a repeated one, even for
`hourly`. Days and weekdays are joined by *and*; `~` counts from the month's end.
"""

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

from itinerary.protocol.errors import BadValue
from itinerary.protocol.instants import Duration
from scheduler_service.core.schedules.special_days import MONTHS, WEEKDAYS
from scheduler_service.core.schedules.zones import zone
from scheduler_service.migrating.converted import CannotConvert

_SHORT: Final = {
    "minutely": "*-*-* *:*:00", "hourly": "*-*-* *:00:00", "daily": "*-*-* 00:00:00", "monthly": "*-*-01 00:00:00",
    "weekly": "Mon *-*-* 00:00:00", "yearly": "*-01-01 00:00:00", "annually": "*-01-01 00:00:00",
    "quarterly": "*-01,04,07,10-01 00:00:00", "semiannually": "*-01,07-01 00:00:00",
}  # fmt: skip
_LONG: Final = ("sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday")
_FROM_MONDAY: Final = tuple(number % 7 for number in range(1, 8))
_FIRST_YEAR, _LAST_YEAR = 1970, 2099
_NUMBER: Final = re.compile(r"\d{1,6}", re.ASCII)
_PART: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([^\d\s]*)", re.ASCII)
_SPANS: Final[Mapping[str, float]] = {
    name: size
    for names, size in (
        ("usec us µs μs", 1e-6), ("msec ms", 1e-3), ("seconds second sec s", 1), ("minutes minute min m", 60),
        ("hours hour hr h", 3600), ("days day d", 86_400), ("weeks week w", 604_800), ("months month M", 2_629_800),
        ("years year y", 31_557_600),
    )
    for name in names.split()
} | {"": 1}  # fmt: skip


def calendar_spec(text: str, timezone: str) -> dict[str, Any]:
    """Our schedule of a calendar event, meant in `timezone` unless it names its own."""
    words = text.split()
    if (own := zone_named_in(text)) is not None:
        timezone, words = own, words[:-1]
    words = [part for word in words for part in _SHORT.get(word.lower(), word).split()]
    weekdays = _weekdays(words.pop(0)) if words and words[0][0].isalpha() else "*"
    date = words.pop(0) if words and ":" not in words[0] else "*-*-*"
    clock = words.pop(0) if words else "00:00:00"
    if words or not text.strip() or date.startswith("@"):
        raise CannotConvert(f"OnCalendar={text} is not understood: give weekday, date, time and zone")
    try:
        year, month, day = _date(date)
        hour, minute, second = _clock(clock)
    except ValueError as exc:
        raise CannotConvert(f"OnCalendar={text} is not understood: {exc}") from exc
    # A leading * would follow elapsed time, which systemd does not.
    changes = timezone != "UTC"
    if changes:
        hour, minute = {"*": "0-23"}.get(hour, hour), {"*": "0-59"}.get(minute, minute)
    expr = [minute, hour, day, month, weekdays]
    expr += [second, year] if year != "*" else [second] if second != "0" else []
    rules = {} if "*" in (day, weekdays) else {"day_match": "and"}
    rules |= {"dst_gap": "skip", "dst_fold": "first"} if changes else {}
    return {"kind": "cron", "expr": " ".join(expr), "timezone": timezone, **rules}


def zone_named_in(text: str) -> str | None:
    """The zone that a calendar event names at its end."""
    words = text.split()
    return _zone(words[-1]) if len(words) > 1 else None


def _zone(word: str) -> str | None:
    if ":" in word or word[0].isdecimal() or word[0] in "*~@" or word.lower() in _SHORT:
        return None
    with suppress(BadValue):
        return zone(word).key
    if "/" in word:
        raise CannotConvert(f"its zone {word} is not known here")
    return None


def _weekdays(text: str) -> str:
    found = set()
    for item in text.split(","):
        first, dots, last = item.partition("..")
        if not dots:
            first, dots, last = item.partition("-")
        low = _weekday(first)
        high = _weekday(last) if dots else low
        if low > high:
            raise CannotConvert(f"the weekdays {item} do not rise from Monday to Sunday")
        found |= set(range(low, high + 1))
    return "*" if len(found) == 7 else _in_ranges(sorted(_FROM_MONDAY[day] for day in found))


def _weekday(text: str) -> int:
    """0 for Monday."""
    name = text.lower()
    for number in range(7):
        if name in (WEEKDAYS[number], _LONG[number]):
            return (number - 1) % 7
    raise CannotConvert(f"the weekday {text!r} is not known; known are Mon to Sun")


def _date(text: str) -> tuple[str, str, str]:
    from_end = "~" in text
    head, _, day_text = text.rpartition("~") if from_end else text.rpartition("-")
    year_text, dash, month_text = head.rpartition("-")
    year = _values(year_text if dash else "*", _FIRST_YEAR, _LAST_YEAR, _full_year)
    month = _values(month_text, 1, len(MONTHS))
    if not from_end:
        return year, month, _values(day_text, 1, 31)
    days = [int(part) for part in _values(day_text, 1, 31, down=True).split(",")]
    return year, month, ",".join("L" if day == 1 else f"L-{day - 1}" for day in days)


def _clock(text: str) -> tuple[str, str, str]:
    parts = text.split(":")
    if len(parts) not in (2, 3):
        raise ValueError(f"the time {text!r} has no hours and minutes")
    seconds = parts[2] if len(parts) == 3 else "0"
    if "." in seconds.replace("..", ""):
        whole, _, fraction = seconds.partition(".")
        if fraction.strip("0"):
            raise ValueError("fractions of a second are not known here")
        seconds = whole
    return _values(parts[0], 0, 23), _values(parts[1], 0, 59), _values(seconds, 0, 59)


def _full_year(number: int) -> int:
    return number if number > 99 else number + (2000 if number < 70 else 1900)


def _values(
    text: str, low: int, high: int, of: Callable[[int], int] = lambda number: number, *, down: bool = False
) -> str:
    """The values of a list of numbers, ranges `a..b` and steps `a/n`; `down`: they count towards 1, and so do steps."""
    if text == "*" and not down:
        return "*"
    found: set[int] = set()
    for item in text.split(","):
        span, slash, step_text = item.partition("/")
        first, dots, last = span.partition("..")
        begin = of(_whole(first))
        step = _whole(step_text) if slash else 1
        end = of(_whole(last)) if dots else begin if not slash else 1 if down else high
        if not (low <= begin <= high and low <= end <= high and 0 < step <= high):
            raise ValueError(f"{item!r} is not within {low} to {high}")
        found |= set(range(begin, end - 1, -step) if begin > end and down and not dots else range(begin, end + 1, step))
        if dots and begin > end:
            raise ValueError(f"{item!r} does not rise")
    if len(found) == high - low + 1 and not down:
        return "*"
    return _in_ranges(sorted(found)) if not down else ",".join(str(number) for number in sorted(found))


def _in_ranges(values: list[int]) -> str:
    """An even rise as a range, anything else as its values."""
    step = values[1] - values[0] if len(values) > 2 else 1
    if len(values) > 2 and values == list(range(values[0], values[-1] + 1, step)):
        return f"{values[0]}-{values[-1]}{f'/{step}' if step > 1 else ''}"
    return ",".join(str(number) for number in values)


def _whole(text: str) -> int:
    if not _NUMBER.fullmatch(text):
        raise ValueError(f"{text!r} is no number")
    return int(text)


def span_of(text: str, key: str) -> Duration:
    """A span such as `1h 30min`, in microseconds."""
    found = _PART.findall(text)
    if not found or _PART.sub("", text).strip() or any(unit not in _SPANS for _, unit in found):
        raise CannotConvert(f"{key}={text} is not understood: give a span such as 1h 30min")
    return round(sum(float(number) * _SPANS[unit] for number, unit in found) * 1_000_000)
