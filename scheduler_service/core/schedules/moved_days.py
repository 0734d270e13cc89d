"""Days moved off closed ones: a day that is meant and closed is meant on the next, or previous, open day instead.

Hours, minutes and clock rules apply to the new day afterwards. A day that would move further than 31 days is left out.
Knows no calendar: the closed days are flags that core.calendars gives.
"""

from dataclasses import dataclass, field
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from scheduler_service.core.schedules.days import Dates, Days, Flags

Ints = NDArray[np.int64]
FURTHEST: Final = 31
NOWHERE: Final = -(2**40)


class DayFlags(Protocol):
    """The days on which a schedule is closed."""

    def flags(self, first: int, last: int, /) -> Flags:
        """Return for each day from `first` to `last` whether it is closed."""


@dataclass(frozen=True, eq=False)
class MovedDays:
    """The days of `days`, those closed moved forwards, or `back`."""

    days: Days
    closed: DayFlags
    back: bool
    _kept: "dict[tuple[int, int], dict[int, tuple[int, ...]]]" = field(default_factory=dict, init=False, repr=False)

    @property
    def simple(self) -> bool:
        """Return False: no mask of weekdays and months holds a calendar."""
        return False

    def matches(self, dates: Dates) -> Flags:
        """For each date, whether it is meant."""
        if not dates.number.size:
            return np.zeros(0, dtype=np.bool_)
        first, last = int(dates.number.min()) - FURTHEST, int(dates.number.max()) + FURTHEST
        closed = self.closed.flags(first, last)
        if not closed.any():
            return self.days.matches(dates)
        meant = self.days.matches(Dates.of(np.arange(first, last + 1)))
        places = _targets(closed, self.back)
        moved = np.zeros(meant.size, dtype=np.bool_)
        moved[places[meant & (places >= 0)]] = True
        return moved[dates.number - first]

    def targets(self, first: int, last: int) -> Ints:
        """Return for each day from `first` to `last` the day it moves to, itself if it is open; NOWHERE for none."""
        begin = first - FURTHEST
        found = _targets(self.closed.flags(begin, last + FURTHEST), self.back)[FURTHEST:-FURTHEST]
        return np.where(found < 0, NOWHERE, found + begin)

    def sources(self, first: int, last: int) -> dict[int, tuple[int, ...]]:
        """Return the days from `first` to `last` that do not just stand for themselves, each with those it stands for.

        A closed day stands for none; an open one beside it for itself and the closed ones that move to it.
        """
        kept = self._kept.get((first, last))
        if kept is None:
            self._kept.clear()  # the windows of a day have the same
            kept = self._kept[first, last] = self._sources(first, last)
        return kept

    def _sources(self, first: int, last: int) -> dict[int, tuple[int, ...]]:
        begin = first - FURTHEST
        closed = self.closed.flags(begin, last + FURTHEST)
        targets = _targets(closed, self.back) + begin
        found = {day: list[int]() for day in range(first, last + 1) if closed[day - begin]}
        for place in np.flatnonzero(closed & (targets >= first) & (targets <= last)).tolist():
            found.setdefault(int(targets[place]), [int(targets[place])]).append(place + begin)
        return {day: tuple(of) for day, of in found.items()}


def _targets(closed: Flags, back: bool) -> Ints:
    """Return for each flag the place of the open day that it moves to, or -1."""
    places = np.arange(closed.size)
    if back:
        to = np.maximum.accumulate(np.where(closed, -1, places))
    else:
        to = np.minimum.accumulate(np.where(closed, closed.size, places)[::-1])[::-1]
    within = (to >= 0) & (to < closed.size) & (np.abs(to - places) <= FURTHEST)
    return np.where(within, to, -1)
