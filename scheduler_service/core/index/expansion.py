"""Expansion: the occurrences of many jobs in one window, together, ordered by (time, job id).

Walks the window hour by hour and minute by minute over bit masks, so that the runs of cron lines come
out in order without a sort; what is not on whole minutes (intervals, one-offs, lines with seconds) is
merged in by one packed sort. Correct across any transition of any zone. A malformed entry is reported
and left out. Makes no objects per run.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from itinerary.protocol.instants import SECOND, Instant
from scheduler_service.core.index.hour_bits import HOUR_SECONDS, Bits, Clock, HourBits, clocks_of
from scheduler_service.core.index.ordering import NO_RUNS, Runs, merged
from scheduler_service.core.index.schedule_table import Entry, Roster
from scheduler_service.core.schedules.clock_rules import CatchUp
from scheduler_service.core.schedules.stepping import wall_parts
from scheduler_service.core.schedules.wall_times import WallTimes
from scheduler_service.core.schedules.zones import DAY_SECONDS

__all__ = ["Entry", "Expansion", "Roster", "expand", "expand_roster"]

Ints = NDArray[np.int64]
Positions = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Expansion:
    """The runs of a window: microseconds and job ordinals side by side, and what could not be expanded."""

    times: Ints
    ordinals: Positions
    failures: tuple[tuple[int, str], ...]


def expand(entries: Sequence[Entry], window_start: Instant, window_end: Instant) -> Expansion:
    """The occurrences of all entries in [window_start, window_end), ordered by (time, job id)."""
    return expand_roster(Roster.of(entries), window_start, window_end)


def expand_roster(roster: Roster, window_start: Instant, window_end: Instant) -> Expansion:
    """As `expand`, for a roster kept since an earlier window."""
    on_minutes, others = _Walk(roster, window_start, window_end).runs()
    others += [_intervals(roster, window_start, window_end), _once(roster, window_start, window_end)]
    runs = merged(on_minutes, [r for r in others if r.times.size], roster.ordinals.size)
    if (roster.starts > window_start).any() or (roster.ends < window_end).any():
        kept = (runs.times >= roster.starts[runs.positions]) & (runs.times < roster.ends[runs.positions])
        runs = Runs(runs.times[kept], runs.positions[kept])
    return Expansion(runs.times, roster.ordinals[runs.positions], roster.failures)


class _Walk:
    """One pass over a window's hours for the wall-time rows of a roster."""

    def __init__(self, roster: Roster, start: Instant, end: Instant) -> None:
        self._roster, self._start, self._end = roster, start, end
        self._low, self._high = -(-start // SECOND), -(-end // SECOND)
        self._clocks, self._odd_rows = clocks_of(roster.rows, self._low, self._high)
        # No zone is a whole day away from UTC, and no gap that owes anything is a whole day long.
        days = (self._low // DAY_SECONDS - 2, self._high // DAY_SECONDS + 1)
        self._bits = HourBits(roster.rows, *days)

    def runs(self) -> tuple[Runs, list[Runs]]:
        """The runs on whole minutes, in order; and all others, each part in any order."""
        roster = self._roster
        on_minutes, with_seconds = _Gathered(roster.several_rows), _Gathered(False)
        entry = np.arange(roster.second_rows.size, dtype=np.int32)
        for hour in range(self._low - self._low % HOUR_SECONDS, self._high, HOUR_SECONDS):
            bits = self._row_bits(hour)
            on_minutes.add(hour, bits[roster.minute_rows], roster.minute_entries)
            with_seconds.add(hour, bits[roster.second_rows], entry)
        others = [*self._walked_alone(), *self._owed_seconds(), *self._spread(with_seconds.runs())]
        return on_minutes.runs(), others

    def _row_bits(self, hour: int) -> Bits:
        rows = self._roster.rows
        bits = np.zeros(rows.hours.size, dtype=np.uint64)
        for clock in self._clocks:
            found = self._bits.of_hour(clock, hour)
            for gap in self._gaps(clock, hour):
                owed = self._bits.owed(clock, gap) & rows.on_minute[clock.rows]
                found |= owed.astype(np.uint64) << np.uint64((gap.at - hour) // 60)
            bits[clock.rows] = found
        if self._low % 60 and hour <= self._low < hour + HOUR_SECONDS:
            # The window begins within a minute, whose first second lies before it.
            begun = np.uint64(1 << (self._low - hour) // 60)
            bits &= ~np.where(rows.on_minute, begun, np.uint64(0))
        return bits

    def _gaps(self, clock: Clock, hour: int) -> Iterator[CatchUp]:
        for gap in clock.line.catch_ups:
            if max(self._low, hour) <= gap.at < min(self._high, hour + HOUR_SECONDS):
                yield gap

    def _spread(self, minutes: Runs) -> Iterator[Runs]:
        """From the minutes in which lines with seconds fire, to their seconds within the window."""
        roster = self._roster
        if not minutes.times.size:
            return
        masks = roster.rows.seconds[roster.second_rows[minutes.positions]]
        for second in range(60):
            at = minutes.times + second * SECOND
            hit = ((masks >> np.uint64(second)) & np.uint64(1) != 0) & (at >= self._start) & (at < self._end)
            yield Runs(at[hit], roster.second_entries[minutes.positions[hit]])

    def _owed_seconds(self) -> Iterator[Runs]:
        """Lines with seconds that are owed one run at the end of a gap."""
        roster = self._roster
        for clock in self._clocks:
            for gap in clock.line.catch_ups:
                if self._low <= gap.at < self._high and roster.second_rows.size:
                    owed = np.zeros(roster.rows.hours.size, dtype=np.bool_)
                    owed[clock.rows] = self._bits.owed(clock, gap)
                    chosen = roster.second_entries[owed[roster.second_rows]]
                    yield Runs(np.full(chosen.size, gap.at * SECOND, dtype=np.int64), chosen)

    def _walked_alone(self) -> Iterator[Runs]:
        """Entries of zones whose clocks are not whole minutes from UTC, one by one."""
        roster = self._roster
        alone: dict[tuple[int, int], WallTimes] = {}
        for row in self._odd_rows:
            wall = roster.rows.walls[row]
            for entries, rows in roster.wall_entries:
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
        """For each minute that any mask has, in order: the numbers whose mask has it."""
        some = np.flatnonzero(bits)
        if some.size < bits.size:
            bits, numbers = bits[some], numbers[some]
        union = int(np.bitwise_or.reduce(bits)) if bits.size else 0
        for minute in range(60):
            if union >> minute & 1:
                # Flags are searched three times as fast as integers.
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


def _intervals(roster: Roster, start: Instant, end: Instant) -> Runs:
    firsts, everys = roster.interval_firsts, roster.interval_everys
    skipped = np.maximum(0, -((firsts - start) // everys))
    counts = np.maximum(0, -((firsts - end) // everys) - skipped)
    entry = np.repeat(np.arange(firsts.size), counts)
    nth = np.arange(entry.size) - np.repeat(np.cumsum(counts) - counts, counts)
    times = firsts[entry] + (skipped[entry] + nth) * everys[entry]
    return Runs(times, roster.interval_entries[entry])


def _once(roster: Roster, start: Instant, end: Instant) -> Runs:
    within = (roster.once_at >= start) & (roster.once_at < end)
    return Runs(roster.once_at[within], roster.once_entries[within])
