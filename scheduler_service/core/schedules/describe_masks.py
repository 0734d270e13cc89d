"""Words for masks: the minutes, hours and days of their bits."""

from collections.abc import Sequence
from itertools import product
from typing import Final

from scheduler_service.core.schedules.days import DayPattern
from scheduler_service.core.schedules.wall_times import WallTimes

_FEW: Final = 4
_ALL_MINUTES, _ALL_HOURS, _ALL_MONTHS, _ALL_WEEKDAYS = (1 << 60) - 1, (1 << 24) - 1, (1 << 13) - 2, 127
_ALL_DAYS: Final = (1 << 32) - 2
_WEEKDAYS: Final = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_MONTHS: Final = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
_NTH: Final = ("first", "second", "third", "fourth", "fifth")


def line_text(wall: WallTimes) -> str:
    """Describe a cron line's masks in a sentence without a full stop."""
    days = wall.days
    assert isinstance(days, DayPattern)
    parts = [_times(wall), _days(days)]
    if days.months != _ALL_MONTHS:
        parts.append(f"in {listed([_MONTHS[n - 1] for n in bits_of(days.months)])}")
    if days.years is not None:
        parts.append(f"in {runs_of([1970 + n for n in bits_of(days.years)])}")
    return ", ".join(parts)


def _times(wall: WallTimes) -> str:
    block = wall.blocks[0]
    hours, minutes, seconds = (bits_of(m) for m in (block.hours, block.minutes, block.seconds))
    if len(hours) * len(minutes) * len(seconds) <= _FEW:
        clocks = (f"{h:02d}:{m:02d}" + (f":{s:02d}" if s else "") for h, m, s in product(hours, minutes, seconds))
        return f"At {listed(list(clocks))}"
    parts = []
    if seconds != [0]:
        parts.append("every second" if len(seconds) == 60 else f"second {runs_of(seconds)}")
    parts.append("every minute" if block.minutes == _ALL_MINUTES else f"minute {runs_of(minutes)}")
    parts.append("every hour" if block.hours == _ALL_HOURS else f"hour {runs_of(hours)}")
    return f"At {' of '.join(parts)}"


def _days(days: DayPattern) -> str:
    by_day, by_weekday = _month_days(days), _week_days(days)
    if days.either:
        return f"on {by_day} or on {by_weekday}"
    named = [parts for parts in (by_day, by_weekday) if parts]
    return "every day" if not named else f"on {' that is also '.join(named)}"


def _month_days(days: DayPattern) -> str:
    named = [] if days.days in (0, _ALL_DAYS) else [f"day {runs_of(bits_of(days.days))} of the month"]
    if days.last_day:
        named.append("the last day of the month")
    named += [f"{_day_before_end(n)} of the month" for n in bits_of(days.from_end)]
    named += [
        "the last weekday of the month" if n == 31 else f"the weekday nearest day {n} of the month"
        for n in bits_of(days.nearest)
    ]
    named += [f"the weekday nearest {_day_before_end(n)} of the month" for n in bits_of(days.near_end)]
    return " or ".join(named)


def _day_before_end(days: int) -> str:
    return f"{days} day{'s' if days > 1 else ''} before the last day"


def _week_days(days: DayPattern) -> str:
    named = [] if days.weekdays in (0, _ALL_WEEKDAYS) else [weekday_text(days.weekdays, "or")]
    named += [f"the {_NTH[n // 7]} {_WEEKDAYS[n % 7]} of the month" for n in bits_of(days.nth)]
    named += [f"the last {_WEEKDAYS[n]} of the month" for n in bits_of(days.last_weekdays)]
    return " or ".join(named)


def weekday_text(mask: int, word: str = "and") -> str:
    """Return the names of weekdays, bit 0 being Sunday."""
    return listed([_WEEKDAYS[n] for n in bits_of(mask)], word)


def bits_of(mask: int) -> list[int]:
    """Return the numbers whose bits are set."""
    return [n for n in range(mask.bit_length()) if mask >> n & 1]


def listed(parts: Sequence[str], word: str = "and") -> str:
    """Join words: `a`, `a and b`, `a, b and c`."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} {word} {parts[-1]}"


def runs_of(numbers: Sequence[int]) -> str:
    """List ascending numbers, joining neighbours: `1 to 5, 9 and 12`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return listed([str(r[0]) if len(r) == 1 else f"{r[0]} to {r[-1]}" for r in runs])
