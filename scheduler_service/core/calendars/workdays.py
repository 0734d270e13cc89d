"""Business days: W of cron lines, and `workday` of a calendar of months, counted by the free days of a calendar.

A day is free if it is in the calendar; where that has no whole weekdays of its own, Saturdays and Sundays are free too.
"""

from dataclasses import dataclass, fields, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from scheduler_service.core.calendars.times import CalendarTimes
from scheduler_service.core.schedules.days import CalendarDays, Dates, DayPattern, Days, Flags
from scheduler_service.core.schedules.kinds import Schedule, WallSchedule

Ints = NDArray[np.int64]
_WEEKEND: Final = 0b1000001
_EVERY_WEEKDAY: Final = 0b1111111
_AROUND: Final = 35  # days: no date of a month, nor L-30, is further away


def counts_workdays(schedule: Schedule) -> bool:
    """Whether the schedule has a part that business days decide."""
    return isinstance(schedule, WallSchedule) and _counts(schedule.wall.days)


def _counts(days: Any) -> bool:
    if isinstance(days, DayPattern):
        return bool(days.nearest or days.near_end)
    return isinstance(days, CalendarDays) and bool(days.nth) and days.together


def counted_apart(days: Days) -> tuple[Days, list[Days]]:
    """Return the days without those that business days decide; and of these each position, one day a month at most."""
    if isinstance(days, DayPattern):
        rest = replace(days, nearest=0, near_end=0)
        none = replace(rest, days=0, last_day=False, from_end=0)
        if days.either:
            none = replace(none, either=False, weekdays=_EVERY_WEEKDAY, nth=0, last_weekdays=0)
        found: list[Days] = [replace(none, nearest=1 << n) for n in range(32) if days.nearest >> n & 1]
        return rest, found + [replace(none, near_end=1 << n) for n in range(32) if days.near_end >> n & 1]
    if isinstance(days, CalendarDays) and _counts(days):
        return replace(days, nth=()), [replace(days, nth=(n,)) for n in days.nth]
    return days, []


class Workdays:
    """The business days by a calendar of free days."""

    def __init__(self, free: CalendarTimes) -> None:
        self._free = free
        self._weekend = 0 if free.weekdays else _WEEKEND

    def flags(self, first: int, last: int) -> Flags:
        """Return for each day from `first` to `last` whether it is a business day."""
        weekend = (self._weekend >> (np.arange(first, last + 1) + 4) % 7) & 1 != 0
        worked: Flags = ~(self._free.days(first, last) | weekend)
        return worked

    def of(self, days: DayPattern | CalendarDays) -> "WorkdayPattern | WorkdayMonths":
        """Return the same days, with their business days counted by this calendar."""
        values = {each.name: getattr(days, each.name) for each in fields(days)}
        if isinstance(days, DayPattern):
            return WorkdayPattern(**values, workdays=self)
        return WorkdayMonths(**values, workdays=self)


@dataclass(frozen=True, slots=True, eq=False)
class WorkdayPattern(DayPattern):
    """The day fields of a cron line, whose W is the nearest business day of the month; of two as near the earlier."""

    workdays: Workdays | None = None

    def nearest_workday(self, target: Ints, dates: Dates) -> Ints:
        """Return the business day nearest to the `target` day of each date's month, 0 where a month has none."""
        assert self.workdays is not None
        if not dates.number.size:
            return target
        first, last = int(dates.number.min()) - _AROUND, int(dates.number.max()) + _AROUND
        works = self.workdays.flags(first, last)
        places = np.arange(works.size)
        before = np.maximum.accumulate(np.where(works, places, -_AROUND * 2))
        after = np.minimum.accumulate(np.where(works, places, works.size + _AROUND * 2)[::-1])[::-1]
        at = dates.number - dates.day + target - first
        earlier, later = target - (at - before[at]), target + (after[at] - at)
        earlier = np.where(earlier >= 1, earlier, -_AROUND * 2)
        later = np.where(later <= dates.length, later, _AROUND * 4)
        found = np.where(target - earlier <= later - target, earlier, later)
        return np.where((found >= 1) & (found <= dates.length), found, 0)


@dataclass(frozen=True, slots=True, eq=False)
class WorkdayMonths(CalendarDays):
    """A calendar of months that counts business days: 3 is the third of a month, -1 its last."""

    workdays: Workdays | None = None

    def on_nth(self, dates: Dates) -> Flags:
        """Return for each date whether it is one of these business days of its month."""
        assert self.workdays is not None
        if not dates.number.size:
            return np.zeros(0, dtype=np.bool_)
        first, last = int(dates.number.min()) - _AROUND, int(dates.number.max()) + _AROUND
        works = self.workdays.flags(first, last)
        upto = np.concatenate([[0], np.cumsum(works)])
        begins = dates.number - dates.day + 1 - first
        at, ends = dates.number - first, begins + dates.length
        so_far = upto[at + 1] - upto[begins]
        to_come = upto[ends] - upto[at]
        named: Flags = np.isin(so_far, self.nth) | np.isin(-to_come, self.nth)
        return works[at] & named
