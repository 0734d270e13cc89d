"""A roster: the entries of many jobs as arrays, grouped by clock and by distinct schedule.

Made once per set of jobs and used for every window after it: text became masks when a job was saved,
masks become rows here, and equal schedules share a row. Entries are ordered by job id, so that a walk
in time order is already ordered by (time, job id). An entry that cannot be used is named in `failures`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final, NamedTuple, assert_never

import numpy as np
from numpy.typing import NDArray

from scheduler_service.core.clock_rules import ClockRule
from scheduler_service.core.days import DayPattern, Days
from scheduler_service.core.errors import ItineraryError
from scheduler_service.core.instants import Instant
from scheduler_service.core.schedule_kinds import (
    CalendarSchedule,
    CronSchedule,
    HourlySchedule,
    IntervalSchedule,
    OnceSchedule,
    Schedule,
)
from scheduler_service.core.wall_times import Clockwork, WallTimes
from scheduler_service.core.zones import zone

Ints = NDArray[np.int64]
Positions = NDArray[np.int32]
ON_THE_MINUTE: Final = 1


class Entry(NamedTuple):
    """One job's schedule, valid for occurrences in [start, end); a job may have one entry per version."""

    ordinal: int
    job_id: str
    schedule: Schedule
    start: Instant
    end: Instant


@dataclass(frozen=True, slots=True)
class Group:
    """The rows [first, last) whose schedules live in one zone under one clock rule."""

    zone: str
    rule: ClockRule
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Rows:
    """Distinct wall-time schedules as columns; one row is one block of hours and minutes."""

    groups: tuple[Group, ...]
    hours: NDArray[np.uint32]
    minutes: NDArray[np.uint64]
    days: NDArray[np.uint32]
    months: NDArray[np.uint16]
    weekdays: NDArray[np.uint8]
    either: NDArray[np.bool_]
    special: tuple[tuple[Days, Ints], ...]
    """Days that no mask can hold, with their rows."""
    seconds: NDArray[np.uint64]
    on_minute: NDArray[np.bool_]
    walls: tuple[WallTimes, ...]


@dataclass(frozen=True, slots=True)
class Roster:
    """All that expansion needs to know of the jobs, position by position in order of job id."""

    ordinals: Positions
    starts: Ints
    ends: Ints
    rows: Rows
    minute_entries: Positions
    """Positions of the wall-time entries on whole minutes, and, beside it, the row of each."""
    minute_rows: Positions
    second_entries: Positions
    second_rows: Positions
    several_rows: bool
    """Whether an entry has more than one row, so that one instant may be named twice."""
    interval_entries: Positions
    interval_firsts: Ints
    interval_everys: Ints
    once_entries: Positions
    once_at: Ints
    failures: tuple[tuple[int, str], ...]

    @property
    def wall_entries(self) -> tuple[tuple[Positions, Positions], ...]:
        """Positions of wall-time entries, with their rows."""
        return (self.minute_entries, self.minute_rows), (self.second_entries, self.second_rows)

    @classmethod
    def of(cls, entries: Sequence[Entry]) -> "Roster":
        """The roster of these entries; entries that cannot be used are listed in `failures`."""
        draft = _Draft()
        ordered = sorted(entries, key=attrgetter("job_id"))
        for position, entry in enumerate(ordered):
            try:
                draft.add(position, entry.schedule)
            except (ItineraryError, TypeError, ValueError, AttributeError, AssertionError, KeyError) as exc:
                draft.failures.append((entry.ordinal, f"{type(exc).__name__}: {exc}"))
        return draft.finished(ordered)


class _Draft:
    """A roster while its entries are being read."""

    def __init__(self) -> None:
        self.rows_of: dict[int, list[tuple[int, bool]]] = {}
        self.walls: list[WallTimes] = []
        self.blocks: list[Clockwork] = []
        self.begins: list[tuple[int, Instant]] = []
        self.minute: list[tuple[int, int]] = []
        self.second: list[tuple[int, int]] = []
        self.intervals: list[tuple[int, int, int]] = []
        self.once: list[tuple[int, int]] = []
        self.failures: list[tuple[int, str]] = []

    def add(self, position: int, schedule: Schedule) -> None:
        match schedule:
            case CronSchedule() | HourlySchedule() | CalendarSchedule():
                self._add_wall(position, schedule.wall)
            case IntervalSchedule():
                self.intervals.append((position, schedule.first, schedule.every))
            case OnceSchedule():
                self.once.append((position, schedule.at))
            case _:
                assert_never(schedule)

    def _add_wall(self, position: int, wall: WallTimes) -> None:
        rows = self.rows_of.get(id(wall))
        if rows is None:
            rows = self._new_rows(wall)
        for row, on_minute in rows:
            (self.minute if on_minute else self.second).append((position, row))
        if wall.not_before is not None:
            self.begins.append((position, wall.not_before))

    def _new_rows(self, wall: WallTimes) -> list[tuple[int, bool]]:
        zone(wall.zone)
        rows = [(row, block.seconds == ON_THE_MINUTE) for row, block in enumerate(wall.blocks, len(self.blocks))]
        self.walls += [wall] * len(wall.blocks)
        self.blocks += wall.blocks
        self.rows_of[id(wall)] = rows
        return rows

    def _starts(self, ordered: Sequence[Entry]) -> Ints:
        starts = np.fromiter((e.start for e in ordered), dtype=np.int64, count=len(ordered))
        for position, instant in self.begins:
            starts[position] = max(starts[position], instant)
        return starts

    def finished(self, ordered: Sequence[Entry]) -> Roster:
        order = sorted(range(len(self.walls)), key=lambda n: _clock_key(self.walls[n]))
        place = np.empty(len(order), dtype=np.int32)
        place[order] = np.arange(len(order), dtype=np.int32)
        minute, second = _columns(self.minute, 2), _columns(self.second, 2)
        intervals, once = _columns(self.intervals, 3), _columns(self.once, 2)
        return Roster(
            ordinals=np.fromiter((e.ordinal for e in ordered), dtype=np.int32, count=len(ordered)),
            starts=self._starts(ordered),
            ends=np.fromiter((e.end for e in ordered), dtype=np.int64, count=len(ordered)),
            rows=_rows([self.walls[n] for n in order], [self.blocks[n] for n in order]),
            minute_entries=minute[0].astype(np.int32),
            minute_rows=place[minute[1]],
            second_entries=second[0].astype(np.int32),
            second_rows=place[second[1]],
            several_rows=any(len(rows) > 1 for rows in self.rows_of.values()),
            interval_entries=intervals[0].astype(np.int32),
            interval_firsts=intervals[1],
            interval_everys=intervals[2],
            once_entries=once[0].astype(np.int32),
            once_at=once[1],
            failures=tuple(self.failures),
        )


def _columns(rows: Iterable[tuple[int, ...]], width: int) -> Ints:
    table = np.asarray(list(rows), dtype=np.int64).reshape(-1, width)
    return np.ascontiguousarray(table.T)


def _clock_key(wall: WallTimes) -> tuple[Any, ...]:
    return wall.zone, wall.rule.wildcard, wall.rule.gap, wall.rule.fold


def _rows(walls: list[WallTimes], blocks: list[Clockwork]) -> Rows:
    masks = [w.days if isinstance(w.days, DayPattern) else _ANY_DAY for w in walls]
    return Rows(
        groups=_groups(walls),
        hours=np.asarray([b.hours for b in blocks], dtype=np.uint32),
        minutes=np.asarray([b.minutes for b in blocks], dtype=np.uint64),
        days=np.asarray([d.days for d in masks], dtype=np.uint32),
        months=np.asarray([d.months for d in masks], dtype=np.uint16),
        weekdays=np.asarray([d.weekdays for d in masks], dtype=np.uint8),
        either=np.asarray([d.either for d in masks], dtype=np.bool_),
        special=_special(walls),
        seconds=np.asarray([b.seconds for b in blocks], dtype=np.uint64),
        on_minute=np.asarray([b.seconds == ON_THE_MINUTE for b in blocks], dtype=np.bool_),
        walls=tuple(walls),
    )


def _special(walls: list[WallTimes]) -> tuple[tuple[Days, Ints], ...]:
    by_days: dict[int, list[int]] = {}
    for row, wall in enumerate(walls):
        if not wall.days.simple:
            by_days.setdefault(id(wall.days), []).append(row)
    return tuple((walls[rows[0]].days, np.asarray(rows)) for rows in by_days.values())


# A calendar's days are looked up one by one; this stands in its row.
_ANY_DAY: Final = DayPattern(days=0, months=0, weekdays=0, either=False)


def _groups(walls: list[WallTimes]) -> tuple[Group, ...]:
    cuts = [n for n in range(len(walls)) if n == 0 or _clock_key(walls[n]) != _clock_key(walls[n - 1])]
    ends = [*cuts[1:], len(walls)] if walls else []
    pairs = zip(cuts, ends, strict=True)
    return tuple(Group(walls[a].zone, walls[a].rule, a, b) for a, b in pairs)
