"""The wall times of a recurrence rule (RFC 5545), by python-dateutil, walked within bounds.

dateutil walks to the year 9999 where a rule matches nothing. The Gregorian calendar repeats after 400 years, weekdays
included, so every walk is made in the last 800 years before 9999, and is short. Without COUNT it begins just before
the asked time, at a period of the rule; defaults that follow from the start are written out before.
"""

from collections.abc import Iterator
from datetime import date, datetime, timedelta
from functools import lru_cache
from importlib import import_module
from itertools import takewhile
from typing import Any, Final, NamedTuple

from itinerary.protocol.instants import SECOND, Instant
from scheduler_service.core.schedules.days import CYCLE_DAYS, CYCLE_YEARS
from scheduler_service.core.schedules.kinds import RuleSchedule
from scheduler_service.core.schedules.zones import DAY_SECONDS

RULE_WEEKDAYS: Final = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
_EPOCH: Final = date(1970, 1, 1).toordinal()
_LAST_YEAR: Final = 9_999
_DAY_PARTS: Final = ("BYWEEKNO", "BYYEARDAY", "BYMONTHDAY", "BYDAY")


class Rule(NamedTuple):
    """A rule for dateutil: all its defaults are written out, and its end is kept apart."""

    text: str
    frequency: str
    interval: int
    week_start: int
    has_count: bool
    last_wall: int | None
    last_instant: Instant | None
    """The end of a rule whose UNTIL is in UTC."""


def parts_of(rule: str) -> dict[str, str]:
    """Return the parts of a canonical rule by name."""
    return dict(part.split("=", 1) for part in rule.split(";"))


def wall_times_from(schedule: RuleSchedule, low: int, years: int = CYCLE_YEARS) -> Iterator[int]:
    """Yield the rule's wall times (seconds) from `low` on, ascending, without the excluded ones, for years at least.

    The fewer years are wanted, the sooner a walk ends that finds nothing more.
    """
    rule = rule_of(schedule.rule, schedule.first)
    begin = _beginning(rule, schedule.first, low)
    day, time = divmod(begin, DAY_SECONDS)
    shift = CYCLE_DAYS * ((_LAST_YEAR - years - _date(max(day, low // DAY_SECONDS)).year) // CYCLE_YEARS)
    start = datetime.fromordinal(day + _EPOCH + shift) + timedelta(seconds=time)
    dateutil: Any = import_module("dateutil.rrule")  # here, as few installations have such jobs
    found = dateutil.rrulestr(rule.text, dtstart=start)
    walls: Iterator[int] = (_wall(each) - shift * DAY_SECONDS for each in found)
    if rule.last_wall is not None:
        walls = takewhile(rule.last_wall.__ge__, walls)
    times, days = frozenset(schedule.excluded), frozenset(schedule.excluded_days)
    yield from (wall for wall in walls if wall >= low and wall not in times and wall // DAY_SECONDS not in days)


def hours_of(schedule: RuleSchedule) -> set[int]:
    """Return the hours of the day at which the rule may fire."""
    return {int(hour) for hour in parts_of(rule_of(schedule.rule, schedule.first).text)["BYHOUR"].split(",")}


@lru_cache(maxsize=16_384)
def rule_of(text: str, first: int) -> Rule:
    """Read a canonical rule that starts at the wall time `first`."""
    parts, start = parts_of(text), datetime.fromordinal(_EPOCH) + timedelta(seconds=first)
    last_wall, last_instant = _end(parts.pop("UNTIL", None))
    whole = {"WKST": "MO", **_days(parts, start), **_times(start), **parts}
    return Rule(
        text=";".join(f"{name}={value}" for name, value in whole.items()),
        frequency=parts["FREQ"],
        interval=int(parts.get("INTERVAL", 1)),
        week_start=RULE_WEEKDAYS.index(whole["WKST"]),
        has_count="COUNT" in parts,
        last_wall=last_wall,
        last_instant=last_instant,
    )


def _days(parts: dict[str, str], start: datetime) -> dict[str, str]:
    """Return the parts that a rule without days takes from its start."""
    if any(name in parts for name in _DAY_PARTS):
        return {}
    match parts["FREQ"]:
        case "YEARLY":
            return {"BYMONTH": str(start.month), "BYMONTHDAY": str(start.day)}
        case "MONTHLY":
            return {"BYMONTHDAY": str(start.day)}
        case "WEEKLY":
            return {"BYDAY": RULE_WEEKDAYS[start.weekday()]}
        case _:
            return {}


def _times(start: datetime) -> dict[str, str]:
    return {"BYHOUR": str(start.hour), "BYMINUTE": str(start.minute), "BYSECOND": str(start.second)}


def _end(until: str | None) -> tuple[int | None, Instant | None]:
    """Return the last wall time, and the last instant where UNTIL is in UTC."""
    if until is None:
        return None, None
    wall = _wall(datetime.fromisoformat(until.removesuffix("Z")))
    return (wall + DAY_SECONDS, wall * SECOND) if until.endswith("Z") else (wall, None)


def _beginning(rule: Rule, first: int, low: int) -> int:
    """Return where a walk may begin that is to find all from `low` on: at `first`, or a whole period before `low`."""
    if rule.has_count or low <= first:
        return first
    before, after = first // DAY_SECONDS, low // DAY_SECONDS
    match rule.frequency:
        case "DAILY":
            skipped = (after - before) // rule.interval - 1
            day = before + skipped * rule.interval
        case "WEEKLY":
            week = before - (before + 3 - rule.week_start) % 7
            skipped = (after - week) // (7 * rule.interval) - 1
            day = week + skipped * 7 * rule.interval
        case frequency:
            months = rule.interval * (12 if frequency == "YEARLY" else 1)
            month = _month(before) if frequency == "MONTHLY" else 12 * _date(before).year
            skipped = (_month(after) - month) // months - 1
            year, number = divmod(month + skipped * months, 12)
            day = date(year, number + 1, 1).toordinal() - _EPOCH if skipped > 0 else 0
    return day * DAY_SECONDS if skipped > 0 else first


def _date(day: int) -> date:
    return date.fromordinal(day + _EPOCH)


def _month(day: int) -> int:
    return 12 * _date(day).year + _date(day).month - 1


def _wall(moment: datetime) -> int:
    return (moment.toordinal() - _EPOCH) * DAY_SECONDS + moment.hour * 3600 + moment.minute * 60 + moment.second
