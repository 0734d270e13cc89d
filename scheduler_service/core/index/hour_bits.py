"""The minutes of one UTC hour in which each row of a schedule table fires, as 64-bit masks, all rows at once.

Combines the day, hour and minute masks of a row for the overlapping wall hours, and shifts them by the zone's offset.
Excludes zones whose offsets are not whole minutes, see `_is_aligned`. Pure bit arithmetic: the clock rules arrive as
timelines.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler_service.core.index.schedule_rows import Rows
from scheduler_service.core.schedules.clock_rules import CatchUp, Span, Timeline, timeline
from scheduler_service.core.schedules.days import Dates
from scheduler_service.core.schedules.zones import DAY_SECONDS

HOUR_SECONDS: Final = 3_600
Bits = NDArray[np.uint64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Clock:
    """A set of rows (a slice or indices) that follow one timeline in the window."""

    rows: slice | NDArray[np.intp]
    line: Timeline


def clocks_of(rows: Rows, low: int, high: int) -> tuple[list[Clock], list[int]]:
    """Group the rows by timeline in a window of seconds, and list the rows that cannot be stepped minute by minute.

    Zones without a transition in the window are grouped by their offset.
    """
    at_rest: dict[Timeline, list[range]] = {}
    clocks, odd = [], list[int]()
    for group in rows.groups:
        members = range(group.first, group.last)
        line = timeline(group.zone, group.rule, low - low % 60, high + -high % 60)
        if not _is_aligned(line):
            odd += members
        elif line.quiet:
            at_rest.setdefault(line, []).append(members)
        else:
            clocks.append(Clock(slice(group.first, group.last), line))
    return clocks + [Clock(_together(ranges), line) for line, ranges in at_rest.items()], odd


def _together(ranges: list[range]) -> slice | NDArray[np.intp]:
    if len(ranges) == 1:
        return slice(ranges[0].start, ranges[0].stop)
    return np.concatenate([np.arange(r.start, r.stop) for r in ranges])


def _is_aligned(line: Timeline) -> bool:
    """Whether everything in the timeline happens on whole minutes."""
    numbers = [n for s in line.spans for n in (s.start, s.end, s.offset)]
    numbers += [n for c in line.catch_ups for n in (c.at, c.local_start, c.local_end)]
    return all(n % 60 == 0 for n in numbers)


class HourBits:
    """The bits of every row, hour by hour, for wall times from `first_day` to `last_day`."""

    def __init__(self, rows: Rows, first_day: int, last_day: int) -> None:
        self._rows = rows
        self._first_day = first_day
        self._meant = _meant_days(rows, np.arange(first_day, last_day + 1))

    def of_hour(self, clock: Clock, hour_start: int) -> Bits:
        """The minutes of the UTC hour in which each row of the clock fires, without catch-ups."""
        found = None
        for span in clock.line.spans:
            low, high = max(span.start, hour_start), min(span.end, hour_start + HOUR_SECONDS)
            if low < high:
                part = self._in_span(clock.rows, Span(low, high, span.offset), hour_start)
                found = part if found is None else found | part
        size = self._rows.hours[clock.rows].size
        return np.zeros(size, dtype=np.uint64) if found is None else found

    def caught_up(self, clock: Clock, gap: CatchUp) -> Flags:
        """Whether, for each row of the clock, any wall time inside the gap matches."""
        found = np.zeros(self._rows.hours[clock.rows].size, dtype=np.bool_)
        for low in _hour_starts(gap.local_start, gap.local_end):
            found |= self._local_bits(clock.rows, low, gap.local_start, gap.local_end) != 0
        return found

    def _in_span(self, rows: slice | NDArray[np.intp], span: Span, hour_start: int) -> Bits:
        low, high = span.start + span.offset, span.end + span.offset
        found: Bits | None = None
        for local_hour in _hour_starts(low, high):
            bits = self._local_bits(rows, local_hour, low, high)
            shift = (local_hour - span.offset - hour_start) // 60
            bits = bits << np.uint64(shift) if shift >= 0 else bits >> np.uint64(-shift)
            found = bits if found is None else found | bits
        assert found is not None
        return found

    def _local_bits(self, rows: slice | NDArray[np.intp], local_hour: int, low: int, high: int) -> Bits:
        """The matching minutes of a wall hour, without those outside the wall times [low, high)."""
        day, hour = divmod(local_hour, DAY_SECONDS)
        meant = self._meant[day - self._first_day][rows]
        meant = meant & ((self._rows.hours[rows] >> np.uint32(hour // HOUR_SECONDS)) & np.uint32(1)).astype(bool)
        first = max(0, -(-(low - local_hour) // 60))
        last = min(60, -(-(high - local_hour) // 60))
        within = np.uint64(((1 << last) - 1) & ~((1 << first) - 1))
        return np.where(meant, self._rows.minutes[rows] & within, np.uint64(0))


def _hour_starts(low: int, high: int) -> range:
    return range(low - low % HOUR_SECONDS, high, HOUR_SECONDS)


def _meant_days(rows: Rows, numbers: NDArray[np.int64]) -> list[Flags]:
    """For each day, the rows that match it."""
    dates = Dates.of(numbers)
    every = slice(None)
    found = [_masked(rows, every, dates, place) for place in range(numbers.size)]
    for days, its_rows in rows.special:
        for flags, meant_day in zip(found, days.matches(dates), strict=True):
            flags[its_rows] = meant_day
    first = int(numbers[0])
    for moved, its_rows in rows.moved:
        for day, sources in moved.sources(first, int(numbers[-1])).items():
            found[day - first][its_rows] = _masked_by_any(rows, its_rows, sources)
    return found


def _masked(rows: Rows, some: slice | NDArray[np.int64], dates: Dates, place: int) -> Flags:
    """Whether each of these rows matches one of the dates by its masks."""
    by_day = (rows.days[some] >> np.uint32(dates.day[place])) & np.uint32(1) != 0
    by_weekday = (rows.weekdays[some] >> np.uint8(dates.weekday[place])) & np.uint8(1) != 0
    meant = np.where(rows.either[some], by_day | by_weekday, by_day & by_weekday)
    flags: Flags = meant & ((rows.months[some] >> np.uint16(dates.month[place])) & np.uint16(1) != 0)
    return flags


def _masked_by_any(rows: Rows, some: NDArray[np.int64], days: Sequence[int]) -> Flags | bool:
    """Whether each of these rows matches any of the days by its masks."""
    if not days:
        return False
    dates = Dates.of(np.asarray(days, dtype=np.int64))
    meant: Flags = np.logical_or.reduce([_masked(rows, some, dates, place) for place in range(len(days))])
    return meant
