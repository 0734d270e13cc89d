"""Cron lines as masks: parsed once when a job is saved, then matched without the text.

The dialect is croniter's: five fields, or six with the seconds last, or seven with the year. Day of month and weekday
are ORed when neither starts with `*`, else ANDed (Vixie); `day_match: and` always ANDs. A line of another dialect is
rewritten first. Lines that never match any date are refused. Pure text and bits: knows no zone and no clock.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import Final, Literal

from itinerary.protocol.errors import BadValue
from scheduler_service.core.schedules.cron_fields import (
    DAY,
    HOUR,
    KINDS,
    MINUTE,
    MONTH,
    SECOND,
    WEEKDAY,
    YEAR,
    Field,
    FieldKind,
    read_field,
    values_text,
)
from scheduler_service.core.schedules.days import DayPattern, ever_matches
from scheduler_service.core.schedules.dialects import DIALECTS, Dialect, own_line
from scheduler_service.core.schedules.other_dialects import (
    RRULE_ADVICE,
    advice,
    is_rrule,
    means_more_than_a_second,
    seconds_first,
)
from scheduler_service.core.schedules.special_days import short_names

DayMatch = Literal["or", "and"]
MAX_LENGTH: Final = 256
ALIASES: Final = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_SHAPE: Final = (
    "give 5 fields (minute, hour, day of month, month, day of week), a 6th for seconds, a 7th for years, "
    "or one of " + ", ".join(ALIASES)
)
_HASHED = re.compile(r"(^|\s)h(\(|/|\s|$)", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class CronPattern:
    """The wall times that a line matches; bit n of a mask stands for the value n."""

    minutes: int
    hours: int
    seconds: int
    days: DayPattern
    wildcard: bool
    """Whether the minute or hour field starts with `*`: such a job follows elapsed time."""


@dataclass(frozen=True, slots=True)
class CronLine:
    """An accepted line: its pattern, whether it names seconds, and the warnings for its writer."""

    pattern: CronPattern
    has_seconds: bool
    notes: tuple[str, ...]


def has_hash(expr: str) -> bool:
    """Whether the line holds an `H`, so that its meaning depends on the job id."""
    return _HASHED.search(expr) is not None


def read_line(expr: object, day_match: DayMatch, job_id: str, dialect: Dialect | None = None) -> CronLine:
    """Parse a cron line; BadValue naming `expr`, the field and its allowed values."""
    text = _checked(expr)
    if dialect is None:
        text = ALIASES.get(text, text)
    own = job_id if has_hash(text) else ""
    try:
        return _read(text, day_match, own) if dialect is None else _read_rewritten(text, day_match, dialect)
    except BadValue as refused:
        hint = _hint(text, day_match, own) if dialect is None else ""
        raise BadValue("expr", expr, hint + refused.allowed) from None


def rewritten(expr: str, dialect: Dialect) -> str:
    """Return a line of another dialect as this one writes it."""
    return _rewritten(_checked(expr), dialect)


def _rewritten(text: str, dialect: Dialect) -> str:
    return ALIASES[text] if dialect == "spring" and text in ALIASES else own_line(dialect, text)


@lru_cache(maxsize=65_536)
def _read_rewritten(text: str, day_match: DayMatch, dialect: Dialect) -> CronLine:
    line = _read_plainly(_rewritten(text, dialect), day_match, "")
    # There every line has a field for the seconds; only another value than 0 names them.
    return replace(line, has_seconds=line.pattern.seconds != 1)


def _hint(text: str, day_match: DayMatch, job_id: str) -> str:
    """Say how else a refused line may be meant; empty if no other reading is valid."""
    other, dialects = _other_reading(text, day_match, job_id), _readers(text, day_match)
    return f"{advice(text, other, dialects)}; " if other or dialects else ""


def _readers(text: str, day_match: DayMatch) -> list[Dialect]:
    """List the dialects in which the line is valid."""
    found = []
    for dialect in DIALECTS:
        try:
            _read_rewritten(text, day_match, dialect)
        except BadValue:
            continue
        found.append(dialect)
    return found


def _other_reading(text: str, day_match: DayMatch, job_id: str) -> str | None:
    """Return the line rewritten from seconds-first to this dialect, if the result is valid."""
    reading = seconds_first(text)
    if reading is None:
        return None
    try:
        _read_plainly(reading, day_match, job_id)
    except BadValue:
        return None
    return reading


def _checked(expr: object) -> str:
    if not isinstance(expr, str) or not expr.strip():
        raise BadValue("expr", expr, _SHAPE)
    if is_rrule(expr[:MAX_LENGTH].lower()):
        raise BadValue("expr", expr, RRULE_ADVICE)
    if len(expr) > MAX_LENGTH:
        raise BadValue("expr", expr, f"at most {MAX_LENGTH} characters, not {len(expr)}")
    if not expr.isascii() or not expr.replace("\t", " ").isprintable():
        raise BadValue("expr", expr, f"only printable ASCII characters; {_SHAPE}")
    text = short_names(" ".join(expr.split()).lower())
    if "=" in text:
        raise BadValue("expr", expr, "put the time zone in the field timezone, not in the expression")
    if text.startswith("@") and text not in ALIASES:
        raise BadValue("expr", expr, _alias_advice(text))
    return text


def _alias_advice(text: str) -> str:
    if text.startswith("@every"):
        return "for a rhythm use {'kind': 'interval', 'every': '5m'}"
    return f"the aliases are {', '.join(ALIASES)}"


@lru_cache(maxsize=65_536)
def _read(text: str, day_match: DayMatch, job_id: str) -> CronLine:
    line = _read_plainly(text, day_match, job_id)
    if not line.has_seconds or not means_more_than_a_second(text):
        return line
    other = _other_reading(text, day_match, job_id)
    if other is None:
        return line
    return replace(line, notes=(advice(text, other, _readers(text, day_match)), *line.notes))


def _read_plainly(text: str, day_match: DayMatch, job_id: str) -> CronLine:
    parts = text.split(" ")
    if len(parts) not in (5, 6, 7):
        raise BadValue("expr", text, f"{_SHAPE}; this has {len(parts)}")
    fields = {kind: _field(text, kind, part, job_id) for kind, part in zip(KINDS, parts, strict=False)}
    pattern = _pattern(fields, day_match)
    if not ever_matches(pattern.days):
        raise BadValue("expr", text, "this date never happens, so the job would never run")
    return CronLine(pattern, SECOND in fields, _notes(fields, pattern))


def _field(text: str, kind: FieldKind, part: str, job_id: str) -> Field:
    try:
        return read_field(kind, part, job_id if _HASHED.search(part) else "")
    except BadValue as refused:
        raise BadValue("expr", text, f"{refused.value!r} is not understood as {refused.allowed}") from None


def _pattern(fields: Mapping[FieldKind, Field], day_match: DayMatch) -> CronPattern:
    day, weekday = fields[DAY], fields[WEEKDAY]
    year = fields.get(YEAR)
    days = DayPattern(
        days=day.mask,
        months=fields[MONTH].mask,
        weekdays=weekday.mask,
        either=day_match == "or" and not day.starred and not weekday.starred,
        last_day=day.special.last_day,
        nearest=day.special.nearest,
        from_end=day.special.from_end,
        near_end=day.special.near_end,
        nth=weekday.special.nth,
        last_weekdays=weekday.special.last_weekdays,
        years=None if year is None or year.mask == (1 << 130) - 1 else year.mask,
    )
    return CronPattern(
        minutes=fields[MINUTE].mask,
        hours=fields[HOUR].mask,
        seconds=fields[SECOND].mask if SECOND in fields else 1,
        days=_shared(days),
        wildcard=fields[MINUTE].starred or fields[HOUR].starred,
    )


@lru_cache(maxsize=65_536)
def _shared(days: DayPattern) -> DayPattern:
    return days


def _notes(fields: Mapping[FieldKind, Field], pattern: CronPattern) -> tuple[str, ...]:
    notes = [note for field in fields.values() for note in field.notes]
    if pattern.days.either:
        notes.append(
            "day of month and day of week are both given, so the job runs on days that match EITHER; "
            "set day_match to 'and' for days that match both"
        )
    if _closest_seconds(pattern) < 10:
        notes.append("this runs more often than every 10 seconds")
    return tuple(notes)


def _closest_seconds(pattern: CronPattern) -> int:
    """Return the shortest distance between two runs within a minute, or across its end if minutes adjoin."""
    seconds = [n for n in range(60) if pattern.seconds >> n & 1]
    distances = [b - a for a, b in pairwise(seconds)]
    if pattern.minutes & (pattern.minutes >> 1) or (pattern.minutes & 1 and pattern.minutes >> 59):
        distances.append(60 - seconds[-1] + seconds[0])
    return min(distances, default=60)


def resolve_hash(text: str, job_id: str) -> str:
    """Replace each `H` of the line by its values, so that the saved text shows the time."""
    parts = text.split(" ")
    for n, (kind, part) in enumerate(zip(KINDS, parts, strict=False)):
        if _HASHED.search(part):
            parts[n] = values_text(kind, read_field(kind, part.lower(), job_id).mask)
    return " ".join(parts)
