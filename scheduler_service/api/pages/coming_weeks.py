"""The coming five weeks of a job as a small calendar: each day with its number of runs. Pure."""

from datetime import date, timedelta
from typing import Final

from itinerary.protocol.instants import SECOND, Instant
from scheduler_service.api.pages.year import DaySquare, day_text, level
from scheduler_service.core.schedules.schedule import Schedule, own_schedule, zone_of
from scheduler_service.core.schedules.stepping import counts_between
from scheduler_service.core.schedules.zones import DAY_SECONDS, first_instant_from, offset_at

_DAYS: Final = 35
_MOST_RUNS: Final = 60_000  # one a minute; more would take long to count
_EPOCH: Final = date(1970, 1, 1)


def coming_weeks(
    schedule: Schedule, now: Instant, after: Instant, until: Instant | None
) -> tuple[tuple[DaySquare, int], ...]:
    """Return the squares of five weeks from this Monday on, each with the day of its month, in the schedule's zone.

    Counts what runs strictly after `after` and before `until`. Empty if there is too much to count.
    """
    zone = zone_of(schedule)
    today = (now // SECOND + offset_at(zone, now // SECOND)) // DAY_SECONDS
    monday = today - (today + 3) % 7
    numbers = range(monday, monday + _DAYS)
    edges = [first_instant_from(zone, number * DAY_SECONDS) * SECOND for number in (*numbers, numbers.stop)]
    bounded = [max(edge, after + 1) if until is None else min(max(edge, after + 1), until) for edge in edges]
    counts = counts_between(schedule, bounded, _MOST_RUNS)
    if counts is None:
        return ()
    own = own_schedule(schedule)
    meant = counts if own is schedule else counts_between(own, bounded, _MOST_RUNS) or counts
    some = sorted({found for found in counts if found})
    squares = []
    for place, (number, found, own_found) in enumerate(zip(numbers, counts, meant, strict=True)):
        day = _EPOCH + timedelta(number)
        text = day_text(day, found, own_found) if number >= today else f"{day:%a} {day.day} {day:%b %Y}: over"
        square = DaySquare(place % 7, place // 7, level(found, some), found == 0 < own_found, text)
        squares.append((square, day.day))
    return tuple(squares)
