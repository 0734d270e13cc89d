"""The days of a year that a calendar names, for a grid: which wholly, which in part, and by which names. Pure."""

from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

from itinerary.protocol.instants import DAY, MICROSECOND, SECOND, Instant
from scheduler_service.core.calendars.model import Compiled

_EPOCH: Final = date(1970, 1, 1)
_THURSDAY: Final = 4


class MarkedDay(NamedTuple):
    """A day of the calendar's zone; `whole`: all of its instants belong to the calendar by one rule alone."""

    day: date
    whole: bool
    names: tuple[str, ...]


def days_of_year(compiled: Compiled, year: int) -> list[MarkedDay]:
    """Return the days of this year with an instant of the calendar, in order."""
    first = (date(year, 1, 1) - _EPOCH).days
    last = (date(year, 12, 31) - _EPOCH).days
    whole: set[int] = set()
    names: defaultdict[int, dict[str, None]] = defaultdict(dict)
    for day, name, is_whole in _marks(compiled, first, last):
        if is_whole:
            whole.add(day)
        names[day].update({name: None} if name else {})
    return [MarkedDay(_EPOCH + timedelta(day), day in whole, tuple(names[day])) for day in sorted(names)]


def _marks(compiled: Compiled, first: int, last: int) -> Iterator[tuple[int, str, bool]]:
    for days in compiled.days:
        yield from ((day, days.name, True) for day in range(max(first, days.first), min(last, days.last) + 1))
    zone = ZoneInfo(compiled.timezone)
    low, high = (first - 2) * DAY, (last + 3) * DAY  # beyond, an instant may have no date at all
    for span in compiled.spans:
        if low < span.end and span.start < high:
            begin, end = _local_day(max(low, span.start), zone), _local_day(min(high, span.end) - MICROSECOND, zone)
            yield from ((day, span.name, False) for day in range(max(first, begin), min(last, end) + 1))
    of_weekdays = [{*_of_weekday(compiled, weekday)} for weekday in range(7)]
    for day in range(first, last + 1):
        yield from ((day, name, is_whole) for name, is_whole in sorted(of_weekdays[(day + _THURSDAY) % 7]))


def _of_weekday(compiled: Compiled, weekday: int) -> Iterator[tuple[str, bool]]:
    for weekly in compiled.weekly:
        is_whole = weekly.start == weekly.end == 0
        over_midnight = weekly.end <= weekly.start and not is_whole
        if weekly.days >> weekday & 1:
            yield weekly.name, is_whole
        elif over_midnight and weekly.days >> (weekday - 1) % 7 & 1 and weekly.end:
            yield weekly.name, False


def _local_day(instant: Instant, zone: ZoneInfo) -> int:
    at = datetime.fromtimestamp(instant // SECOND, UTC).astimezone(zone)
    return (at.date() - _EPOCH).days
