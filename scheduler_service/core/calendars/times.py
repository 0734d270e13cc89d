"""The instants of compiled calendars, as merged spans in arrays: many instants are judged by one binary search.

Spans are computed for 400 days at a time and kept, so a window costs what lies in it, not the whole calendar. A
calendar's days and weekly times are local: an instant is in them if its zone's clocks show a time in them.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from itinerary.protocol.instants import DAY, SECOND, Instant
from scheduler_service.core.calendars.model import Compiled, Weekly
from scheduler_service.core.schedules.clock_rules import WILDCARD, timeline
from scheduler_service.core.schedules.zone_eras import number_in_force
from scheduler_service.core.schedules.zones import DAY_SECONDS

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
Spans = tuple[Ints, Ints]
"""Starts and ends of [start, end) in ascending order, which neither touch nor overlap."""
PART: Final = 400 * DAY
_MOST_PARTS: Final = 64
_NONE: Final = np.empty(0, dtype=np.int64)


class CalendarTimes:
    """One compiled calendar."""

    def __init__(self, compiled: Compiled) -> None:
        self._compiled = compiled
        self._first = np.asarray([d.first for d in compiled.days], dtype=np.int64)
        self._last = np.asarray([d.last for d in compiled.days], dtype=np.int64)
        self._starts = np.asarray([s.start for s in compiled.spans], dtype=np.int64)
        self._ends = np.asarray([s.end for s in compiled.spans], dtype=np.int64)

    def spans(self, low: Instant, high: Instant) -> Spans:
        """Return the calendar's part of [low, high)."""
        parts = [(self._starts, self._ends)]
        first, last = low // SECOND, -(-high // SECOND)
        starts, ends = self._local(first - 2 * DAY_SECONDS, last + 2 * DAY_SECONDS)
        for span in timeline(self._compiled.timezone, WILDCARD, first, last).spans:
            from_, to = np.maximum(starts - span.offset, span.start), np.minimum(ends - span.offset, span.end)
            parts.append((from_ * SECOND, to * SECOND))
        return merged_spans(parts, low, high)

    def _local(self, low: int, high: int) -> Spans:
        """Return the wall times (seconds) of days and weekly rules around [low, high)."""
        days = np.arange(low // DAY_SECONDS - 1, high // DAY_SECONDS + 1)
        parts = [(self._first * DAY_SECONDS, (self._last + 1) * DAY_SECONDS)]
        parts += [_weekly(rule, days) for rule in self._compiled.weekly]
        return merged_spans(parts, low, high)

    def days(self, first: int, last: int) -> Flags:
        """Return for each day from `first` to `last` whether it is one of the calendar's whole days."""
        change = np.zeros(last - first + 2, dtype=np.int64)
        within = (self._last >= first) & (self._first <= last)
        np.add.at(change, np.maximum(self._first[within], first) - first, 1)
        np.add.at(change, np.minimum(self._last[within], last) - first + 1, -1)
        flags: Flags = np.cumsum(change)[:-1] > 0
        weekdays = self.weekdays
        if weekdays:
            flags |= (weekdays >> (np.arange(first, last + 1) + 4) % 7) & 1 != 0
        return flags

    @property
    def weekdays(self) -> int:
        """The weekdays that are in the calendar as a whole; bit 0 is Sunday."""
        mask = 0
        for rule in self._compiled.weekly:
            mask |= rule.days if rule.start == rule.end == 0 else 0
        return mask


def _weekly(rule: Weekly, days: Ints) -> Spans:
    opened = days[(rule.days >> (days + 4) % 7) & 1 != 0] * DAY_SECONDS
    length = rule.end - rule.start if rule.end > rule.start else rule.end - rule.start + DAY_SECONDS
    return opened + rule.start, opened + rule.start + length


def merged_spans(parts: Iterable[Spans], low: int, high: int) -> Spans:
    """Return the union of these spans, which may be in any order, within [low, high)."""
    starts, ends = (np.concatenate(column) for column in zip(*parts, (_NONE, _NONE), strict=True))
    starts, ends = np.maximum(starts, low), np.minimum(ends, high)
    some = starts < ends
    starts, ends = starts[some], ends[some]
    if not starts.size:
        return _NONE, _NONE
    order = np.argsort(starts, kind="stable")
    starts, reached = starts[order], np.maximum.accumulate(ends[order])
    begins = np.flatnonzero(np.concatenate([[True], starts[1:] > reached[:-1]]))
    return starts[begins], reached[np.concatenate([begins[1:] - 1, [starts.size - 1]])]


class ClosedTimes:
    """The instants at which a job is closed: those in any of `exclude`, and those in none of `only`."""

    def __init__(self, exclude: Sequence[CalendarTimes], only: Sequence[CalendarTimes]) -> None:
        self._exclude, self._only = tuple(exclude), tuple(only)
        self._parts: dict[tuple[int, int], Spans] = {}  # by the zone rules in force, too
        self._stretch = (0, 0, -1, False)  # the last one found: start, end, zone rules, whether it is closed

    def closed(self, times: Ints) -> Flags:
        """Return for each of these ascending instants whether it is closed."""
        flags = np.zeros(times.size, dtype=np.bool_)
        low = 0
        while low < times.size:
            part = int(times[low]) // PART
            high = int(np.searchsorted(times, (part + 1) * PART))
            starts, ends = self._part(part)
            before = np.searchsorted(starts, times[low:high], side="right")
            flags[low:high] = times[low:high] < np.concatenate([[-(2**63)], ends])[before]
            low = high
        return flags

    def opens(self, at: Instant, until: Instant) -> Instant:
        """Return the first instant from `at` on that is open, or `until` if none is before it."""
        while at < until:
            starts, ends = self._part(at // PART)
            before = int(np.searchsorted(starts, at, side="right"))
            if not before or at >= ends[before - 1]:
                return at
            at = int(ends[before - 1])
        return until

    def throughout(self, start: Instant, end: Instant) -> bool | None:
        """Return whether all of [start, end) is closed (True) or open (False); None where that changes."""
        low, high, rules, closed = self._stretch  # one read: threads share it
        if not (low <= start and end <= high and rules == number_in_force()):
            low, high, closed = self._stretch_at(start)
            self._stretch = low, high, number_in_force(), closed
        return closed if end <= high else None

    def _stretch_at(self, at: Instant) -> tuple[Instant, Instant, bool]:
        """Return the longest [start, end) around an instant, within its part, that is closed or open throughout."""
        part = at // PART
        starts, ends = self._part(part)
        place = int(np.searchsorted(starts, at, side="right"))
        if place and at < ends[place - 1]:
            return int(starts[place - 1]), int(ends[place - 1]), True
        low = int(ends[place - 1]) if place else part * PART
        return low, int(starts[place]) if place < starts.size else (part + 1) * PART, False

    def _part(self, number: int) -> Spans:
        key = (number_in_force(), number)
        found = self._parts.get(key)
        if found is None:
            if len(self._parts) >= _MOST_PARTS:
                self._parts.clear()
            found = self._parts[key] = self._closed_in(number * PART, (number + 1) * PART)
        return found

    def _closed_in(self, low: Instant, high: Instant) -> Spans:
        parts = [times.spans(low, high) for times in self._exclude]
        if self._only:
            starts, ends = merged_spans([times.spans(low, high) for times in self._only], low, high)
            parts.append((np.concatenate([[low], ends]), np.concatenate([starts, [high]])))
        return merged_spans(parts, low, high)


class ClosedDays:
    """The whole days on which a job is closed, in the zone of its calendars; as ClosedTimes."""

    def __init__(self, exclude: Sequence[CalendarTimes], only: Sequence[CalendarTimes]) -> None:
        self._exclude, self._only = tuple(exclude), tuple(only)
        self._kept: tuple[int, Flags] = (0, np.empty(0, dtype=np.bool_))

    def flags(self, first: int, last: int) -> Flags:
        """Return for each day from `first` to `last` whether it is closed."""
        begin, kept = self._kept  # one assignment: threads share it
        if not begin <= first <= last < begin + kept.size:
            margin = 0 if last - first > 4_000 else 400
            begin, kept = first - margin, self._days(first - margin, last + margin)
            self._kept = begin, kept
        return kept[first - begin : last + 1 - begin]

    def _days(self, first: int, last: int) -> Flags:
        closed = np.zeros(last - first + 1, dtype=np.bool_)
        for times in self._exclude:
            closed |= times.days(first, last)
        if self._only:
            opened = np.zeros(last - first + 1, dtype=np.bool_)
            for times in self._only:
                opened |= times.days(first, last)
            closed |= ~opened
        return closed
