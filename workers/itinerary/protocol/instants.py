"""Instants and durations: whole microseconds as integers, UTC, and their texts.

An `Instant` counts microseconds since 1970-01-01T00:00:00Z; a `Duration` is a number of microseconds.
Integers make the index, the guards and the tests exact; texts appear only at the borders.
"""

import re
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from typing import Final

from itinerary.protocol.errors import BadValue

Instant = int
Duration = int

MICROSECOND: Final = 1
MILLISECOND: Final = 1_000
SECOND: Final = 1_000_000
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR
LONGEST_DURATION: Final = (1 << 63) - 1
"""The longest duration that a database can keep, in microseconds."""

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_UNITS = {"ms": MILLISECOND, "s": SECOND, "m": MINUTE, "h": HOUR, "d": DAY, "w": 7 * DAY}
_MANY_MILLISECONDS: Final = 1_000_000_000 * MILLISECOND
_SHORT = re.compile(r"(\d{1,16}(?:\.\d{1,6})?)(ms|s|m|h|d|w)", re.ASCII)
_ISO = re.compile(
    r"P(?:(?P<w>\d{1,16})W)?(?:(?P<d>\d{1,16})D)?"
    r"(?:T(?:(?P<h>\d{1,16})H)?(?:(?P<m>\d{1,16})M)?(?:(?P<s>\d{1,16}(?:\.\d{1,6})?)S)?)?",
    re.ASCII,
)
_RFC3339 = re.compile(r"(\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}:\d{2})(?:\.(\d{1,6}))?(?:[Zz]|([+-]\d{2}:\d{2}))", re.ASCII)
_CLOCK_END = re.compile(r"(:\d{2})(?:[.,](\d+))?(Z\Z|(?=[+-])|\Z)", re.ASCII)


def from_datetime(moment: datetime) -> Instant:
    """The instant of an aware datetime; a naive one raises ValueError, since its zone would be a guess."""
    if moment.tzinfo is None:
        raise ValueError("a datetime without a zone names no instant")
    since = moment - _EPOCH
    return (since.days * 86_400 + since.seconds) * SECOND + since.microseconds


def to_datetime(instant: Instant) -> datetime:
    """The instant as an aware datetime in UTC."""
    return _EPOCH + timedelta(microseconds=instant)


def format_instant(instant: Instant) -> str:
    """RFC 3339 in UTC with Z, trailing zeros of the fraction cut: `2026-11-27T10:00:00Z`."""
    seconds, micros = divmod(instant, SECOND)
    fraction = f".{micros:06d}".rstrip("0") if micros else ""
    return f"{_second(seconds)}{fraction}Z"


@lru_cache(maxsize=1_024)
def _second(seconds: int) -> str:
    return (_EPOCH + timedelta(seconds=seconds)).isoformat()[:19]


_PLACES: Final = (0, 100_000, 10_000, 1_000, 100, 10, 1)
_SHORTEST_TIME: Final = len("2026-11-27T10:00:00Z")
_LONGEST_TIME: Final = len("2026-11-27T10:00:00.123456Z")
_FIRST: Final = from_datetime(datetime.min.replace(tzinfo=timezone.utc))
_LAST: Final = from_datetime(datetime.max.replace(tzinfo=timezone.utc))


def parse_instant(text: object, field: str = "at") -> Instant:
    """An RFC 3339 time with its offset, as an instant; anything else raises BadValue naming `field`."""
    if isinstance(text, str) and len(text) <= _LONGEST_TIME and text[-1:] == "Z":
        second, fraction = _known_second(text[:19]), text[20:-1]
        if second is not None:
            if len(text) == _SHORTEST_TIME:
                return second
            if text[19] == "." and fraction.isdigit() and fraction.isascii():
                return second + int(fraction) * _PLACES[len(fraction)]
    return _parsed(text, field)


@lru_cache(maxsize=1_024)
def _known_second(text: str) -> Instant | None:
    """The instant of the first part of a time in UTC, or None: most times of a second are those of many runs."""
    try:
        return _parsed(f"{text}Z", "at")
    except BadValue:
        return None


def _parsed(text: object, field: str) -> Instant:
    allowed = "give an RFC 3339 time with an offset, such as 2026-11-27T10:00:00Z"
    parts = _RFC3339.fullmatch(text) if isinstance(text, str) and len(text) <= 40 else None
    if parts is None:
        raise BadValue(field, text, allowed)
    second, fraction, offset = parts.groups()
    # Python 3.10 reads neither Z nor a fraction of other than three or six digits.
    micros = f".{fraction:0<6}" if fraction else ""
    try:
        instant = from_datetime(datetime.fromisoformat(f"{second}{micros}{offset or '+00:00'}"))
    except (ValueError, OverflowError) as exc:
        raise BadValue(field, text, f"{allowed} ({exc})") from exc
    if not _FIRST <= instant <= _LAST:  # its offset moves it outside the years 1 to 9999
        raise BadValue(field, text, f"{allowed} (out of range: in UTC it lies outside of the years 1 to 9999)")
    return instant


def spelt_out(text: str) -> str:
    """An ISO 8601 time with colons, as Python 3.10 reads it: six digits after a point, and +00:00 in place of Z."""
    return _CLOCK_END.sub(_as_before_3_11, text)


def _as_before_3_11(found: re.Match[str]) -> str:
    time, fraction, offset = found.groups()
    micros = f".{fraction[:6]:0<6}" if fraction else ""
    return f"{time}{micros}{'+00:00' if offset else ''}"


@lru_cache(maxsize=4_096)
def format_duration(duration: Duration) -> str:
    """The exact text in one unit, `90s`, `25m`, `2h`, `1d`, `1500ms`, `0.25s`; `parse_duration` reads each of them."""
    for unit in ("d", "h", "m", "s", "ms"):
        size = _UNITS[unit]
        # The previous release reads at most nine digits.
        if duration and duration % size == 0 and (unit != "ms" or duration < _MANY_MILLISECONDS):
            return f"{duration // size}{unit}"
    seconds, micros = divmod(duration, SECOND)
    fraction = f".{micros:06d}".rstrip("0") if micros else ""
    return f"{seconds}{fraction}s"


def parse_duration(text: object, field: str = "duration") -> Duration:
    """`90s`, `25m`, `2h`, `1d`, `1h30m` or ISO 8601 `PT25M`, in microseconds; else BadValue naming `field`."""
    allowed = "give a duration such as 90s, 25m, 2h, 1d or PT25M"
    duration = _duration(text) if isinstance(text, str) and len(text) <= 40 else None
    if duration is None:
        raise BadValue(field, text, allowed)
    if duration > LONGEST_DURATION:
        raise BadValue(field, text, f"{allowed}, at most {format_duration(LONGEST_DURATION)}")
    return duration


@lru_cache(maxsize=4_096)
def _duration(text: str) -> Duration | None:
    parts = _SHORT.findall(text)
    if parts and "".join(n + u for n, u in parts) == text:
        units = [u for _, u in parts]
        if len(set(units)) == len(units):
            return sum(_scaled(n, _UNITS[u]) for n, u in parts)
    iso = _ISO.fullmatch(text)
    if iso and any(iso.groupdict().values()) and not text.endswith("T"):
        return sum(_scaled(n, _UNITS[u]) for u, n in iso.groupdict().items() if n)
    return None


def _scaled(number: str, unit: int) -> int:
    whole, _, fraction = number.partition(".")
    return int(whole) * unit + (int(fraction) * unit // 10 ** len(fraction) if fraction else 0)
