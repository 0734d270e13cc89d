"""A schedule table: the entries of many jobs as arrays, grouped by clock and by distinct schedule.

Built once per set of jobs and used for every window after it; after few changes only few entries are read again. Equal
schedules share a row. Entries are ordered by job id, so expansion in time order is already ordered by (time, job id).
`failures` lists entries that cannot be used.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from operator import attrgetter
from typing import Any, Final, NamedTuple, assert_never

import numpy as np
from numpy.typing import NDArray

from itinerary.protocol.errors import ItineraryError
from itinerary.protocol.instants import Instant
from scheduler_service.core.index.schedule_rows import Rows, clock_key
from scheduler_service.core.schedules.kinds import (
    CalendarSchedule,
    CronSchedule,
    HourlySchedule,
    IntervalSchedule,
    OnceSchedule,
    Schedule,
    SolarSchedule,
)
from scheduler_service.core.schedules.wall_times import Clockwork, WallTimes
from scheduler_service.core.schedules.zones import zone

Ints = NDArray[np.int64]
Positions = NDArray[np.int32]
_WALL, _INTERVAL, _ONCE, _SOLAR, _FAILED = range(5)
_EVER: Final[Instant] = -(2**63)
_NEVER: Final[Ints] = np.empty(0, dtype=np.int64)
_NOBODY: Final[Positions] = np.empty(0, dtype=np.int32)


class Entry(NamedTuple):
    """One job's schedule, valid for occurrences in [start, end); a job may have one entry per version."""

    ordinal: int
    job_id: str
    schedule: Schedule
    start: Instant
    end: Instant


@dataclass(frozen=True, slots=True)
class ScheduleTable:
    """Everything that expansion needs of the jobs, position by position in order of job id."""

    ordinals: Positions
    starts: Ints
    ends: Ints
    rows: Rows
    minute_entries: Positions
    """Positions of the wall-time entries on whole minutes; `minute_rows` holds the row of each."""
    minute_rows: Positions
    second_entries: Positions
    second_rows: Positions
    several_rows: bool
    """Whether an entry has more than one row, so that one instant may occur twice."""
    interval_entries: Positions
    interval_firsts: Ints
    interval_everys: Ints
    once_entries: Positions
    once_at: Ints
    solar_entries: Positions
    solar_schedules: NDArray[np.object_]
    failures: tuple[tuple[int, str], ...]

    @property
    def wall_entries(self) -> tuple[tuple[Positions, Positions], ...]:
        """Positions of wall-time entries, with their rows."""
        return (self.minute_entries, self.minute_rows), (self.second_entries, self.second_rows)

    @classmethod
    def of(cls, entries: Sequence[Entry]) -> "ScheduleTable":
        """Build the table of these entries; `failures` lists those that cannot be used."""
        ordered = sorted(entries, key=attrgetter("job_id"))
        size = len(ordered)
        draft = Draft()
        draft.add(
            np.arange(size, dtype=np.int32),
            [entry.schedule for entry in ordered],
            np.fromiter((entry.start for entry in ordered), dtype=np.int64, count=size),
            np.fromiter((entry.end for entry in ordered), dtype=np.int64, count=size),
        )
        found = draft.finished()
        return replace(
            found,
            ordinals=np.fromiter((entry.ordinal for entry in ordered), dtype=np.int32, count=size),
            failures=tuple((ordered[position].ordinal, reason) for position, reason in found.failures),
        )

    def changed(self, numbers: Positions, fresh: "ScheduleTable") -> "ScheduleTable":
        """Renumber this table by `numbers[old]`, drop the entries of negative ordinals, and merge in `fresh`.

        Ordinals ascend in all three. Rows that no entry uses any more stay, and equal rows are not shared.
        """
        renumbered, row = numbers[self.ordinals], np.int32(self.rows.hours.size)
        ordinals, starts, ends, places = _merged(
            (renumbered, self.starts, self.ends, np.arange(self.ordinals.size)),
            (fresh.ordinals, fresh.starts, fresh.ends, np.arange(fresh.ordinals.size) + self.ordinals.size),
        )
        position = np.full(self.ordinals.size + fresh.ordinals.size, -1, dtype=np.int32)
        position[places] = np.arange(places.size, dtype=np.int32)
        mine, its = position[: self.ordinals.size], position[self.ordinals.size :]
        minute_entries, minute_rows = _merged(
            (mine[self.minute_entries], self.minute_rows), (its[fresh.minute_entries], fresh.minute_rows + row)
        )
        second_entries, second_rows = _merged(
            (mine[self.second_entries], self.second_rows), (its[fresh.second_entries], fresh.second_rows + row)
        )
        interval_entries, interval_firsts, interval_everys = _merged(
            (mine[self.interval_entries], self.interval_firsts, self.interval_everys),
            (its[fresh.interval_entries], fresh.interval_firsts, fresh.interval_everys),
        )
        once_entries, once_at = _merged(
            (mine[self.once_entries], self.once_at), (its[fresh.once_entries], fresh.once_at)
        )
        solar_entries, solar_schedules = _merged(
            (mine[self.solar_entries], self.solar_schedules), (its[fresh.solar_entries], fresh.solar_schedules)
        )
        kept = [(int(numbers[ordinal]), reason) for ordinal, reason in self.failures if numbers[ordinal] >= 0]
        return ScheduleTable(
            ordinals=ordinals,
            starts=starts,
            ends=ends,
            rows=self.rows.with_more(fresh.rows),
            minute_entries=minute_entries,
            minute_rows=minute_rows,
            second_entries=second_entries,
            second_rows=second_rows,
            several_rows=self.several_rows or fresh.several_rows,
            interval_entries=interval_entries,
            interval_firsts=interval_firsts,
            interval_everys=interval_everys,
            once_entries=once_entries,
            once_at=once_at,
            solar_entries=solar_entries,
            solar_schedules=solar_schedules,
            failures=tuple(sorted([*kept, *fresh.failures])),
        )


def _merged(mine: Sequence[NDArray[Any]], its: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
    """Merge two tables by their ascending first columns; rows of `mine` whose first is negative are dropped."""
    kept = np.flatnonzero(mine[0] >= 0)
    order = np.insert(kept, np.searchsorted(mine[0][kept], its[0]), np.arange(its[0].size) + mine[0].size)
    return [np.concatenate(columns)[order] for columns in zip(mine, its, strict=True)]


class Draft:
    """A schedule table while its entries are collected in batches; `finished` orders them by ordinal."""

    def __init__(self) -> None:
        self._schedules: list[Schedule] = []
        self._columns: list[tuple[Positions, Ints, Ints]] = [(_NOBODY, _NEVER, _NEVER)]
        self._rows_of: dict[int, tuple[int, int]] = {}
        self._walls: list[WallTimes] = []
        self._blocks: list[Clockwork] = []
        self._solars: list[SolarSchedule] = []
        self._reasons: list[str] = []

    def add(self, ordinals: Positions, schedules: Sequence[Schedule], starts: Ints, ends: Ints) -> None:
        """Add entries as columns; those of one ordinal are adjacent and in order."""
        self._schedules += schedules
        self._columns.append((ordinals, starts, ends))

    def _line(self, schedule: Schedule) -> tuple[int, int, int, int]:
        """The schedule's kind, two numbers that depend on the kind, and the instant before which it does not fire."""
        try:
            match schedule:
                case CronSchedule() | HourlySchedule() | CalendarSchedule():
                    wall = schedule.wall
                    first, last = self._rows_of.get(id(wall)) or self._new_rows(wall)
                    return _WALL, first, last, _EVER if wall.not_before is None else wall.not_before
                case IntervalSchedule():
                    return _INTERVAL, schedule.first, schedule.every, _EVER
                case OnceSchedule():
                    return _ONCE, schedule.at, 0, _EVER
                case SolarSchedule():
                    self._solars.append(schedule)
                    return _SOLAR, len(self._solars) - 1, 0, _EVER
                case _:
                    assert_never(schedule)
        except (ItineraryError, TypeError, ValueError, AttributeError, AssertionError, KeyError) as exc:
            self._reasons.append(f"{type(exc).__name__}: {exc}")
            return _FAILED, len(self._reasons) - 1, 0, _EVER

    def _new_rows(self, wall: WallTimes) -> tuple[int, int]:
        zone(wall.zone)
        rows = self._rows_of[id(wall)] = (len(self._blocks), len(self._blocks) + len(wall.blocks))
        self._walls += [wall] * len(wall.blocks)
        self._blocks += wall.blocks
        return rows

    def finished(self) -> ScheduleTable:
        """Build the table of the added entries."""
        numbers, (kinds, first, second, begins) = self._read()
        ordinals, starts, ends, lines = self._in_order(numbers)
        kind = kinds[lines]
        walls, intervals, once, solar, failed = (
            np.flatnonzero(kind == k) for k in (_WALL, _INTERVAL, _ONCE, _SOLAR, _FAILED)
        )
        rows, place = self._rows()
        entries, blocks = _counted_out(walls, first[lines[walls]], second[lines[walls]])
        of_entries = place[blocks]
        on_minute = rows.on_minute[of_entries]
        return ScheduleTable(
            ordinals=ordinals,
            starts=np.maximum(starts, begins[lines]),
            ends=ends,
            rows=rows,
            minute_entries=entries[on_minute],
            minute_rows=of_entries[on_minute],
            second_entries=entries[~on_minute],
            second_rows=of_entries[~on_minute],
            several_rows=entries.size > walls.size,
            interval_entries=intervals.astype(np.int32),
            interval_firsts=first[lines[intervals]],
            interval_everys=second[lines[intervals]],
            once_entries=once.astype(np.int32),
            once_at=first[lines[once]],
            solar_entries=solar.astype(np.int32),
            solar_schedules=np.asarray(self._solars, dtype=object)[first[lines[solar]]],
            failures=tuple((int(ordinals[n]), self._reasons[int(first[lines[n]])]) for n in failed),
        )

    def _read(self) -> tuple[NDArray[np.intp], Ints]:
        """Read each distinct schedule once; return each entry's schedule number and the columns read."""
        keys = np.fromiter(map(id, self._schedules), dtype=np.int64, count=len(self._schedules))
        _, firsts, lines = np.unique(keys, return_index=True, return_inverse=True)
        table = chain.from_iterable(self._line(self._schedules[first]) for first in firsts.tolist())
        return lines, np.fromiter(table, dtype=np.int64, count=4 * firsts.size).reshape(-1, 4).T

    def _in_order(self, lines: NDArray[np.intp]) -> list[NDArray[Any]]:
        columns = [*(np.concatenate(parts) for parts in zip(*self._columns, strict=True)), lines]
        if (columns[0][1:] < columns[0][:-1]).any():
            order = np.argsort(columns[0], kind="stable")
            columns = [column[order] for column in columns]
        return columns

    def _rows(self) -> tuple[Rows, Positions]:
        """The rows, ordered by clock, and the row of each block."""
        order = sorted(range(len(self._walls)), key=lambda n: clock_key(self._walls[n]))
        place = np.empty(len(order), dtype=np.int32)
        place[order] = np.arange(len(order), dtype=np.int32)
        return Rows.of([self._walls[n] for n in order], [self._blocks[n] for n in order]), place


def _counted_out(entries: NDArray[np.intp], firsts: Ints, lasts: Ints) -> tuple[Positions, Ints]:
    """Repeat each entry for each number of its range [first, last), and return those numbers."""
    counts = lasts - firsts
    begins = np.cumsum(counts) - counts
    numbers = np.arange(counts.sum()) + np.repeat(firsts - begins, counts)
    return np.repeat(entries, counts).astype(np.int32), numbers
