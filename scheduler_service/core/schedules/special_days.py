"""Special items of the day fields, beyond plain numbers: `L`, `L-3`, `15W`, `L-3W`, `5#3`, `L5`, `5L`, `FRIL`.

Lists may mix them with plain values (`1,15W`, `1,5L`), as Quartz, Cronos, croner and cron-parser read them.
"""

import re
from dataclasses import dataclass
from typing import Final

WEEKDAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_FULL: Final = {
    "sunday": "sun", "monday": "mon", "tuesday": "tue", "wednesday": "wed", "thursday": "thu", "friday": "fri",
    "saturday": "sat", "january": "jan", "february": "feb", "march": "mar", "april": "apr", "june": "jun",
    "july": "jul", "august": "aug", "september": "sep", "october": "oct", "november": "nov", "december": "dec",
}  # fmt: skip
_WORD: Final = re.compile(r"[a-z]+", re.ASCII)
_NEAREST: Final = re.compile(r"(?:(\d{1,2})w|w(\d{1,2}))", re.ASCII)
_FROM_END: Final = re.compile(r"l-(\d{1,2})(w?)", re.ASCII)
_DAY: Final = rf"[0-7]|{'|'.join(WEEKDAYS)}"
_LAST: Final = re.compile(rf"l({_DAY})|({_DAY})l", re.ASCII)
_NTH: Final = re.compile(rf"({_DAY})(?:-({_DAY}))?#([1-5])", re.ASCII)


@dataclass(frozen=True, slots=True)
class SpecialDays:
    """The special items of a field, as masks; see `DayPattern` in `core/schedules/days.py`."""

    last_day: bool = False
    nearest: int = 0
    from_end: int = 0
    near_end: int = 0
    nth: int = 0
    last_weekdays: int = 0

    def __or__(self, other: "SpecialDays") -> "SpecialDays":
        return SpecialDays(
            self.last_day or other.last_day,
            self.nearest | other.nearest,
            self.from_end | other.from_end,
            self.near_end | other.near_end,
            self.nth | other.nth,
            self.last_weekdays | other.last_weekdays,
        )

    def __bool__(self) -> bool:
        return self != NOTHING


NOTHING: Final = SpecialDays()


def short_names(text: str) -> str:
    """Shorten full names of months and weekdays to three letters: `thursday` to `thu`, `fridayl` to `fril`."""
    return _WORD.sub(_short, text)


def _short(found: re.Match[str]) -> str:
    word = found[0]
    if word.endswith("l") and word[:-1] in _FULL:
        return f"{_FULL[word[:-1]]}l"
    return _FULL.get(word, word)


def day_of_month(item: str) -> SpecialDays | None:
    """Parse one item of the day of month; None for a plain one."""
    if item == "l":
        return SpecialDays(last_day=True)
    if item == "lw":
        return SpecialDays(nearest=1 << 31)
    nearest = _NEAREST.fullmatch(item)
    if nearest and 1 <= (day := int(nearest[1] or nearest[2])) <= 31:
        return SpecialDays(nearest=1 << day)
    from_end = _FROM_END.fullmatch(item)
    if from_end and 1 <= (days := int(from_end[1])) <= 30:
        return SpecialDays(near_end=1 << days) if from_end[2] else SpecialDays(from_end=1 << days)
    return None


def day_of_week(item: str) -> SpecialDays | None:
    """Parse one item of the day of week; None for a plain one."""
    last = _LAST.fullmatch(item)
    if last:
        return SpecialDays(last_weekdays=1 << _weekday(last[1] or last[2]))
    nth = _NTH.fullmatch(item)
    if not nth:
        return None
    first, final, week = _weekday(nth[1]), _weekday(nth[2] or nth[1]), int(nth[3]) - 1
    days = {(first + n) % 7 for n in range((final - first) % 7 + 1)}
    return SpecialDays(nth=sum(1 << 7 * week + day for day in days))


def _weekday(text: str) -> int:
    return int(text) % 7 if text.isdecimal() else WEEKDAYS.index(text)
