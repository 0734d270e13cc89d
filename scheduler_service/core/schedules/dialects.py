"""Cron lines of Quartz and of Spring, written in the dialect of this service. Only text.

Owns what differs there: seconds come first, Quartz counts weekdays from 1 = Sunday and wants a `?`, Spring has its own
abbreviations. It never guesses: the schedule names the dialect. What it leaves as it is, `cron_fields` judges.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, get_args

from itinerary.protocol.errors import BadValue
from scheduler_service.core.schedules.special_days import WEEKDAYS

Dialect = Literal["quartz", "spring"]
DIALECTS: Final[tuple[Dialect, ...]] = get_args(Dialect)
_DAY: Final = rf"[0-7]|{'|'.join(WEEKDAYS)}"
_SPECIAL: Final = re.compile(rf"({_DAY})(l|#[1-5])", re.ASCII)
_RANGE: Final = re.compile(rf"({_DAY})(?:-({_DAY}))?(?:/([1-9]))?", re.ASCII)
_FROM_FIRST: Final = re.compile(r"\*/([1-9])", re.ASCII)
_OMIT: Final = "for a line of this service's own dialect omit dialect (in an edit: null)"
_SIX: Final = "second, minute, hour, day of month, month, day of week"


@dataclass(frozen=True, slots=True)
class _Rules:
    """How a program writes its lines; `sunday` is the number of Sunday in its weekdays."""

    name: str
    lengths: tuple[int, ...]
    fields: str
    sunday: int
    weekdays: str


_RULES: Final[dict[Dialect, _Rules]] = {
    "quartz": _Rules(
        "Quartz", (6, 7), f"6 fields ({_SIX}) or 7, with the year", 1,
        "1-7 (1 is Sunday), names (MON), lists, ranges, steps, 6#3 (third Friday), 6L (last Friday), L (Saturday), ?",
    ),
    "spring": _Rules(
        "Spring", (6,), f"6 fields ({_SIX}) or an abbreviation such as @daily", 0,
        "0-7 (0 and 7 are Sunday), names (MON), lists, ranges, steps in a range, 5#3 (third Friday), 5L (last Friday)",
    ),
}  # fmt: skip


def own_line(dialect: Dialect, text: str) -> str:
    """Rewrite a lower-case line with single spaces; BadValue says what that program's line must be."""
    rules = _RULES[dialect]
    parts = text.split(" ")
    if len(parts) not in rules.lengths:
        raise _bad(text, f"a line of {rules.name} has {rules.fields}; this has {len(parts)}; {_OMIT}")
    for part in parts:
        if part.startswith("h"):
            raise _bad(text, f"{rules.name} has no H: give a value; {_OMIT}")
    second, minute, hour, day, month, weekday, *rest = (_explicit(dialect, part) for part in parts)
    if any("?" in part for part in (second, minute, hour, month, *rest)):
        raise _bad(text, "? may only stand for the day of month or the day of week")
    if dialect == "quartz" and (day == "?") == (weekday == "?"):
        raise _bad(text, "Quartz wants ? in one of the two day fields, and a value or * in the other")
    own = [minute, hour, _any(day), month, _weekdays(dialect, text, _any(weekday))]
    second = "0" if second.strip("0") == "" else second
    if rest and rest != ["*"]:
        return " ".join([*own, second, *rest])
    return " ".join(own if second == "0" else [*own, second])


def _bad(text: str, why: str) -> BadValue:
    return BadValue("expr", text, why)


def _any(part: str) -> str:
    return "*" if part == "?" else part


def _explicit(dialect: Dialect, part: str) -> str:
    """Write the `*` that Quartz leaves out before a step."""
    return re.sub(r"(^|,)/", r"\1*/", part) if dialect == "quartz" else part


def _weekdays(dialect: Dialect, text: str, part: str) -> str:
    """Return the field with 0 for Sunday to 6 for Saturday."""
    if part == "*":
        return part
    items = []
    for item in part.split(","):
        own = _weekday_item(dialect, item)
        if own is None:
            rules = _RULES[dialect]
            raise _bad(text, f"{item!r} is not understood as day of week of {rules.name}: {rules.weekdays}")
        items.append(own)
    return ",".join(items)


def _weekday_item(dialect: Dialect, item: str) -> str | None:
    if dialect == "quartz" and item == "l":
        return "6"
    if dialect == "quartz" and _FROM_FIRST.fullmatch(item):
        return item
    special = _SPECIAL.fullmatch(item)
    if special:
        day = _number(dialect, special[1])
        return None if day is None else f"{_own(dialect, day)}{special[2]}"
    found = _RANGE.fullmatch(item)
    days = _range(dialect, found) if found else None
    return _listed([_own(dialect, day) for day in days]) if days else None


def _range(dialect: Dialect, found: re.Match[str]) -> Sequence[int] | None:
    """Return the days of `2`, `2-6`, `2-6/2` or `2/2` as that program numbers them, 1 to 7."""
    low, high = _number(dialect, found[1]), _number(dialect, found[2] or found[1])
    if low is None or high is None:
        return None
    if (not found[2] and not found[3]) or found[1] == found[2]:
        return [low]
    if not found[2]:
        # Spring's page has steps in a range only, and two Sundays to begin from.
        return range(low, 8, int(found[3])) if dialect == "quartz" else None
    if dialect == "spring" and low == 7:
        low = 0
    if low <= high:
        return range(low, high + 1, int(found[3] or 1))
    # A range of Quartz may pass Saturday; its page promises nothing for a step that does.
    return None if dialect == "spring" or found[3] else [*range(low, 8), *range(1, high + 1)]


def _number(dialect: Dialect, day: str) -> int | None:
    """Return a weekday as that program numbers it, Spring's Sunday as 7; None for one that it does not have."""
    first = _RULES[dialect].sunday
    number = int(day) if day.isdecimal() else WEEKDAYS.index(day) + first
    if dialect == "spring":
        return number or 7
    return number or None


def _own(dialect: Dialect, day: int) -> int:
    return (day - _RULES[dialect].sunday) % 7


def _listed(days: Sequence[int]) -> str:
    if len(days) > 1 and list(days) == list(range(days[0], days[-1] + 1)):
        return f"{days[0]}-{days[-1]}"
    return ",".join(map(str, sorted(set(days))))
