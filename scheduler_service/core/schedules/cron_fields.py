"""One field of a cron line: its text, checked by croniter, as a bit mask.

croniter decides the syntax. What it reads unlike cron (`5-5` as the whole field), or not at all (`LW`), is rewritten
first. Fields repeat far more often than lines, so masks are cached by field text. Errors name the field, its text and
the allowed values.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from croniter import croniter
from croniter.croniter import CroniterError

from itinerary.protocol.errors import BadValue
from scheduler_service.core.schedules.special_days import (
    MONTHS,
    NOTHING,
    WEEKDAYS,
    SpecialDays,
    day_of_month,
    day_of_week,
)

MAX_ITEMS: Final = 60
MAX_DIGITS: Final = 20
_SYNTAX: Final = "*, lists (1,5), ranges (1-5) and steps (*/15, 10-50/20)"
_NAMES: Final = {3: dict(zip(MONTHS, range(1, 13), strict=True)), 4: dict(zip(WEEKDAYS, range(7), strict=True))}
_RANGE = re.compile(r"([^-/#,]+)-([^-/#,]+)(/[1-9]\d*)?(#[1-5])?", re.ASCII)
_STEPPED = re.compile(r"(\*|(\d+|[a-z]{3})(?:-(\d+|[a-z]{3}|l))?)/(\d+)", re.ASCII)
_HASHED = re.compile(r"h(\(\d+-\d+\))?(/\d+)?", re.ASCII)
_RANDOM = re.compile(r"r(\(.*\))?(/.*)?", re.ASCII)
_ZERO = re.compile(r"0+([-/].*)?|.*-0+(/.*)?", re.ASCII)
_NTH = re.compile(r"(^|,)l\w|\wl(,|$)|#", re.ASCII)


@dataclass(frozen=True, slots=True)
class FieldKind:
    """A column of the line: its name, its bounds, and its extra syntax."""

    position: int
    name: str
    low: int
    high: int
    extras: str = ""

    @property
    def allowed(self) -> str:
        """Describe the allowed values of this field."""
        bounds = "0-7 (0 and 7 are Sunday)" if self.position == 4 else f"{self.low}-{self.high}"
        return f"{self.name}: {bounds}, {_SYNTAX}{self.extras}"

    @property
    def full(self) -> int:
        """Return the mask of every value."""
        return (1 << (self.high + 1)) - (1 << self.low)


KINDS: Final = (
    FieldKind(0, "minute", 0, 59),
    FieldKind(1, "hour", 0, 23),
    FieldKind(2, "day of month", 1, 31, ", L (last day), L-3, 15W (nearest weekday), LW, L-3W"),
    FieldKind(3, "month", 1, 12, ", names (JAN)"),
    FieldKind(4, "day of week", 0, 6, ", names (MON), 5#3 (third Friday), L5 or 5L (last Friday)"),
    FieldKind(5, "second", 0, 59),
    FieldKind(6, "year", 1970, 2099),
)
MINUTE, HOUR, DAY, MONTH, WEEKDAY, SECOND, YEAR = KINDS
FIVE: Final = (MINUTE, HOUR, DAY, MONTH, WEEKDAY)


@dataclass(frozen=True, slots=True)
class Field:
    """A parsed field; `mask` has bit n for the value n (bit 0 of a year is 1970)."""

    mask: int
    starred: bool
    special: SpecialDays = NOTHING
    notes: tuple[str, ...] = ()


@lru_cache(maxsize=16_384)
def read_field(kind: FieldKind, text: str, hash_id: str) -> Field:
    """Parse a lower-case field text; BadValue (field "", value the text) if it is invalid."""
    _refuse_absurd(kind, text)
    if _RANDOM.fullmatch(text):
        raise _bad(kind, text, "R would differ in every process; write H, or a fixed value")
    if _HASHED.fullmatch(text) and not hash_id:
        raise _bad(kind, text, "H is resolved from a job id, and none was given")
    if kind in (DAY, MONTH) and any(_ZERO.fullmatch(item) for item in text.split(",")):
        raise _bad(kind, text)
    if kind is WEEKDAY and "*" in text and _NTH.search(text):
        raise _bad(kind, text, "* beside an nth weekday would mean every day; write one of them")
    plain, special = _special(kind, text)
    plain = [_single_value(kind, item) for item in plain]
    mask = _mask(kind, _expanded(kind, ",".join(plain), hash_id)) if plain else 0
    if kind is DAY and any(item.endswith("-l") for item in plain):
        special |= SpecialDays(last_day=True)
    return Field(mask, text.startswith(("*", "?")), special, _notes(kind, text))


def _special(kind: FieldKind, text: str) -> tuple[list[str], SpecialDays]:
    """Split the items into plain ones and the meaning of the others."""
    read = {DAY: day_of_month, WEEKDAY: day_of_week}.get(kind)
    if read is None:
        return text.split(","), NOTHING
    plain, special = [], NOTHING
    for item in text.split(","):
        found = read(item)
        if found is None:
            plain.append(item)
        else:
            special |= found
    return plain, special


def _bad(kind: FieldKind, text: str, why: str = "") -> BadValue:
    return BadValue("", text, f"{why} ({kind.allowed})" if why else kind.allowed)


def _refuse_absurd(kind: FieldKind, text: str) -> None:
    if text.count(",") >= MAX_ITEMS:
        raise _bad(kind, text, f"a list has at most {MAX_ITEMS} items")
    if re.search(rf"\d{{{MAX_DIGITS + 1}}}", text):
        raise _bad(kind, text, "the number is absurdly large")


def _number(kind: FieldKind, text: str) -> str | int:
    if text.isdecimal():
        return int(text)
    return _NAMES.get(kind.position, {}).get(text, text)


def _single_value(kind: FieldKind, item: str) -> str:
    """Rewrite `5-5` and `5-5/2` as `5`: a range with equal bounds is that one value."""
    found = _RANGE.fullmatch(item)
    if not found or _number(kind, found[1]) != _number(kind, found[2]):
        return item
    return found[1] + (found[4] or "")


def _expanded(kind: FieldKind, text: str, hash_id: str) -> Sequence[int | str]:
    line = ["*"] * max(5, kind.position + 1)
    line[kind.position] = text
    try:
        parsed = croniter(" ".join(line), start_time=0.0, hash_id=hash_id or None)
    except (CroniterError, ValueError, TypeError, KeyError) as exc:
        raise _bad(kind, text) from exc
    if parsed.nth_weekday_of_month or parsed.nearest_weekday:
        raise _bad(kind, text)  # an item that `special_days` should have parsed
    return list(parsed.expanded[kind.position])


def _mask(kind: FieldKind, values: Sequence[int | str]) -> int:
    mask = kind.full if "*" in values else sum({1 << v for v in values if isinstance(v, int)})
    return mask >> (1970 if kind is YEAR else 0)


def _notes(kind: FieldKind, text: str) -> tuple[str, ...]:
    notes = []
    for item in text.split(","):
        stepped = _STEPPED.fullmatch(item)
        if stepped and _overshoots(kind, stepped):
            notes.append(
                f"{kind.name} {item!r}: the step is larger than what it steps through, so only the first "
                "value is meant; for a longer rhythm use an interval schedule"
            )
        found = _RANGE.fullmatch(item)
        if found and _wraps(kind, found):
            notes.append(f"{kind.name} {item!r}: the range wraps past {kind.high} to {kind.low}{_stepped(kind, item)}")
    return tuple(notes)


def _stepped(kind: FieldKind, item: str) -> str:
    """List the values of a wrapping range with a step: other programs continue across the end differently."""
    if "/" not in item:
        return ""
    return f", and with its step means {values_text(kind, _mask(kind, _expanded(kind, item, '')))}"


def _overshoots(kind: FieldKind, stepped: re.Match[str]) -> bool:
    low = kind.low if stepped[2] is None else _number(kind, stepped[2])
    high = kind.high if stepped[3] in (None, "l") else _number(kind, stepped[3])
    if not isinstance(low, int) or not isinstance(high, int):
        return False
    width = high - low if high >= low else high - low + kind.high - kind.low + 1
    return int(stepped[4]) > width


def _wraps(kind: FieldKind, found: re.Match[str]) -> bool:
    low, high = _number(kind, found[1]), _number(kind, found[2])
    # Writers of mon-sun or 1-0 mean Monday to Sunday, not a wrapping range.
    whole_week = kind is WEEKDAY and high == 0
    return isinstance(low, int) and isinstance(high, int) and low > high and not whole_week


def values_text(kind: FieldKind, mask: int) -> str:
    """List the values of a mask as text."""
    low = 1970 if kind is YEAR else 0
    return ",".join(str(n + low) for n in range(130) if mask >> n & 1)
