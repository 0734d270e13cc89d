"""Expansion: the occurrences of many jobs in one window, together, ordered by (time, job id).

Steps through the window minute by minute over bit masks, so the runs of cron lines come out in order without a sort.
Runs off whole minutes (intervals, one-offs, lines with seconds) are merged in by one packed sort. Correct across every
transition of every zone. Reports a malformed entry and skips it. Creates no object per run.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from itinerary.protocol.instants import SECOND, Instant
from scheduler_service.core.index.hour_bits import HOUR_SECONDS, Bits, Clock, HourBits, clocks_of
from scheduler_service.core.index.ordering import NO_RUNS, Runs, merged
from scheduler_service.core.index.schedule_table import Entry, ScheduleTable
from scheduler_service.core.schedules.clock_rules import CatchUp
from scheduler_service.core.schedules.stepping import parts, wall_parts
from scheduler_service.core.schedules.wall_times import WallTimes
from scheduler_service.core.schedules.zones import DAY_SECONDS

__all__ = ["Entry", "Expansion", "ScheduleTable", "expand", "expand_table"]

Ints = NDArray[np.int64]
Positions = NDArray[np.int32]
_NEVER: Ints = np.empty(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Expansion:
    """The runs of a window: microseconds and job ordinals side by side, and the entries that could not be expanded."""

    times: Ints
    ordinals: Positions
    failures: tuple[tuple[int, str], ...]


def expand(entries: Sequence[Entry], window_start: Instant, window_end: Instant) -> Expansion:
    """The occurrences of all entries in [window_start, window_end), ordered by (time, job id)."""
    return expand_table(ScheduleTable.of(entries), window_start, window_end)


def expand_table(table: ScheduleTable, window_start: Instant, window_end: Instant) -> Expansion:
    """Expand a schedule table kept from an earlier window, as `expand` does its entries."""
    on_minutes, others = _Stepper(table, window_start, window_end).runs()
    others += [part(table, window_start, window_end) for part in (_intervals, _once, _singles)]
    runs = merged(on_minutes, [r for r in others if r.times.size], table.ordinals.size)
    if (table.starts > window_start).any() or (table.ends < window_end).any():
        kept = (runs.times >= table.starts[runs.positions]) & (runs.times < table.ends[runs.positions])
        runs = Runs(runs.times[kept], runs.positions[kept])
    runs = table.closings.open_runs(runs, window_start, window_end)
    return Expansion(runs.times, table.ordinals[runs.positions], table.failures)


class _Stepper:
    """One pass over a window's hours for the wall-time rows of a schedule table."""

    def __init__(self, table: ScheduleTable, start: Instant, end: Instant) -> None:
        self._table, self._start, self._end = table, start, end
        self._low, self._high = -(-start // SECOND), -(-end // SECOND)
        self._clocks, self._odd_rows = clocks_of(table.rows, self._low, self._high)
        # No zone is a whole day away from UTC, and no gap with a run to catch up is a whole day long.
        days = (self._low // DAY_SECONDS - 2, self._high // DAY_SECONDS + 1)
        self._bits = HourBits(table.rows, *days)

    def runs(self) -> tuple[Runs, list[Runs]]:
        """Return the ordered runs on whole minutes, and all others, each part in any order."""
        table = self._table
        on_minutes, with_seconds = _Gathered(table.several_rows), _Gathered(False)
        entry = np.arange(table.second_rows.size, dtype=np.int32)
        for hour in range(self._low - self._low % HOUR_SECONDS, self._high, HOUR_SECONDS):
            bits = self._row_bits(hour)
            on_minutes.add(hour, bits[table.minute_rows], table.minute_entries)
            with_seconds.add(hour, bits[table.second_rows], entry)
        others = [*self._stepped_alone(), *self._caught_up_seconds(), *self._spread(with_seconds.runs())]
        return on_minutes.runs(), others

    def _row_bits(self, hour: int) -> Bits:
        rows = self._table.rows
        bits = np.zeros(rows.hours.size, dtype=np.uint64)
        for clock in self._clocks:
            found = self._bits.of_hour(clock, hour)
            for gap in self._gaps(clock, hour):
                caught_up = self._bits.caught_up(clock, gap) & rows.on_minute[clock.rows]
                found |= caught_up.astype(np.uint64) << np.uint64((gap.at - hour) // 60)
            bits[clock.rows] = found
        if self._low % 60 and hour <= self._low < hour + HOUR_SECONDS:
            # The window begins within a minute: that minute's first second lies before the window.
            begun = np.uint64(1 << (self._low - hour) // 60)
            bits &= ~np.where(rows.on_minute, begun, np.uint64(0))
        return bits

    def _gaps(self, clock: Clock, hour: int) -> Iterator[CatchUp]:
        for gap in clock.line.catch_ups:
            if max(self._low, hour) <= gap.at < min(self._high, hour + HOUR_SECONDS):
                yield gap

    def _spread(self, minutes: Runs) -> Iterator[Runs]:
        """Expand the minutes in which lines with seconds fire to their seconds within the window."""
        table = self._table
        if not minutes.times.size:
            return
        masks = table.rows.seconds[table.second_rows[minutes.positions]]
        for second in range(60):
            at = minutes.times + second * SECOND
            hit = ((masks >> np.uint64(second)) & np.uint64(1) != 0) & (at >= self._start) & (at < self._end)
            yield Runs(at[hit], table.second_entries[minutes.positions[hit]])

    def _caught_up_seconds(self) -> Iterator[Runs]:
        """The runs of lines with seconds that catch up one run at the end of a gap."""
        table = self._table
        for clock in self._clocks:
            for gap in clock.line.catch_ups:
                if self._low <= gap.at < self._high and table.second_rows.size:
                    caught_up = np.zeros(table.rows.hours.size, dtype=np.bool_)
                    caught_up[clock.rows] = self._bits.caught_up(clock, gap)
                    chosen = table.second_entries[caught_up[table.second_rows]]
                    yield Runs(np.full(chosen.size, gap.at * SECOND, dtype=np.int64), chosen)

    def _stepped_alone(self) -> Iterator[Runs]:
        """Expand entries of zones whose offsets are not whole minutes from UTC, one by one."""
        table = self._table
        alone: dict[tuple[int, int], WallTimes] = {}
        for row in self._odd_rows:
            wall = table.rows.walls[row]
            for entries, rows in table.wall_entries:
                alone |= {(int(position), id(wall)): wall for position in entries[rows == row]}
        for (position, _), wall in alone.items():
            for part in wall_parts(wall, self._start, self._end):
                yield Runs(part * SECOND, np.full(part.size, position, dtype=np.int32))


class _Gathered:
    """Runs on whole minutes, gathered hour by hour in order."""

    def __init__(self, several_rows: bool) -> None:
        self._several_rows = several_rows
        self._times: list[int] = []
        self._positions: list[Positions] = []

    def add(self, hour: int, bits: Bits, numbers: Positions) -> None:
        """Add, for each minute in which any mask fires, the numbers whose mask fires, in order."""
        some = np.flatnonzero(bits)
        if some.size < bits.size:
            bits, numbers = bits[some], numbers[some]
        union = int(np.bitwise_or.reduce(bits)) if bits.size else 0
        for minute in range(60):
            if union >> minute & 1:
                # numpy searches flags three times as fast as integers.
                found = numbers.take(np.flatnonzero((bits & np.uint64(1 << minute)) != 0))
                if self._several_rows:
                    found = found[np.flatnonzero(np.diff(found, prepend=-1))]
                self._times.append((hour + 60 * minute) * SECOND)
                self._positions.append(found)

    def runs(self) -> Runs:
        if not self._times:
            return NO_RUNS
        sizes = [positions.size for positions in self._positions]
        return Runs(np.repeat(np.asarray(self._times, dtype=np.int64), sizes), np.concatenate(self._positions))


def _intervals(table: ScheduleTable, start: Instant, end: Instant) -> Runs:
    firsts, everys = table.interval_firsts, table.interval_everys
    skipped = np.maximum(0, -((firsts - start) // everys))
    counts = np.maximum(0, -((firsts - end) // everys) - skipped)
    entry = np.repeat(np.arange(firsts.size), counts)
    nth = np.arange(entry.size) - np.repeat(np.cumsum(counts) - counts, counts)
    times = firsts[entry] + (skipped[entry] + nth) * everys[entry]
    return Runs(times, table.interval_entries[entry])


def _once(table: ScheduleTable, start: Instant, end: Instant) -> Runs:
    within = (table.once_at >= start) & (table.once_at < end)
    return Runs(table.once_at[within], table.once_entries[within])


def _singles(table: ScheduleTable, start: Instant, end: Instant) -> Runs:
    """Step each distinct schedule that no column can hold, once for all its entries."""
    numbers = table.single_numbers
    if not numbers.size:
        return NO_RUNS
    used = np.unique(numbers)
    found = [np.concatenate([*parts(table.singles[number], start, end), _NEVER]) for number in used]
    sizes = np.asarray([times.size for times in found])
    place = np.searchsorted(used, numbers)
    counts = sizes[place]
    nth = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    times = np.concatenate(found)[np.repeat((np.cumsum(sizes) - sizes)[place], counts) + nth]
    return Runs(times, np.repeat(table.single_entries, counts))
