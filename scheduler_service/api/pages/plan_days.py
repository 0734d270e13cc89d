"""Days, weeks and months of a zone as instants: a day has 23, 24 or 25 hours, or more by half an hour. Pure."""

from collections.abc import Sequence
from datetime import date, timedelta
from itertools import pairwise
from typing import Final
from zoneinfo import ZoneInfo

from itinerary.protocol.errors import BadValue
from itinerary.protocol.instants import MINUTE, Instant
from scheduler_service.api.pages.time_axis import local, midnight

_HALF: Final = 30 * MINUTE
_FIRST: Final = date(1971, 1, 1)
_LAST: Final = date(9000, 1, 1)


def read_day(text: str) -> date:
    """Read a day such as `2026-12-01`; BadValue."""
    try:
        found = date.fromisoformat(text)
    except ValueError:
        raise BadValue("date", text, "give a day such as 2026-12-01") from None
    if not _FIRST <= found <= _LAST:
        raise BadValue("date", text, f"give a day from {_FIRST} to {_LAST}")
    return found


def days_of_month(day: date) -> list[date]:
    """Return the days of whole weeks, from Monday on, that hold the month of this day."""
    first = day.replace(day=1)
    last = (first + timedelta(31)).replace(day=1) - timedelta(1)
    return days_between(first - timedelta(first.weekday()), last + timedelta(6 - last.weekday()))


def days_of_week(day: date) -> list[date]:
    """Return the days of the week of this day, from Monday on."""
    monday = day - timedelta(day.weekday())
    return days_between(monday, monday + timedelta(6))


def days_from(first: date, number: int) -> list[date]:
    """Return so many days from the first on."""
    return days_between(first, first + timedelta(number - 1))


def days_between(first: date, last: date) -> list[date]:
    """Return the days from the first to the last."""
    return [first + timedelta(n) for n in range((last - first).days + 1)]


def day_edges(days: Sequence[date], zone: ZoneInfo) -> list[Instant]:
    """Return the beginning of each day, and the end of the last one."""
    return [midnight(day, zone) for day in (*days, days[-1] + timedelta(1))]


def hour_edges(days: Sequence[date], zone: ZoneInfo) -> list[Instant]:
    """Return the instants at which clocks show a whole hour, and those at which a day begins, and the end."""
    edges: list[Instant] = []
    for begin, end in pairwise(found := day_edges(days, zone)):
        edges.append(begin)
        edges += [at for at in range(begin + _HALF, end, _HALF) if local(at, zone).minute == 0]
    return [*edges, found[-1]]


def a_month_on(day: date, months: int) -> date:
    """Return the first day of the month so many months later."""
    number = day.year * 12 + day.month - 1 + months
    return date(number // 12, number % 12 + 1, 1)
