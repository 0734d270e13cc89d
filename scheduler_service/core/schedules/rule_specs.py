"""Recurrence specs: an RRULE of RFC 5545 with its start and exceptions, in wall times of the zone.

DAILY or coarser, at most 10,000 instants a year. The start is an occurrence only where the rule matches it, as
dateutil reads it. A rule that has no instant in the five years from its start is refused.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from itertools import islice, takewhile
from typing import Any, Final

from itinerary.protocol.errors import BadValue
from scheduler_service.core.schedules.kinds import RuleSchedule
from scheduler_service.core.schedules.recurrence import RULE_WEEKDAYS, parts_of, wall_times_from
from scheduler_service.core.schedules.spec_reading import day_number, items, only_known, wall_micros, zone_name
from scheduler_service.core.schedules.zones import DAY_SECONDS

KEYS: Final = ("rrule", "dtstart", "exdate", "timezone")
FREQUENCIES: Final = ("DAILY", "WEEKLY", "MONTHLY", "YEARLY")
_FINER: Final = ("HOURLY", "MINUTELY", "SECONDLY")
MOST_CHARACTERS: Final = 1_000
_MOST_A_YEAR: Final = 10_000
_MOST_EXCEPTIONS: Final = 1_000
_MOST_POSITIONS: Final = 12
_YEARS: Final = 5
_YEAR: Final = 366 * DAY_SECONDS
_LOCAL: Final = re.compile(r"\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}(:\d{2})?", re.ASCII)
_UNTIL: Final = re.compile(r"(\d{4})(\d{2})(\d{2})(?:T(\d{2})(\d{2})(\d{2})Z?)?", re.ASCII)
_DAY: Final = re.compile(rf"([+-]?\d{{1,2}})?({'|'.join(RULE_WEEKDAYS)})", re.ASCII)
# The least and the most of each list, and whether it counts from the end too.
_NUMBERS: Final = {
    "BYSECOND": (0, 59, False), "BYMINUTE": (0, 59, False), "BYHOUR": (0, 23, False), "BYMONTHDAY": (1, 31, True),
    "BYYEARDAY": (1, 366, True), "BYWEEKNO": (1, 53, True), "BYMONTH": (1, 12, False), "BYSETPOS": (1, 366, True),
}  # fmt: skip
_ONE: Final = {"INTERVAL": (1, 3_660, False), "COUNT": (1, _MOST_A_YEAR, False)}
_PARTS: Final = ("FREQ", "INTERVAL", "COUNT", "UNTIL", "WKST", "BYDAY", *_NUMBERS)


def canonical(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the spec of a rule with its defaults."""
    only_known(spec, KEYS)
    excluded = {_exception(value) for value in items(spec, "exdate", _MOST_EXCEPTIONS)}
    return {
        "kind": "rrule",
        "rrule": _text(spec.get("rrule")),
        "dtstart": _local_text(spec.get("dtstart"), "dtstart"),
        "exdate": sorted(excluded),
        "timezone": zone_name(spec),
    }


def _exception(value: object) -> str:
    if isinstance(value, str) and len(value) == 10:
        day_number(value, "exdate")
        return value
    return _local_text(value, "exdate")


def _local_text(value: object, key: str) -> str:
    if not isinstance(value, str) or not _LOCAL.fullmatch(value):
        kinds = ", or a date to leave out whole" if key == "exdate" else ""
        raise BadValue(key, value, f"a date and time of the field timezone, such as 2026-01-09T09:00{kinds}")
    wall_micros(value, key)
    if not 1900 <= int(value[:4]) <= 2399:
        raise BadValue(key, value, "a year from 1900 to 2399")
    text = value.upper().replace(" ", "T")
    return text if len(text) == 19 else f"{text}:00"


def _text(value: object) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= MOST_CHARACTERS or not value.isascii():
        raise BadValue("rrule", value, f"an RRULE such as FREQ=MONTHLY;BYDAY=2FR, at most {MOST_CHARACTERS} characters")
    text = value.strip().upper().removeprefix("RRULE:").strip().rstrip(";")
    parts: dict[str, str] = {}
    for part in text.split(";"):
        name, _, given = part.partition("=")
        if name in ("DTSTART", "EXDATE") or "\n" in part:
            raise _refused(value, "give the rule alone; its start and exceptions have the fields dtstart and exdate")
        if name not in _PARTS or name in parts:
            raise _refused(value, f"parts such as FREQ=DAILY, each once, of {', '.join(_PARTS)}; not {part!r}")
        parts[name] = given.replace(" ", "")
    _check_frequency(value, parts)
    for name, given in parts.items():
        _check(value, name, given, parts["FREQ"])
    if "COUNT" in parts and "UNTIL" in parts:
        raise _refused(value, "COUNT or UNTIL, not both")
    _check_positions(value, parts)
    return ";".join(f"{name}={given}" for name, given in parts.items())


def _refused(value: object, allowed: str) -> BadValue:
    return BadValue("rrule", value, allowed)


def _check_frequency(value: str, parts: Mapping[str, str]) -> None:
    if parts.get("FREQ") in _FINER:
        raise _refused(value, "FREQ of DAILY or longer; for a shorter rhythm use a schedule of kind cron or interval")
    if parts.get("FREQ") not in FREQUENCIES:
        raise _refused(value, f"FREQ is required: one of {', '.join(FREQUENCIES)}")


def _check(value: str, name: str, given: str, frequency: str) -> None:
    if name in _NUMBERS or name in _ONE:
        low, high, signed = _NUMBERS.get(name) or _ONE[name]
        numbers = given.split(",") if name in _NUMBERS else [given]
        if not all(re.fullmatch(r"[+-]?\d{1,5}", each, re.ASCII) for each in numbers):
            raise _refused(value, f"{name} is a list of whole numbers" if name in _NUMBERS else f"{name} is a number")
        if not all(low <= (abs(int(each)) if signed else int(each)) <= high for each in numbers):
            ends = f", or -{low} to -{high} from the end" if signed else ""
            raise _refused(value, f"{name} from {low} to {high}{ends}")
    elif name == "WKST" and given not in RULE_WEEKDAYS:
        raise _refused(value, f"WKST is one of {', '.join(RULE_WEEKDAYS)}")
    elif name == "BYDAY":
        _check_days(value, given, frequency)
    elif name == "UNTIL":
        _check_until(value, given)


def _check_days(value: str, given: str, frequency: str) -> None:
    for each in given.split(","):
        found = _DAY.fullmatch(each)
        if found is None or found[1] in ("0", "00", "+0", "-0", "+00", "-00"):
            raise _refused(value, f"BYDAY is a list such as MO,2FR,-1SU, of {', '.join(RULE_WEEKDAYS)}")
        if found[1] and frequency not in ("MONTHLY", "YEARLY"):
            raise _refused(value, f"{each}: only MONTHLY and YEARLY rules number their weekdays")
        if found[1] and abs(int(found[1])) > (5 if frequency == "MONTHLY" else 53):
            raise _refused(value, f"{each}: no {frequency} rule has so many of a weekday")


def _check_until(value: str, given: str) -> None:
    found = _UNTIL.fullmatch(given)
    if found is None:
        raise _refused(value, "UNTIL is a date 20261231, a wall time 20261231T235959, or with a Z in UTC")
    year, month, day, hour, minute, second = found.groups("00")
    try:
        wall_micros(f"{year}-{month}-{day}T{hour}:{minute}:{second}", "rrule")
    except BadValue:
        raise _refused(value, "UNTIL is a date and time that exist") from None


def _check_positions(value: str, parts: Mapping[str, str]) -> None:
    positions = [abs(int(each)) for each in parts["BYSETPOS"].split(",")] if "BYSETPOS" in parts else []
    if len(positions) > _MOST_POSITIONS:
        raise _refused(value, f"at most {_MOST_POSITIONS} numbers in BYSETPOS")
    if parts["FREQ"] == "DAILY" and positions and max(positions) > _times_a_day(parts):
        raise _refused(value, f"BYSETPOS up to {_times_a_day(parts)}: a day has no more times by this rule")


def _times_a_day(parts: Mapping[str, str]) -> int:
    hours, minutes, seconds = (len({*parts.get(name, "").split(",")}) for name in ("BYHOUR", "BYMINUTE", "BYSECOND"))
    return hours * minutes * seconds


def parse(spec: Mapping[str, Any]) -> tuple[RuleSchedule, tuple[str, ...]]:
    """Build the schedule of a canonical spec, with warnings for its writer; BadValue for a rule that never comes."""
    return _parsed(spec["rrule"], spec["dtstart"], tuple(spec["exdate"]), spec["timezone"])


@lru_cache(maxsize=16_384)
def _parsed(rule: str, start: str, exceptions: tuple[str, ...], zone: str) -> tuple[RuleSchedule, tuple[str, ...]]:
    times = tuple(_seconds(each) for each in exceptions if len(each) > 10)
    days = tuple(day_number(each, "exdate") for each in exceptions if len(each) == 10)
    schedule = RuleSchedule(rule, _seconds(start), zone, times, days)
    first = next(wall_times_from(schedule, schedule.first, _YEARS + 1), None)
    if first is None or first >= schedule.first + _YEARS * _YEAR:
        raise _refused(rule, "it has no time in the five years from dtstart; change the rule, dtstart or exdate")
    parts = parts_of(rule)
    if 366 * _times_a_day(parts) > _MOST_A_YEAR:
        _check_number(schedule)
    return schedule, _notes(schedule, parts, first)


def _seconds(text: str) -> int:
    return wall_micros(text, "dtstart") // 1_000_000


def _check_number(schedule: RuleSchedule) -> None:
    for year in range(_YEARS):
        begin = schedule.first + year * _YEAR
        of_year = takewhile((begin + _YEAR).__gt__, wall_times_from(schedule, begin, _YEARS + 1))
        if len(list(islice(of_year, _MOST_A_YEAR + 1))) > _MOST_A_YEAR:
            allowed = f"at most {_MOST_A_YEAR:,} times a year; for more use a schedule of kind cron or interval"
            raise _refused(schedule.rule, allowed)


def _notes(schedule: RuleSchedule, parts: Mapping[str, str], first: int) -> tuple[str, ...]:
    found = []
    until = parts.get("UNTIL", "")
    if len(until) == 8:
        found.append(f"UNTIL={until} ends with the first moment of that day; UNTIL={until}T235959 includes it")
    excluded = schedule.first in schedule.excluded or schedule.first // DAY_SECONDS in schedule.excluded_days
    if first != schedule.first and not excluded:
        found.append("dtstart is no occurrence: the rule does not match it")
    return tuple(found)
