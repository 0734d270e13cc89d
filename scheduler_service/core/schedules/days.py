"""The days of a schedule: day patterns of cron lines, and every-N-days calendars.

Days are counted from 1970-01-01 in local dates, and matched many at once. The Gregorian calendar repeats after 400
years, weekdays included, so one table of 146,097 days serves every date. Pure date arithmetic: knows neither zones nor
times of day.
"""

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Final, Literal, Protocol, Self

import numpy as np
from numpy.typing import NDArray

CYCLE_DAYS: Final = 146_097
CYCLE_YEARS: Final = 400
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
SUNDAY, SATURDAY = 0, 6
_FIRST_YEAR: Final = 1970
_YEARS: Final = 130


@dataclass(frozen=True, slots=True)
class Dates:
    """Columns of many local dates: `weekday` 0 is Sunday, `length` the days of the date's month."""

    number: Ints
    year: Ints
    month: Ints
    day: Ints
    weekday: Ints
    length: Ints

    @classmethod
    def of(cls, numbers: Ints) -> Self:
        """Return the columns of these day numbers."""
        cycles, rest = np.divmod(numbers, CYCLE_DAYS)
        year, month, day, length = _cycle().take(rest, axis=1).astype(np.int64)
        return cls(numbers, year + CYCLE_YEARS * cycles, month, day, (numbers + 4) % 7, length)


@lru_cache(maxsize=1)
def _cycle() -> NDArray[np.int16]:
    """Return year, month, day and the month's length of each date; compact, since they are kept for good."""
    table = np.empty((4, CYCLE_DAYS), dtype=np.int16)
    dates = np.arange(CYCLE_DAYS).astype("M8[D]")
    months = dates.astype("M8[M]")
    table[0] = dates.astype("M8[Y]").astype(np.int64) + 1970
    table[1] = months.astype(np.int64) % 12 + 1
    table[2] = (dates - months.astype("M8[D]")).astype(np.int64) + 1
    table[3] = ((months + 1).astype("M8[D]") - months.astype("M8[D]")).astype(np.int64)
    return table


def _bit(mask: int, values: Ints) -> Flags:
    flags: Flags = ((mask >> values) & 1).astype(np.bool_)
    return flags


@dataclass(frozen=True, slots=True)
class DayPattern:
    """The day, month, weekday and year fields of a cron line, as masks (bit n stands for the value n)."""

    days: int
    months: int
    weekdays: int
    either: bool
    """Whether a day matches by day of month OR weekday; else both must match."""
    last_day: bool = False
    nearest: int = 0
    """`nW`: bit n; `LW` is `31W`."""
    from_end: int = 0
    """`L-n`: bit n."""
    near_end: int = 0
    """`L-nW`: bit n."""
    nth: int = 0
    """`weekday#n`: bit 7 * (n - 1) + weekday."""
    last_weekdays: int = 0
    """`Ln`: bit n."""
    years: int | None = None
    """Bit 0 stands for 1970; None for every year."""

    @property
    def simple(self) -> bool:
        """Whether the three masks alone decide."""
        of_month = self.last_day or self.nearest or self.from_end or self.near_end
        special = of_month or self.nth or self.last_weekdays
        return not special and self.years is None

    def matches(self, dates: Dates) -> Flags:
        """Return for each date whether it matches."""
        by_day, by_weekday = self._by_day(dates), self._by_weekday(dates)
        meant = (by_day | by_weekday) if self.either else (by_day & by_weekday)
        meant &= _bit(self.months, dates.month)
        if self.years is not None:
            meant &= self._in_years(dates.year)
        return meant

    def _by_day(self, dates: Dates) -> Flags:
        meant = _bit(self.days, dates.day)
        if self.last_day:
            meant |= dates.day == dates.length
        for day in _set_bits(self.nearest):
            meant |= dates.day == self.nearest_workday(np.minimum(day, dates.length), dates)
        if self.from_end:
            meant |= _bit(self.from_end, dates.length - dates.day)
        for days in _set_bits(self.near_end):
            # A month that is too short has no such day.
            target = dates.length - days
            meant |= (target >= 1) & (dates.day == self.nearest_workday(target, dates))
        return meant

    def nearest_workday(self, target: Ints, dates: Dates) -> Ints:
        """Return the day of the month that W means by the `target` day of each date's month."""
        return _nearest_weekday(target, dates)

    def _by_weekday(self, dates: Dates) -> Flags:
        meant = _bit(self.weekdays, dates.weekday)
        if self.nth:
            meant |= _bit(self.nth, 7 * ((dates.day - 1) // 7) + dates.weekday)
        if self.last_weekdays:
            meant |= _bit(self.last_weekdays, dates.weekday) & (dates.day > dates.length - 7)
        return meant

    def _in_years(self, years: Ints) -> Flags:
        assert self.years is not None
        meant: Flags = _years(self.years)[np.clip(years - _FIRST_YEAR, -1, _YEARS)]
        return meant


@lru_cache(maxsize=256)
def _years(mask: int) -> Flags:
    """Return for each year from 1970 on whether it is meant; the last entry, also -1, is for all others."""
    return np.array([bool(mask >> year & 1) for year in range(_YEARS)] + [False])


def _set_bits(mask: int) -> list[int]:
    return [n for n in range(mask.bit_length()) if mask >> n & 1]


def _nearest_weekday(target: Ints, dates: Dates) -> Ints:
    """Return the working day nearest to the `target` day of each date's month, within the month."""
    weekday = (dates.weekday + target - dates.day) % 7
    saturday = np.where(target == 1, 2, -1)
    sunday = np.where(target == dates.length, -2, 1)
    shift = np.where(weekday == SATURDAY, saturday, np.where(weekday == SUNDAY, sunday, 0))
    return target + shift


Unit = Literal["day", "week", "month"]


@dataclass(frozen=True, slots=True)
class CalendarDays:
    """Every N days, weeks or months counted from the local date `first`, on the named days."""

    every: int
    unit: Unit
    first: int
    month_days: tuple[int, ...] = ()
    """Days of the month; -1 is the last. A month without the day is skipped."""
    weekdays: int = 0
    nth: tuple[int, ...] = ()
    """In a calendar of months: which of each weekday, -1 is the last; or with `together`, of all these weekdays."""
    together: bool = False

    @property
    def simple(self) -> bool:
        """Return False: a calendar counts from its first date, which no mask can hold."""
        return False

    def matches(self, dates: Dates) -> Flags:
        """For each date, whether it is meant."""
        return self._counted(dates) & (dates.number >= self.first)

    def _counted(self, dates: Dates) -> Flags:
        match self.unit:
            case "day":
                counted: Flags = (dates.number - self.first) % self.every == 0
                return counted
            case "week":
                weeks = (dates.number + 3) // 7 - (self.first + 3) // 7
                in_week: Flags = weeks % self.every == 0
                return in_week & _bit(self.weekdays, dates.weekday)
            case "month":
                start = Dates.of(np.asarray([self.first]))
                months = 12 * (dates.year - start.year[0]) + dates.month - start.month[0]
                in_month: Flags = months % self.every == 0
                return in_month & (self.on_nth(dates) if self.nth else self.on_month_day(dates))

    def on_month_day(self, dates: Dates) -> Flags:
        """For each date, whether it is one of the month's days."""
        from_end = dates.day - dates.length - 1
        return np.isin(dates.day, self.month_days) | np.isin(from_end, self.month_days)

    def on_nth(self, dates: Dates) -> Flags:
        """For each date, whether it is one of the month's named weekdays by its number."""
        named = _set_bits(self.weekdays)
        counted = [np.asarray([weekday]) for weekday in named] if self.together else [dates.weekday]
        so_far = sum((dates.day + 6 - (dates.weekday - weekday) % 7) // 7 for weekday in counted)
        to_come = sum((dates.length - dates.day + 7 - (weekday - dates.weekday) % 7) // 7 for weekday in counted)
        is_nth: Flags = np.isin(so_far, self.nth) | np.isin(-np.asarray(to_come), self.nth)
        return _bit(self.weekdays, dates.weekday) & is_nth


class Days(Protocol):
    """Days of local dates, matched many at once."""

    @property
    def simple(self) -> bool:
        """Whether the masks of a DayPattern say everything."""

    def matches(self, dates: Dates, /) -> Flags:
        """Return for each date whether it is meant."""


@lru_cache(maxsize=65_536)
def ever_matches(days: Days) -> bool:
    """Whether any date matches; searches the whole 400-year cycle if necessary, and the years after it."""
    for span in pairwise((0, 8 * 366, 100 * 366, CYCLE_DAYS, 2 * CYCLE_DAYS)):
        if bool(days.matches(Dates.of(np.arange(*span))).any()):
            return True
    return False
