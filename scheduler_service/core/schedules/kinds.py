"""The kinds of schedule, as small immutable values; equal ones share their parts.

A schedule holds times only: bounds, jitter, misfire and overlap belong to the job. Wall-time kinds carry a `WallTimes`,
the others plain instants. Only `parse_schedule` creates them.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, TypeVar

from itinerary.protocol.instants import SECOND, Duration, Instant
from scheduler_service.core.schedules.closed import ClosedSchedule
from scheduler_service.core.schedules.wall_times import WallTimes
from scheduler_service.core.schedules.zones import LAST_SECOND

UNPLACED: Final[Instant] = LAST_SECOND * SECOND
"""The first occurrence of a balanced interval that has no place yet: the end of all calendars."""


@dataclass(frozen=True, slots=True)
class CronSchedule:
    """A cron line in a zone; `expr` is the saved line, in this service's dialect."""

    expr: str
    wall: WallTimes


@dataclass(frozen=True, slots=True)
class HourlySchedule:
    """Once an hour of elapsed time, whenever the zone's clocks show this minute."""

    minute: int
    wall: WallTimes


@dataclass(frozen=True, slots=True)
class CalendarSchedule:
    """Every N days, weeks or months, at times of day (seconds since midnight)."""

    times: tuple[int, ...]
    wall: WallTimes


@dataclass(frozen=True, slots=True)
class IntervalSchedule:
    """`first`, and every `every` after it in elapsed time; the zone is only for showing it."""

    every: Duration
    first: Instant
    zone: str
    balanced: bool = False
    pinned: bool = False

    def placed(self, at: Instant) -> "IntervalSchedule":
        """Return the same rhythm with an occurrence at `at`, the phase that the placement chose."""
        return replace(self, first=at)


@dataclass(frozen=True, slots=True)
class OnceSchedule:
    """One instant."""

    at: Instant


@dataclass(frozen=True, slots=True)
class SolarSchedule:
    """An event of the sun at a place in degrees, on each day that has it; the zone is only for showing it."""

    event: str
    latitude: float
    longitude: float
    zone: str


@dataclass(frozen=True, slots=True)
class WindowSchedule:
    """An interval that counts anew at each opening of a daily window, and ends where the window closes.

    `opens` and `closes` are seconds of the opening's day; a window over midnight closes after the day's 86,400.
    """

    every: Duration
    offset: Duration
    weekdays: int
    opens: int
    closes: int
    zone: str


@dataclass(frozen=True, slots=True)
class RuleSchedule:
    """A recurrence rule of RFC 5545 from the wall time `first` (seconds), without the excluded times and days."""

    rule: str
    first: int
    zone: str
    excluded: tuple[int, ...] = ()
    excluded_days: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class UnionSchedule:
    """Every time of its members, each time once."""

    of: "tuple[SimpleSchedule, ...]"


WallSchedule = CronSchedule | HourlySchedule | CalendarSchedule
SimpleSchedule = WallSchedule | IntervalSchedule | WindowSchedule | OnceSchedule | SolarSchedule | RuleSchedule
OwnSchedule = SimpleSchedule | UnionSchedule
"""A schedule as a job says it."""
Schedule = OwnSchedule | ClosedSchedule


_Kind = TypeVar("_Kind", bound=Schedule)


def _sharing() -> Callable[[_Kind], _Kind]:
    """Return what gives one object for all schedules of one kind that are equal.

    So a million jobs stay small and are expanded together.
    """

    @lru_cache(maxsize=65_536)
    def shared(schedule: _Kind) -> _Kind:
        return schedule

    return shared


shared_interval: Final[Callable[[IntervalSchedule], IntervalSchedule]] = _sharing()
shared_calendar: Final[Callable[[CalendarSchedule], CalendarSchedule]] = _sharing()
shared_window: Final[Callable[[WindowSchedule], WindowSchedule]] = _sharing()
shared_union: Final[Callable[[UnionSchedule], UnionSchedule]] = _sharing()


def zone_of(schedule: Schedule) -> str:
    """Return the zone in which a schedule is shown."""
    match schedule:
        case CronSchedule() | HourlySchedule() | CalendarSchedule():
            return schedule.wall.zone
        case IntervalSchedule() | WindowSchedule() | SolarSchedule() | RuleSchedule():
            return schedule.zone
        case OnceSchedule():
            return "UTC"
        case UnionSchedule():
            zones = {zone_of(member) for member in schedule.of}
            return zones.pop() if len(zones) == 1 else "UTC"
        case ClosedSchedule():
            return zone_of(schedule.own)
