"""The year of a schedule as a picture: a square for each day of the coming year, darker where more runs are. Pure."""

from dataclasses import dataclass
from datetime import date, timedelta
from itertools import groupby
from typing import Final

from itinerary.protocol.instants import SECOND, Instant
from scheduler_service.core.schedules.schedule import Schedule, own_schedule, zone_of
from scheduler_service.core.schedules.stepping import counts_between
from scheduler_service.core.schedules.zones import DAY_SECONDS, first_instant_from, offset_at

_WEEKS: Final = 53
_WEEKS_A_BAND: Final = 27
_LINES_A_BAND: Final = 8
_LEVELS: Final = 4
_MOST_RUNS: Final = 600_000  # one a minute; more would take seconds to count
_EPOCH: Final = date(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class DaySquare:
    """One day: its column and line, its colour from 0 for none, whether calendars leave it out, and its text."""

    column: int
    line: int
    level: int
    is_left_out: bool
    text: str


@dataclass(frozen=True, slots=True)
class YearPicture:
    """The coming year in two bands, a column a week from Monday down; `months` are names with column and line."""

    days: tuple[DaySquare, ...]
    months: tuple[tuple[str, int, int], ...]
    columns: int
    lines: int
    text: str


def year_picture(schedule: Schedule, now: Instant) -> YearPicture | None:
    """Draw the runs of each day from today on, in the schedule's zone; None if there are too many to count."""
    zone = zone_of(schedule)
    today = (now // SECOND + offset_at(zone, now // SECOND)) // DAY_SECONDS
    monday = today - (today + 3) % 7
    numbers = range(today, monday + 7 * _WEEKS)
    edges = [first_instant_from(zone, number * DAY_SECONDS) * SECOND for number in (*numbers, numbers.stop)]
    counts = counts_between(schedule, [now + 1, *edges[1:]], _MOST_RUNS)
    if counts is None:
        return None
    own = own_schedule(schedule)
    meant = counts if own is schedule else counts_between(own, [now + 1, *edges[1:]], _MOST_RUNS) or counts
    dates = [_EPOCH + timedelta(number) for number in numbers]
    some = sorted({found for found in counts if found})
    days = [
        DaySquare(*_place(number - monday), level(found, some), found == 0 < own_found, day_text(day, found, own_found))
        for number, day, found, own_found in zip(numbers, dates, counts, meant, strict=True)
    ]
    firsts = [next(same) for _, same in groupby(zip(numbers, dates, strict=True), key=_month)]
    months = [(f"{day:%b}", *_place(number - (number + 3) % 7 - monday)) for number, day in firsts[1:]]
    return YearPicture(tuple(days), tuple(months), _WEEKS_A_BAND, 2 * _LINES_A_BAND, _summary(counts))


def _month(dated: tuple[int, date]) -> tuple[int, int]:
    return dated[1].year, dated[1].month


def _place(days: int) -> tuple[int, int]:
    """Return column and line of a day, counted from the first Monday; the names of months stand above each band."""
    band, column = divmod(days // 7, _WEEKS_A_BAND)
    return column, 1 + band * _LINES_A_BAND + days % 7


def level(found: int, some: list[int]) -> int:
    """Return the colour of a day among the counts that occur: the same everywhere is a middle one."""
    if not found:
        return 0
    low, high = some[0], some[-1]
    return 3 if low == high else 1 + _LEVELS * (found - low) // (high - low)


def day_text(day: date, found: int, meant: int) -> str:
    left_out = ", left out by calendars" if found == 0 < meant else ""
    return f"{day:%a} {day.day} {day:%b %Y}: {found or 'no'} {'run' if found == 1 else 'runs'}{left_out}"


def _summary(counts: list[int]) -> str:
    days = sum(found > 0 for found in counts)
    if not days:
        return "No runs in the coming year."
    runs = f"{sum(counts):,} {'run' if sum(counts) == 1 else 'runs'}"
    return f"{runs} on {days} {'day' if days == 1 else 'days'} of the coming year."
