"""The closed times of a schedule table's entries: which runs of a window calendars leave out, all entries at once.

Entries closed alike share one number. A window costs a verdict for each distinct set of calendars, and a search for
those that open or close within it. A table without calendars has no column.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from itinerary.protocol.instants import Instant
from scheduler_service.core.index.ordering import Runs
from scheduler_service.core.schedules.closed import ClosedSchedule

Positions = NDArray[np.int32]
_OPEN, _CLOSED, _CHANGES = range(3)
_FEW: Final = 2**15


@dataclass(frozen=True, slots=True)
class Closings:
    """`numbers` has for each position its place in `closed`, counted from 1; 0 for what no calendar closes."""

    numbers: Positions
    closed: tuple[ClosedSchedule, ...]

    def with_more(self, size: int, more: "Closings", more_size: int, places: NDArray[np.intp]) -> "Closings":
        """Return the closings of `size` entries and then `more_size` others, of which those at `places` are left."""
        if not (self.closed or more.closed):
            return NO_CLOSINGS
        mine, its = (
            each.numbers if each.closed else np.zeros(length, dtype=np.int32)
            for each, length in ((self, size), (more, more_size))
        )
        its = np.where(its > 0, its + np.int32(len(self.closed)), np.int32(0))
        return Closings(np.concatenate([mine, its])[places].astype(np.int32), self.closed + more.closed)

    def open_runs(self, runs: Runs, start: Instant, end: Instant) -> Runs:
        """Return the runs of [start, end), ordered by time, that fire."""
        if not self.closed or not runs.times.size:
            return runs
        verdicts = np.asarray([_OPEN, *(_verdict(one, start, end) for one in self.closed)], dtype=np.int8)
        if not verdicts.any():
            return runs
        of_runs = verdicts.take(self.numbers).take(runs.positions)
        dropped = of_runs == _CLOSED
        if (verdicts == _CHANGES).any():
            self._search(runs, np.flatnonzero(of_runs == _CHANGES), dropped)
        kept = np.flatnonzero(~dropped)
        return Runs(runs.times.take(kept), runs.positions.take(kept)) if kept.size < dropped.size else runs

    def _search(self, runs: Runs, changing: NDArray[np.intp], dropped: NDArray[np.bool_]) -> None:
        """Judge these runs one by one, those that are closed alike together."""
        numbers = self.numbers.take(runs.positions.take(changing))
        if len(self.closed) < _FEW:
            numbers = numbers.astype(np.int16)  # numpy counts these instead of comparing them
        order = np.argsort(numbers, kind="stable")
        cuts = np.flatnonzero(np.diff(numbers.take(order))) + 1
        for group in np.split(order, cuts) if order.size else ():
            some = changing.take(group)
            dropped[some] = self.closed[numbers[group[0]] - 1].dropped(runs.times.take(some))


def _verdict(one: ClosedSchedule, start: Instant, end: Instant) -> int:
    if one.also or one.never or one.times is None:
        return _CHANGES
    throughout = one.times.throughout(start, end)
    return _CHANGES if throughout is None else _CLOSED if throughout else _OPEN


NO_CLOSINGS: Final = Closings(np.empty(0, dtype=np.int32), ())


def closings_of(schedules: Sequence[ClosedSchedule], lines: NDArray[np.intp], of_entries: NDArray[np.intp]) -> Closings:
    """Return the closings of entries by the schedules that calendars close and their lines."""
    found: dict[tuple[int, ...], int] = {}
    closed: list[ClosedSchedule] = []
    numbers = np.zeros(int(of_entries.max(initial=0)) + 1, dtype=np.int32)
    for schedule, line in zip(schedules, lines.tolist(), strict=True):
        alone = bool(schedule.also or schedule.never)
        if not alone and schedule.times is None:
            continue
        key = (id(schedule),) if alone else (id(schedule.times), 0)
        if key not in found:
            closed.append(schedule)
            found[key] = len(closed)
        numbers[line] = found[key]
    return Closings(numbers[of_entries], tuple(closed)) if closed else NO_CLOSINGS
