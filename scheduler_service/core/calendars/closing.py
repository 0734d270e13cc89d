"""A job's own schedule, closed by compiled calendars: equal sets of calendars share their arrays. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from itinerary.protocol.errors import BadValue
from itinerary.protocol.instants import Instant
from scheduler_service.core.calendars.model import Compiled, JobCalendars
from scheduler_service.core.calendars.times import CalendarTimes, ClosedDays, ClosedTimes
from scheduler_service.core.calendars.workdays import Workdays, counts_workdays
from scheduler_service.core.model import Job
from scheduler_service.core.schedules.days import CalendarDays, DayPattern
from scheduler_service.core.schedules.kinds import OwnSchedule, WallSchedule
from scheduler_service.core.schedules.moved_days import MovedDays
from scheduler_service.core.schedules.schedule import (
    UNPLACED,
    ClosedSchedule,
    IntervalSchedule,
    Schedule,
    next_after,
    own_schedule,
)

_MOST: int = 4_096


@lru_cache(maxsize=_MOST)
def times_of(compiled: Compiled) -> CalendarTimes:
    """Return the instants of a compiled calendar."""
    return CalendarTimes(compiled)


@lru_cache(maxsize=_MOST)
def _closed_times(exclude: tuple[CalendarTimes, ...], only: tuple[CalendarTimes, ...]) -> ClosedTimes:
    return ClosedTimes(exclude, only)


@lru_cache(maxsize=_MOST)
def _closed_days(exclude: tuple[CalendarTimes, ...], only: tuple[CalendarTimes, ...]) -> ClosedDays:
    return ClosedDays(exclude, only)


@lru_cache(maxsize=_MOST)
def _workdays(free: CalendarTimes) -> Workdays:
    return Workdays(free)


@dataclass(frozen=True, slots=True, eq=False)
class Applied:
    """The calendars that a job names, as they are in force: what explains a closed schedule."""

    calendars: JobCalendars
    compiled: Mapping[str, Compiled]


@dataclass(frozen=True, slots=True, eq=False)
class Closing:
    """The effect of calendars on a schedule: times closed, or days closed and moved; and its business days."""

    times: ClosedTimes | None
    days: ClosedDays | None
    back: bool
    workdays: Workdays | None
    by: "Applied"


def closing_of(calendars: JobCalendars, compiled: Mapping[str, Compiled]) -> Closing:
    """Return what these calendars do; each that the job names is among `compiled`."""
    exclude = tuple(times_of(compiled[one]) for one in calendars.exclude)
    only = tuple(times_of(compiled[one]) for one in calendars.only)
    workdays = None if calendars.workdays is None else _workdays(times_of(compiled[calendars.workdays]))
    by = Applied(calendars, compiled)
    if calendars.when_excluded != "skip":
        back = calendars.when_excluded == "previous_day"
        return Closing(None, _closed_days(exclude, only), back, workdays, by)
    times = _closed_times(exclude, only) if exclude or only else None
    return Closing(times, None, False, workdays, by)


def closed(
    own: OwnSchedule, closing: Closing, also: tuple[Instant, ...] = (), never: tuple[Instant, ...] = ()
) -> ClosedSchedule:
    """Return the schedule as its calendars leave it."""
    return ClosedSchedule(own, fires_of(own, closing), closing.times, also, never, closing.by)


def fires_of(own: OwnSchedule, closing: Closing) -> OwnSchedule:
    """Return the schedule on its business days and moved days; itself where calendars only leave out times."""
    counted = with_workdays(own, closing)
    if closing.days is None or not isinstance(counted, WallSchedule):
        return counted
    return replace(counted, wall=replace(counted.wall, days=MovedDays(counted.wall.days, closing.days, closing.back)))


def decides_days(own: OwnSchedule, closing: Closing) -> bool:
    """Whether an edit of the calendars may move days of the schedule."""
    return closing.days is not None or (closing.workdays is not None and counts_workdays(own))


def with_workdays(own: OwnSchedule, closing: Closing) -> OwnSchedule:
    """Return the schedule with W and `workday` counted by its business days."""
    if closing.workdays is None or not isinstance(own, WallSchedule):
        return own
    days = own.wall.days
    if not (counts_workdays(own) and isinstance(days, DayPattern | CalendarDays)):
        return own
    return replace(own, wall=replace(own.wall, days=closing.workdays.of(days)))


def closed_by(schedule: Schedule, calendars: JobCalendars, compiled: Mapping[str, Compiled]) -> ClosedSchedule:
    """Return a schedule as these calendars leave it; each that is named is among `compiled`."""
    return closed(own_schedule(schedule), closing_of(calendars, compiled))


def none_to_come(job: Job, compiled: Mapping[str, Compiled], now: Instant) -> BadValue | None:
    """Return the error of a job whose calendars leave no occurrence in the five years from its first on.

    A job that is deleted, names no calendar or has no place yet has none.
    """
    own = own_schedule(job.schedule)
    if job.calendars is None or job.deleted or (isinstance(own, IntervalSchedule) and own.first == UNPLACED):
        return None
    after = now if job.start_at is None else max(now, job.start_at - 1)
    first = next_after(own, after, end_at=job.end_at)
    if first is None:
        return None
    if next_after(closed_by(own, job.calendars, compiled), first - 1, end_at=job.end_at) is not None:
        return None
    rule = "these calendars leave it no occurrence in five years; open some of its days"
    return BadValue("calendars", ", ".join(job.calendars.ids), rule)
