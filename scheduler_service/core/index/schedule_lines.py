"""The distinct schedules of a schedule table, each read once into a line of numbers.

A union has a line that names those of its members, which stand behind the lines of all schedules. A schedule that
cannot be read has a line that names the reason.
"""

from collections.abc import Sequence
from itertools import chain
from typing import Final, assert_never

import numpy as np
from numpy.typing import NDArray

from itinerary.protocol.errors import ItineraryError
from itinerary.protocol.instants import Instant
from scheduler_service.core.index.schedule_rows import Rows, clock_key
from scheduler_service.core.schedules.closed import ClosedSchedule
from scheduler_service.core.schedules.kinds import (
    CalendarSchedule,
    CronSchedule,
    HourlySchedule,
    IntervalSchedule,
    OnceSchedule,
    RuleSchedule,
    Schedule,
    SimpleSchedule,
    SolarSchedule,
    UnionSchedule,
    WindowSchedule,
)
from scheduler_service.core.schedules.wall_times import Clockwork, WallTimes
from scheduler_service.core.schedules.zones import zone

Ints = NDArray[np.int64]
Positions = NDArray[np.int32]
WALL, INTERVAL, ONCE, SINGLE, UNION, FAILED = range(6)
"""The kinds of lines, by what their two numbers are: blocks, first and period, instant, place in `singles`, lines of
members, place in `reasons`."""
_Line = tuple[int, int, int, int]
_EVER: Final[Instant] = -(2**63)


class ReadSchedules:
    """The lines of many entries' schedules as columns; `numbers` has each entry's line."""

    def __init__(self, schedules: Sequence[Schedule]) -> None:
        self.singles: list[SimpleSchedule] = []
        self.reasons: list[str] = []
        self.closed: list[ClosedSchedule] = []
        self._members: list[_Line] = []
        self._rows_of: dict[int, tuple[int, int]] = {}
        self._walls: list[WallTimes] = []
        self._blocks: list[Clockwork] = []
        keys = np.fromiter(map(id, schedules), dtype=np.int64, count=len(schedules))
        distinct, firsts, numbers = np.unique(keys, return_index=True, return_inverse=True)
        self.numbers: Positions = numbers.astype(np.int32)
        self._behind = firsts.size
        lines = [self._line(schedules[first]) for first in firsts.tolist()] + self._members
        table = np.fromiter(chain.from_iterable(lines), dtype=np.int64, count=4 * len(lines))
        # The lines of the schedules that calendars close, in the order of `closed`.
        self.closed_lines = np.searchsorted(distinct, [id(each) for each in self.closed])
        self.kinds, self.first, self.second, self.begins = table.reshape(-1, 4).T

    def _line(self, schedule: Schedule) -> _Line:
        """The schedule's kind, two numbers that depend on the kind, and the instant before which it does not fire."""
        try:
            match schedule:
                case CronSchedule() | HourlySchedule() | CalendarSchedule():
                    wall = schedule.wall
                    first, last = self._rows_of.get(id(wall)) or self._new_rows(wall)
                    return WALL, first, last, _EVER if wall.not_before is None else wall.not_before
                case IntervalSchedule():
                    return INTERVAL, schedule.first, schedule.every, _EVER
                case OnceSchedule():
                    return ONCE, schedule.at, 0, _EVER
                case WindowSchedule() | RuleSchedule():
                    zone(schedule.zone)
                    return self._single(schedule)
                case SolarSchedule():
                    return self._single(schedule)
                case UnionSchedule():
                    first = self._behind + len(self._members)
                    self._members += [self._member(each) for each in schedule.of]
                    return UNION, first, self._behind + len(self._members), _EVER
                case ClosedSchedule():
                    return self._closed(schedule)
                case _:
                    assert_never(schedule)
        except (ItineraryError, TypeError, ValueError, AttributeError, AssertionError, KeyError) as exc:
            self.reasons.append(f"{type(exc).__name__}: {exc}")
            return FAILED, len(self.reasons) - 1, 0, _EVER

    def _closed(self, schedule: ClosedSchedule) -> _Line:
        """The line of what fires before calendars leave out times: beside the schedule, the instants of `also`."""
        line = self._line(schedule.fires)
        self.closed.append(schedule)
        if not schedule.also:
            return line
        first = line[1]
        if line[0] != UNION:
            assert not isinstance(schedule.fires, UnionSchedule)
            first = self._behind + len(self._members)
            self._members.append(self._member(schedule.fires))
        self._members += [(ONCE, at, 0, _EVER) for at in schedule.also]
        return UNION, first, self._behind + len(self._members), _EVER

    def _member(self, schedule: SimpleSchedule) -> _Line:
        """The line of a union's member; an own beginning is not the whole entry's, so such a member is stepped."""
        line = self._line(schedule)
        return line if line[3] == _EVER else self._single(schedule)

    def _single(self, schedule: SimpleSchedule) -> _Line:
        self.singles.append(schedule)
        return SINGLE, len(self.singles) - 1, 0, _EVER

    def _new_rows(self, wall: WallTimes) -> tuple[int, int]:
        zone(wall.zone)
        rows = self._rows_of[id(wall)] = (len(self._blocks), len(self._blocks) + len(wall.blocks))
        self._walls += [wall] * len(wall.blocks)
        self._blocks += wall.blocks
        return rows

    def rows(self) -> tuple[Rows, Positions]:
        """Return the rows, ordered by clock, and the row of each block."""
        order = sorted(range(len(self._walls)), key=lambda n: clock_key(self._walls[n]))
        place = np.empty(len(order), dtype=np.int32)
        place[order] = np.arange(len(order), dtype=np.int32)
        return Rows.of([self._walls[n] for n in order], [self._blocks[n] for n in order]), place
