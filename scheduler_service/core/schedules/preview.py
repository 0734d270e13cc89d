"""Preview: the next occurrences of a schedule as a person reads them, with the effect of clock changes on each."""

from dataclasses import dataclass

import numpy as np

from itinerary.protocol.instants import SECOND, Instant, format_instant
from scheduler_service.core.schedules.closed import ClosedSchedule
from scheduler_service.core.schedules.days import Dates
from scheduler_service.core.schedules.kinds import RuleSchedule, Schedule, UnionSchedule, WallSchedule, zone_of
from scheduler_service.core.schedules.recurrence import wall_times_from
from scheduler_service.core.schedules.stepping import count, upcoming
from scheduler_service.core.schedules.wall_times import WallTimes, times_of_day
from scheduler_service.core.schedules.zones import DAY_SECONDS, offset_at, passes_of


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One planned instant, its wall time and offset in the schedule's zone, and a note on the clocks."""

    at: Instant
    local: str
    offset: str
    dst: str | None


def preview(
    schedule: Schedule,
    after: Instant,
    count: int,
    *,
    start_at: Instant | None = None,
    end_at: Instant | None = None,
) -> list[Occurrence]:
    """Return the next `count` occurrences strictly after `after`; fewer if the schedule ends."""
    found = upcoming(schedule, after, count, start_at=start_at, end_at=end_at)
    return [occurrence(schedule, at) for at in found]


def occurrence(schedule: Schedule, at: Instant) -> Occurrence:
    """Format one occurrence of a schedule in its zone."""
    name = zone_of(schedule)
    offset = offset_at(name, at // SECOND)
    local = format_instant(at + offset * SECOND).removesuffix("Z")
    return Occurrence(at, local, _offset_text(offset), _note(schedule, name, at // SECOND, offset))


def _offset_text(offset: int) -> str:
    sign, size = ("-" if offset < 0 else "+"), abs(offset)
    text = f"{sign}{size // 3600:02d}:{size // 60 % 60:02d}"
    return f"{text}:{size % 60:02d}" if size % 60 else text


def _note(schedule: Schedule, name: str, second: int, offset: int) -> str | None:
    if isinstance(schedule, ClosedSchedule):
        return None if second * SECOND in schedule.also else _note(schedule.fires, name, second, offset)
    if isinstance(schedule, UnionSchedule):
        schedule = _member_at(schedule, second)
        name, offset = zone_of(schedule), offset_at(zone_of(schedule), second)
    if not _is_own(schedule, second + offset):
        return f"gap: moved to {format_instant((second + offset) * SECOND)[11:16]}"
    which, passes = passes_of(name, second)
    if passes == 1:
        return None
    return "fold: first pass" if which == 1 else "fold: second pass"


def _is_own(schedule: Schedule, wall: int) -> bool:
    """Whether a schedule fires at the wall time that it names (seconds), not at the end of a gap in its place."""
    if isinstance(schedule, RuleSchedule):
        return next(wall_times_from(schedule, wall, 2), None) == wall
    return not isinstance(schedule, WallSchedule) or _means(schedule.wall, wall)


def _member_at(union: UnionSchedule, second: int) -> Schedule:
    """Return the first member that fires in this second."""
    start = second * SECOND
    return next((member for member in union.of if count(member, start, start + SECOND)), union.of[0])


def _means(wall: WallTimes, local: int) -> bool:
    """Whether a schedule names this wall time (seconds)."""
    day, time = divmod(local, DAY_SECONDS)
    return bool(wall.days.matches(Dates.of(np.asarray([day])))[0] and time in times_of_day(wall.blocks))
