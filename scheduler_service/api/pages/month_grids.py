"""A year of a calendar as twelve months of day squares. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Final

from scheduler_service.core.calendars.year import MarkedDay

WHOLE: Final = "whole"
IN_PART: Final = "part"
OPEN: Final = "open"
_NAMES: Final = 5


@dataclass(frozen=True, slots=True)
class DayCell:
    """One day: its column from Monday, its line, its mark, and the text that a pointer over it shows."""

    column: int
    line: int
    number: int
    mark: str
    is_today: bool
    text: str


@dataclass(frozen=True, slots=True)
class MonthGrid:
    """One month; `text` names its marked days for readers who do not see the picture."""

    name: str
    days: tuple[DayCell, ...]
    text: str


def month_grids(year: int, marked: Mapping[date, MarkedDay], today: date) -> list[MonthGrid]:
    """Return the months of a year, with the days that the calendar names marked."""
    return [_month(date(year, month, 1), marked, today) for month in range(1, 13)]


def _month(first: date, marked: Mapping[date, MarkedDay], today: date) -> MonthGrid:
    days = []
    day = first
    while day.month == first.month:
        found = marked.get(day)
        mark = OPEN if found is None else WHOLE if found.whole else IN_PART
        line = (day.day + first.weekday() - 1) // 7
        days.append(DayCell(day.weekday(), line, day.day, mark, day == today, _text(day, found)))
        day += timedelta(1)
    named = [str(cell.number) for cell in days if cell.mark != OPEN]
    return MonthGrid(f"{first:%B}", tuple(days), f"{first:%B %Y}: {', '.join(named) or 'no day'}")


def _text(day: date, found: MarkedDay | None) -> str:
    text = f"{day:%a} {day.day} {day:%b %Y}"
    if found is None:
        return text
    more = f" and {len(found.names) - _NAMES} more" if len(found.names) > _NAMES else ""
    names = f"{', '.join(found.names[:_NAMES])}{more}" or "in the calendar"
    return f"{text}: {names}{'' if found.whole else ' (part of the day)'}"
