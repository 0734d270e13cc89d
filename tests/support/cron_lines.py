"""Random cron lines together with what they mean, said independently of the product's own reading."""

import calendar
import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta

from tests.support.oracle import Meaning

_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")


@dataclass(frozen=True)
class Line:
    """A cron line and its meaning; `plain` where croniter reads it by the same rules as we do."""

    text: str
    meaning: Meaning
    plain: bool
    dialect: str | None = None


def random_line(dice: random.Random, with_seconds: bool) -> Line:
    """A cron line of five or six fields, biased towards the small hours, where the clocks jump."""
    minute_text, minutes = _numbers(dice, 0, 59)
    hour_text, hours = _numbers(dice, 0, 23, small=4)
    day_text, on_day, day_open = _days(dice)
    month_text, months = _months(dice)
    weekday_text, on_weekday, weekday_open = _weekdays(dice)
    either = not day_text.startswith("*") and not weekday_text.startswith("*")
    texts = [minute_text, hour_text, day_text, month_text, weekday_text]
    seconds = frozenset({0})
    if with_seconds:
        second_text, seconds = _numbers(dice, 0, 59)
        texts.append(second_text)
    meaning = Meaning(
        minutes,
        hours,
        seconds,
        lambda day: day.month in months and _joined(on_day(day), on_weekday(day), either),
        wildcard=texts[0].startswith("*") or texts[1].startswith("*"),
    )
    plain = either or day_text == "*" or weekday_text == "*"
    plain = plain and not ("#" in weekday_text and day_text != "*")
    return Line(" ".join(texts), meaning, plain and day_open + weekday_open > 0)


def random_line_of(dialect: str, dice: random.Random) -> Line:
    """A line of Quartz (with years, at times) or Spring (both days at once, at times), and what it means there."""
    second_text, seconds = ("0", frozenset({0})) if dice.random() < 0.7 else _numbers(dice, 0, 59)
    minute_text, minutes = _numbers(dice, 0, 59)
    hour_text, hours = _numbers(dice, 0, 23, small=4)
    day_text, on_day, day_open = _days(dice)
    month_text, months = _months(dice)
    weekday_text, on_weekday = _weekdays_of(dialect, dice)
    year_text, years = "", None
    if dialect == "quartz":
        if minute_text.startswith("*/") and dice.random() < 0.3:
            minute_text = minute_text[1:]
        if dice.random() < 0.5 or day_open:
            day_text, on_day = "?", lambda _: True
        else:
            weekday_text, on_weekday = "?", lambda _: True
        if dice.random() < 0.2:
            first = dice.randint(1970, 2060)
            year_text, years = f" {first}-{first + 30}", range(first, first + 31)
    meaning = Meaning(
        minutes,
        hours,
        seconds,
        lambda day: day.month in months and on_day(day) and on_weekday(day) and (years is None or day.year in years),
        wildcard=minute_text.startswith(("*", "/")) or hour_text.startswith("*"),
    )
    text = f"{second_text} {minute_text} {hour_text} {day_text} {month_text} {weekday_text}{year_text}"
    return Line(text, meaning, plain=False, dialect=dialect)


def _weekdays_of(dialect: str, dice: random.Random) -> tuple[str, Callable[[date], bool]]:
    """A field for the weekday: Quartz counts from Sunday as 1, Spring as 0 or 7."""
    if dice.random() < 0.25:
        return "*", lambda _: True
    name = _WEEKDAYS.index
    shift = 1 if dialect == "quartz" else 0
    which, other, nth = dice.randrange(7), dice.randrange(7), dice.randint(1, 5)
    digit = str(which + shift) if which or dialect == "quartz" else dice.choice("07")
    shown = dice.choice((digit, _WEEKDAYS[which].upper()))
    match dice.randrange(6):
        case 0:
            return f"{shown}#{nth}", lambda day: _weekday(day) == which and (day.day - 1) // 7 + 1 == nth
        case 1:
            return f"{shown}L", lambda day: _weekday(day) == which and (day + timedelta(days=7)).month != day.month
        case 2:
            return f"{shown},{_WEEKDAYS[other]}", lambda day: _weekday(day) in (which, other)
        case 3 if dialect == "quartz" and which != other:  # past Saturday too
            days = {(which + n) % 7 for n in range((other - which) % 7 + 1)}
            return f"{shown}-{other + 1}", lambda day: _weekday(day) in days
        case 3 if dialect == "spring" and which > 0:  # up to Sunday, as 7
            last = dice.randint(which, 7)
            days = {n % 7 for n in range(which, last + 1)}
            return f"{shown}-{last}", lambda day: _weekday(day) in days
        case 4 if dialect == "quartz":
            step = dice.randint(2, 4)
            return f"{digit}/{step}", lambda day: _weekday(day) in range(which, 7, step)
        case 5 if dialect == "quartz":
            return "L", lambda day: _weekday(day) == name("sat")
        case _:
            return shown, lambda day: _weekday(day) == which


def _joined(by_day: bool, by_weekday: bool, either: bool) -> bool:
    return by_day or by_weekday if either else by_day and by_weekday


def _numbers(dice: random.Random, low: int, high: int, small: int | None = None) -> tuple[str, frozenset[int]]:
    top = small if small and dice.random() < 0.75 else high
    first, second = sorted((dice.randint(low, top), dice.randint(low, top)))
    step = dice.choice((1, 2, 3, 5, 7, 10, 15, 20, 30, 45))
    match dice.randrange(7):
        case 0:
            return "*", frozenset(range(low, high + 1))
        case 1:
            return f"*/{step}", frozenset(range(low, high + 1, step))
        case 2 if first < second:
            return f"{first}-{second}", frozenset(range(first, second + 1))
        case 3 if first < second:
            return f"{first}-{second}/{step}", frozenset(range(first, second + 1, step))
        case 4:
            return f"{first},{second}", frozenset({first, second})
        case 5:
            return f"{first}/{step}", frozenset(range(first, high + 1, step))
        case _:
            return str(first), frozenset({first})


def _months(dice: random.Random) -> tuple[str, frozenset[int]]:
    return ("*", frozenset(range(1, 13))) if dice.random() < 0.9 else _numbers(dice, 1, 12)


def _days(dice: random.Random) -> tuple[str, Callable[[date], bool], bool]:
    if dice.random() < 0.8:
        return "*", lambda _: True, True
    match dice.randrange(5):
        case 0:
            return "L", lambda day: (day + timedelta(days=1)).day == 1, False
        case 1:
            target = dice.randint(1, 31)
            return f"{target}W", lambda day: day == _nearest(day, target), False
        case 2:
            return "LW", lambda day: day == _nearest(day, 31), False
        case _:
            text, numbers = _numbers(dice, 1, 31)
            return text, lambda day: day.day in numbers, text == "*"


def _nearest(day: date, target: int) -> date:
    length = calendar.monthrange(day.year, day.month)[1]
    wanted = day.replace(day=min(target, length))
    working = [day.replace(day=n) for n in range(1, length + 1) if day.replace(day=n).isoweekday() <= 5]
    return min(working, key=lambda d: (abs((d - wanted).days), d.day))


def _weekdays(dice: random.Random) -> tuple[str, Callable[[date], bool], bool]:
    if dice.random() < 0.8:
        return "*", lambda _: True, True
    which, nth = dice.randrange(7), dice.randint(1, 5)
    match dice.randrange(4):
        case 0:
            return f"{which}#{nth}", lambda day: _weekday(day) == which and (day.day - 1) // 7 + 1 == nth, False
        case 1:
            return (
                f"L{which}",
                lambda day: _weekday(day) == which and (day + timedelta(days=7)).month != day.month,
                False,
            )
        case 2:
            return _WEEKDAYS[which], lambda day: _weekday(day) == which, False
        case _:
            text, numbers = _numbers(dice, 0, 6)
            return text, lambda day: _weekday(day) in numbers, text == "*"


def _weekday(day: date) -> int:
    return day.isoweekday() % 7
