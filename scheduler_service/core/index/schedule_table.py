"""A schedule table: the entries of many jobs as arrays, grouped by clock and by distinct schedule.

Built once per set of jobs and used for every window after it; after few changes only few entries are read again. Equal
schedules share a row. Entries are ordered by job id, so expansion in time order is already ordered by (time, job id).
`failures` lists entries that cannot be used.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from itinerary.protocol.instants import Instant
from scheduler_service.core.index.closings import NO_CLOSINGS, Closings, closings_of
from scheduler_service.core.index.schedule_lines import FAILED, INTERVAL, ONCE, SINGLE, UNION, WALL, ReadSchedules
from scheduler_service.core.index.schedule_rows import Rows
from scheduler_service.core.schedules.kinds import Schedule, SimpleSchedule

Ints = NDArray[np.int64]
Positions = NDArray[np.int32]
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
    single_entries: Positions
    """Positions of the entries whose schedules are stepped one by one; `single_numbers` has the place in `singles`."""
    single_numbers: Ints
    singles: tuple[SimpleSchedule, ...]
    closings: Closings
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
        single_entries, single_numbers = _merged(
            (mine[self.single_entries], self.single_numbers),
            (its[fresh.single_entries], fresh.single_numbers + len(self.singles)),
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
            single_entries=single_entries,
            single_numbers=single_numbers,
            singles=self.singles + fresh.singles,
            closings=self.closings.with_more(self.ordinals.size, fresh.closings, fresh.ordinals.size, places),
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

    def add(self, ordinals: Positions, schedules: Sequence[Schedule], starts: Ints, ends: Ints) -> None:
        """Add entries as columns; those of one ordinal are adjacent and in order."""
        self._schedules += schedules
        self._columns.append((ordinals, starts, ends))

    def finished(self) -> ScheduleTable:
        """Build the table of the added entries, and forget them."""
        read = ReadSchedules(self._schedules)
        first, second = read.first, read.second
        ordinals, starts, ends, own = self._in_order(read.numbers)
        self._schedules, self._columns = [], []  # what follows needs as much memory again
        entry, lines = _with_members(own, read)
        kind = read.kinds.astype(np.int8)[lines]
        walls, intervals, once, single, failed = (
            np.flatnonzero(kind == k) for k in (WALL, INTERVAL, ONCE, SINGLE, FAILED)
        )
        rows, place = read.rows()
        entries, blocks = _counted_out(entry[walls], first[lines[walls]], second[lines[walls]])
        of_entries = place[blocks]
        on_minute = rows.on_minute[of_entries]
        return ScheduleTable(
            ordinals=ordinals,
            starts=np.maximum(starts, read.begins[own]),
            ends=ends,
            rows=rows,
            minute_entries=entries[on_minute],
            minute_rows=of_entries[on_minute],
            second_entries=entries[~on_minute],
            second_rows=of_entries[~on_minute],
            several_rows=bool((entries[1:] == entries[:-1]).any()),
            interval_entries=entry[intervals],
            interval_firsts=first[lines[intervals]],
            interval_everys=second[lines[intervals]],
            once_entries=entry[once],
            once_at=first[lines[once]],
            single_entries=entry[single],
            single_numbers=first[lines[single]],
            singles=tuple(read.singles),
            closings=closings_of(read.closed, read.closed_lines, own) if read.closed else NO_CLOSINGS,
            failures=tuple((int(ordinals[entry[n]]), read.reasons[int(first[lines[n]])]) for n in failed),
        )

    def _in_order(self, lines: Positions) -> list[NDArray[Any]]:
        columns = [*(np.concatenate(parts) for parts in zip(*self._columns, strict=True)), lines]
        if (columns[0][1:] < columns[0][:-1]).any():
            order = np.argsort(columns[0], kind="stable")
            columns = [column[order] for column in columns]
        return columns


def _with_members(own: Positions, read: ReadSchedules) -> tuple[Positions, NDArray[Any]]:
    """The entry and the line of each schedule that is no union: its members in place of a union."""
    entries, unions = np.arange(own.size, dtype=np.int32), read.kinds == UNION
    if not unions.any():
        return entries, own
    union = unions[own]
    first, last = np.where(union, read.first[own], own), np.where(union, read.second[own], own + 1)
    return _counted_out(entries, first, last)


def _counted_out(entries: Positions, firsts: Ints, lasts: Ints) -> tuple[Positions, Ints]:
    """Repeat each entry for each number of its range [first, last), and return those numbers."""
    counts = lasts - firsts
    if (counts == 1).all():
        return entries, firsts
    begins = np.cumsum(counts) - counts
    numbers = np.arange(counts.sum()) + np.repeat(firsts - begins, counts)
    return np.repeat(entries, counts), numbers
