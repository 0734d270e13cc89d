"""Why a calendar closes a job: which calendar, by which of its names, and which days move where. For people.

The arrays of core.calendars.times decide what fires; this names the rule behind one instant or one day.
"""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Final, NamedTuple

import numpy as np

from itinerary.protocol.instants import SECOND, Instant
from scheduler_service.core.calendars.closing import Applied, closing_of, with_workdays
from scheduler_service.core.calendars.model import Compiled, JobCalendars, Weekly
from scheduler_service.core.schedules.days import Dates
from scheduler_service.core.schedules.kinds import OwnSchedule, WallSchedule
from scheduler_service.core.schedules.moved_days import NOWHERE, MovedDays
from scheduler_service.core.schedules.schedule import ClosedSchedule, Schedule
from scheduler_service.core.schedules.stepping import parts
from scheduler_service.core.schedules.zones import DAY_SECONDS, offset_at

MOST_CANDIDATES: Final = 100_000


class Reason(NamedTuple):
    """The calendar that closes a job, and the name of its rule; `open_only`: the job is open only in these."""

    calendars: tuple[str, ...]
    name: str = ""
    open_only: bool = False

    def __str__(self) -> str:
        named = f"calendar{'s' if len(self.calendars) > 1 else ''} {' and '.join(self.calendars)}"
        if self.open_only:
            return f"outside {named}"
        return f"in {named} ({self.name})" if self.name else f"in {named}"


class LeftOut(NamedTuple):
    """An occurrence of the job's own schedule that calendars leave out, or the day to which they move it."""

    at: Instant
    because: Reason
    moved_to: int | None = None


class MovedFrom(NamedTuple):
    """A day for which a run on another day stands."""

    day: int
    because: Reason


def closed_at(by: Applied, at: Instant) -> Reason | None:
    """Return why a job is closed at an instant; None if it is open."""
    return _reason(by.calendars, {one: _name_at(by.compiled[one], at) for one in by.calendars.ids})


def closed_on(by: Applied, day: int) -> Reason | None:
    """Return why a job is closed on a whole day; None if it is open."""
    return _reason(by.calendars, {one: _name_on(by.compiled[one], day) for one in by.calendars.ids})


def left_out(schedule: Schedule, start: Instant, end: Instant, most: int) -> list[LeftOut]:
    """Return the first `most` occurrences of [start, end) that calendars leave out or move, of 100,000 candidates."""
    if not isinstance(schedule, ClosedSchedule) or not isinstance(schedule.by, Applied):
        return []
    return list(islice(_left_out(schedule.own, schedule.by, start, end), most))


def _left_out(own: OwnSchedule, by: Applied, start: Instant, end: Instant) -> Iterator[LeftOut]:
    closing = closing_of(by.calendars, by.compiled)
    own, seen = with_workdays(own, closing), 0
    for part in parts(own, start, end):
        if closing.times is not None:
            closed = part[closing.times.closed(part)].tolist()
            yield from (LeftOut(at, reason) for at in closed if (reason := closed_at(by, at)) is not None)
        if closing.days is not None and isinstance(own, WallSchedule):
            moved = MovedDays(own.wall.days, closing.days, closing.back)
            for at in part.tolist():
                day = local_day(own.wall.zone, at)
                if (reason := closed_on(by, day)) is not None:
                    to = int(moved.targets(day, day)[0])
                    yield LeftOut(at, reason, None if to == NOWHERE else to)
        seen += part.size
        if seen > MOST_CANDIDATES:
            return


def moved_from(schedule: Schedule, at: Instant) -> list[MovedFrom]:
    """Return the other days for which the run of an instant stands."""
    if not isinstance(schedule, ClosedSchedule) or not isinstance(schedule.by, Applied):
        return []
    if not isinstance(schedule.fires, WallSchedule) or not isinstance(schedule.fires.wall.days, MovedDays):
        return []
    days, day = schedule.fires.wall.days, local_day(schedule.fires.wall.zone, at)
    sources = np.asarray(sorted(days.sources(day, day).get(day, ())), dtype=np.int64)
    meant = sources[days.days.matches(Dates.of(sources))].tolist()
    return [MovedFrom(one, reason) for one in meant if (reason := closed_on(schedule.by, one)) is not None]


def local_day(zone: str, at: Instant) -> int:
    """Return the number of the day that a zone's clocks show at an instant."""
    second = at // SECOND
    return (second + offset_at(zone, second)) // DAY_SECONDS


def _reason(calendars: JobCalendars, names: Mapping[str, str | None]) -> Reason | None:
    for one in calendars.exclude:
        if (name := names[one]) is not None:
            return Reason((one,), name)
    if calendars.only and all(names[one] is None for one in calendars.only):
        return Reason(calendars.only, open_only=True)
    return None


def _name_at(compiled: Compiled, at: Instant) -> str | None:
    """Return the name of the rule that an instant is in, perhaps empty; None if it is in none."""
    second = at // SECOND
    day, time = divmod(second + offset_at(compiled.timezone, second), DAY_SECONDS)
    names = [days.name for days in compiled.days if days.first <= day <= days.last]
    names += [span.name for span in compiled.spans if span.start <= at < span.end]
    names += [rule.name for rule in compiled.weekly if _is_in(rule, day, time)]
    return _first(names)


def _name_on(compiled: Compiled, day: int) -> str | None:
    names = [days.name for days in compiled.days if days.first <= day <= days.last]
    names += [rule.name for rule in compiled.weekly if rule.start == rule.end == 0 and _is_on(rule, day)]
    return _first(names)


def _first(names: list[str]) -> str | None:
    """Return the first name that says something."""
    return next((name for name in names if name), "") if names else None


def _is_in(rule: Weekly, day: int, time: int) -> bool:
    if rule.end > rule.start:
        return _is_on(rule, day) and rule.start <= time < rule.end
    return (_is_on(rule, day) and time >= rule.start) or (_is_on(rule, day - 1) and time < rule.end)


def _is_on(rule: Weekly, day: int) -> bool:
    return bool(rule.days >> (day + 4) % 7 & 1)
