"""Days moved off closed ones: a day that is meant and closed is meant on the next, or previous, open day instead.

Hours, minutes and clock rules apply to the new day afterwards. A day that would move further than 31 days is left out.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler_service.core.calendars.times import ClosedDays
from scheduler_service.core.schedules.days import Dates, Days, Flags

Ints = NDArray[np.int64]
FURTHEST: Final = 31
NOWHERE: Final = -(2**40)


@dataclass(frozen=True, slots=True, eq=False)
class MovedDays:
    """The days of `days`, those closed moved forwards, or `back`."""

    days: Days
    closed: ClosedDays
    back: bool

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
        targets = self._targets(closed)
        moved = np.zeros(meant.size, dtype=np.bool_)
        moved[targets[meant & (targets >= 0)]] = True
        return moved[dates.number - first]

    def targets(self, first: int, last: int) -> Ints:
        """Return for each day from `first` to `last` the day it moves to, itself if it is open; NOWHERE for none."""
        begin = first - FURTHEST
        found = self._targets(self.closed.flags(begin, last + FURTHEST))[FURTHEST:-FURTHEST]
        return np.where(found < 0, NOWHERE, found + begin)

    def _targets(self, closed: Flags) -> Ints:
        """Return for each flag the place of the open day that it moves to, or -1."""
        places = np.arange(closed.size)
        if self.back:
            to = np.maximum.accumulate(np.where(closed, -1, places))
        else:
            to = np.minimum.accumulate(np.where(closed, closed.size, places)[::-1])[::-1]
        within = (to >= 0) & (to < closed.size) & (np.abs(to - places) <= FURTHEST)
        return np.where(within, to, -1)
