"""Calendar specs: every N days, weeks or months at wall times, counted from a date.

Months without the named day are skipped; -1 is the last day, and `nth` counts weekdays within the month likewise. Weeks
begin on Monday. Without `start`, counting starts on the date on which the job was created (in its zone). `year` is read
as 12 months.
"""

from collections.abc import Mapping
from typing import Any, Final

from itinerary.protocol.errors import BadValue
from itinerary.protocol.instants import SECOND, Instant
from scheduler_service.core.schedules.clock_rules import FIXED
from scheduler_service.core.schedules.days import CalendarDays, Unit, ever_matches
from scheduler_service.core.schedules.kinds import CalendarSchedule, shared_calendar
from scheduler_service.core.schedules.spec_reading import (
    WEEKDAYS,
    choice,
    day_number,
    items,
    only_known,
    time_of_day,
    time_text,
    wall_micros,
    weekday_mask,
    whole,
    zone_name,
)
from scheduler_service.core.schedules.wall_times import Clockwork, WallTimes
from scheduler_service.core.schedules.zones import DAY_SECONDS, first_instant_from, offset_at

KEYS: Final = ("every", "unit", "at", "days", "weekdays", "nth", "start", "timezone")
_WORKDAY: Final = "workday"
_WORKDAYS: Final = ("mon", "tue", "wed", "thu", "fri")
_UNITS: Final[Mapping[str, Unit]] = {"day": "day", "week": "week", "month": "month"}
_MOST: Final = {"day": 3_660, "week": 520, "month": 120, "year": 10}


def canonical(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the spec of a calendar with its defaults."""
    only_known(spec, KEYS)
    unit = choice(spec, "unit", tuple(_MOST))
    every = whole(spec, "every", 1, _MOST[unit], 1)
    start = _start(spec)
    nth = _nth(spec, unit)
    times = [time_text(t) for t in _times(spec, start)]
    return {
        "kind": "calendar",
        "every": 12 * every if unit == "year" else every,
        "unit": "month" if unit == "year" else unit,
        "at": times,
        "days": _month_days(spec, unit),
        "weekdays": _weekdays(spec, unit, nth),
        # Absent where it is not given: the release before refuses a definition with a field that it does not know.
        **({"nth": nth} if nth else {}),
        "start": start,
        "timezone": zone_name(spec),
    }


def _start(spec: Mapping[str, Any]) -> str | None:
    start = spec.get("start")
    if start is None:
        return None
    if isinstance(start, str) and len(start) in (16, 19):
        wall_micros(start, "start")
        return start.replace(" ", "T").replace("t", "T")
    day_number(start, "start")
    return str(start)


def _times(spec: Mapping[str, Any], start: str | None) -> list[int]:
    given = items(spec, "at", 288)
    if not given:
        return [time_of_day(start[11:], "start") if start and len(start) > 10 else 0]
    return sorted({time_of_day(value, "at") for value in given})


def _month_days(spec: Mapping[str, Any], unit: str) -> list[int]:
    days = items(spec, "days", 62)
    if days and unit not in ("month", "year"):
        raise BadValue("days", spec["days"], "only a calendar of months has days of the month")
    for day in days:
        if isinstance(day, bool) or not isinstance(day, int) or not 1 <= abs(day) <= 31:
            raise BadValue("days", day, "days of the month: 1 to 31, or -1 (the last) to -31")
    return sorted(set(days), key=lambda day: (day < 0, day))


def _nth(spec: Mapping[str, Any], unit: str) -> list[int]:
    """Read which of the weekdays of a month are meant."""
    numbers = items(spec, "nth", 62)
    if numbers and unit not in ("month", "year"):
        raise BadValue("nth", spec["nth"], "only a calendar of months counts its weekdays")
    if numbers and spec.get("days"):
        raise BadValue("days", spec["days"], "leave out either days or nth")
    most = 23 if _WORKDAY in items(spec, "weekdays", 14) else 5
    for number in numbers:
        if isinstance(number, bool) or not isinstance(number, int) or not 1 <= abs(number) <= most:
            raise BadValue("nth", number, f"1 (the first) to {most}, or -1 (the last) to -{most}")
    return sorted(set(numbers), key=lambda number: (number < 0, number))


def _weekdays(spec: Mapping[str, Any], unit: str, nth: list[int]) -> list[str]:
    days = items(spec, "weekdays", 14)
    if nth and not days:
        raise BadValue("weekdays", None, "name the weekdays that nth counts, such as fri, or workday")
    if days and unit != "week" and not nth:
        raise BadValue("weekdays", spec["weekdays"], "give nth as well: which of these weekdays of the month")
    if nth and [*days] == [_WORKDAY]:
        return [_WORKDAY]
    for day in days:
        if not isinstance(day, str) or day.lower() not in WEEKDAYS:
            alone = f"; or {_WORKDAY} alone" if nth else ""
            raise BadValue("weekdays", day, f"of {', '.join(WEEKDAYS)}{alone}")
    return [day for day in WEEKDAYS if day in {str(d).lower() for d in days}]


def parse(spec: Mapping[str, Any], created_at: Instant) -> CalendarSchedule:
    """Build the schedule of a canonical spec, for a job created at `created_at`."""
    start, zone = spec["start"], spec["timezone"]
    first = day_number(start[:10], "start") if start else _created_on(zone, created_at)
    days = CalendarDays(
        spec["every"],
        _UNITS[spec["unit"]],
        first,
        _named_days(spec, start),
        _named_weekdays(spec, first),
        tuple(spec.get("nth", ())),
        together=spec["weekdays"] == [_WORKDAY],
    )
    if not ever_matches(days):
        field = "nth" if "nth" in spec else "days"
        raise BadValue(field, spec[field], "none of these days ever comes in the months counted")
    times = tuple(time_of_day(value, "at") for value in spec["at"])
    begins = _begins(start, zone) if start else None
    return shared_calendar(CalendarSchedule(times, WallTimes(zone, FIXED, days, _blocks(times), begins)))


def _created_on(zone: str, created_at: Instant) -> int:
    second = created_at // SECOND
    return (second + offset_at(zone, second)) // DAY_SECONDS


def _named_days(spec: Mapping[str, Any], start: str | None) -> tuple[int, ...]:
    if spec["unit"] != "month" or "nth" in spec:
        return ()
    return tuple(spec["days"]) or (int(start[8:10]) if start else 1,)


def _named_weekdays(spec: Mapping[str, Any], first: int) -> int:
    if spec["weekdays"] == [_WORKDAY]:
        return weekday_mask(_WORKDAYS)
    if spec["unit"] != "week" and "nth" not in spec:
        return 0
    return weekday_mask(spec["weekdays"]) or 1 << (first + 4) % 7


def _begins(start: str, zone: str) -> Instant:
    return first_instant_from(zone, wall_micros(start, "start") // SECOND) * SECOND


def _blocks(times: tuple[int, ...]) -> tuple[Clockwork, ...]:
    """Group the times into blocks of one hour and second each, their minutes together."""
    minutes: dict[tuple[int, int], int] = {}
    for time in times:
        key = (time // 3600, time % 60)
        minutes[key] = minutes.get(key, 0) | 1 << time // 60 % 60
    return tuple(Clockwork(1 << hour, mask, 1 << second) for (hour, second), mask in minutes.items())
