"""The instants of a recurrence rule: its wall times by the clock rules of fixed schedules.

They are computed a year of wall times at a time, or all at once with COUNT, and kept for all who ask. What is kept is
bounded by the number of instants.
"""

from collections.abc import Iterator
from datetime import date
from itertools import islice, takewhile
from typing import Final

import numpy as np
from numpy.typing import NDArray

from itinerary.protocol.instants import SECOND, Instant
from scheduler_service.core.schedules.clock_rules import reached
from scheduler_service.core.schedules.kinds import RuleSchedule
from scheduler_service.core.schedules.recurrence import rule_of, wall_times_from
from scheduler_service.core.schedules.zone_eras import number_in_force
from scheduler_service.core.schedules.zones import DAY_SECONDS, FIRST_SECOND, LAST_SECOND

Ints = NDArray[np.int64]
_MOST_KEPT: Final = 8_000_000
_EPOCH: Final = date(1970, 1, 1).toordinal()
_AROUND: Final = 2 * DAY_SECONDS


class _Kept:
    """The instants by rule, year and zone rules in force; all are forgotten when they are too many."""

    def __init__(self) -> None:
        self._found: dict[tuple[RuleSchedule, int | None, int], Ints] = {}
        self._size = 0

    def of(self, schedule: RuleSchedule, year: int | None) -> Ints:
        key = (schedule, year, number_in_force())
        found = self._found.get(key)
        if found is None:
            found = _expanded(schedule, year)
            if self._size > _MOST_KEPT:
                self._found, self._size = {}, 0
            self._found[key] = found
            self._size += found.size + 100
        return found


_kept: Final = _Kept()


def rule_parts(schedule: RuleSchedule, start: Instant, end: Instant) -> Iterator[Ints]:
    """Yield the occurrences in [start, end), ascending, year by year."""
    low = start
    for year in _years(schedule, start, end):
        found = _kept.of(schedule, year)
        within = found[np.searchsorted(found, low) : np.searchsorted(found, end)]
        yield within
        if within.size:
            low = int(within[-1]) + 1


def last_of_rule(schedule: RuleSchedule, start: Instant, end: Instant) -> Instant | None:
    """Return the newest occurrence in [start, end), or None."""
    for year in reversed(_years(schedule, start, end)):
        found = _kept.of(schedule, year)
        before = int(np.searchsorted(found, end))
        if before and found[before - 1] >= start:
            return int(found[before - 1])
    return None


def rule_from(schedule: RuleSchedule, low: Instant) -> Iterator[Instant]:
    """Yield the occurrences from `low` on, as far as the rule goes."""
    walls = wall_times_from(schedule, max(low // SECOND, FIRST_SECOND) - _AROUND)
    last, size = low - 1, 8
    while batch := list(islice(walls, size)):
        for at in _instants(schedule, np.asarray(batch, dtype=np.int64)).tolist():
            if at > last:
                yield at
                last = at
        size = min(2 * size, 512)


def _years(schedule: RuleSchedule, start: Instant, end: Instant) -> list[int | None]:
    if rule_of(schedule.rule, schedule.first).has_count:
        return [None]
    low = max(start // SECOND - _AROUND, schedule.first, FIRST_SECOND)
    high = min(end // SECOND + _AROUND, LAST_SECOND)
    return [*range(_year_of(low), _year_of(high) + 1)] if low <= high else []


def _year_of(wall: int) -> int:
    return date.fromordinal(wall // DAY_SECONDS + _EPOCH).year


def _expanded(schedule: RuleSchedule, year: int | None) -> Ints:
    if year is None:
        return _instants(schedule, np.fromiter(wall_times_from(schedule, schedule.first), dtype=np.int64))
    low, high = ((date(each, 1, 1).toordinal() - _EPOCH) * DAY_SECONDS for each in (year, year + 1))
    walls = takewhile(high.__gt__, wall_times_from(schedule, low, 2))
    return _instants(schedule, np.fromiter(walls, dtype=np.int64))


def _instants(schedule: RuleSchedule, walls: Ints) -> Ints:
    at, exists = reached(schedule.zone, walls)
    found: Ints = np.unique(at[exists]) * SECOND
    last = rule_of(schedule.rule, schedule.first).last_instant
    return found if last is None else found[found <= last]
