"""A plain, slow model of the clock rules: one instant after another, no masks, no arrays, no spans.

It reads a zone's clock at every minute of a window and asks at each whether something is due, as a person
with a watch would. The property tests hold the product's engines against it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

from scheduler_service.core.schedules.zones import zone as load_zone

_MINUTE = timedelta(minutes=1)
_HALF_HOUR = 1800


@dataclass(frozen=True)
class Meaning:
    """What a schedule means, in plain sets."""

    minutes: frozenset[int]
    hours: frozenset[int]
    seconds: frozenset[int]
    on_day: Callable[[date], bool]
    wildcard: bool
    gap: str = "next_valid"
    fold: str = "first"

    def names(self, wall: datetime) -> bool:
        """Whether this wall time's minute is one of the schedule's."""
        return wall.minute in self.minutes and wall.hour in self.hours and self.on_day(wall.date())


def fires(meaning: Meaning, zone: str, start: int, end: int) -> list[int]:
    """The seconds in [start, end) at which the schedule fires; offsets must be whole minutes there."""
    info = load_zone(zone)
    found = _elapsed(meaning, info, start, end) if meaning.wildcard else _watched(meaning, info, start, end)
    return sorted(set(found))


def _elapsed(meaning: Meaning, info: ZoneInfo, start: int, end: int) -> Iterator[int]:
    for minute in range(start - start % 60, end, 60):
        if meaning.names(_wall(info, minute)):
            yield from _within_minute(meaning, minute, start, end)


def _watched(meaning: Meaning, info: ZoneInfo, start: int, end: int) -> Iterator[int]:
    """A fixed schedule: look at every minute, from a day before where it jumps, and at what it skipped."""
    reached: datetime | None = None
    for minute, lasting in _warm_up(info, start, end):
        wall = _wall(info, minute)
        if reached is not None and wall > reached:
            caught_up = _skipped(meaning, reached, wall, minute)
            yield from (second for second in caught_up if start <= second < end)
        repeated = reached is not None and wall < reached
        if minute + 60 > start and meaning.names(wall) and _counts(meaning, info, minute, repeated):
            yield from _within_minute(meaning, minute, start, end)
        ahead = wall + lasting
        if reached is None or ahead > reached:
            reached = ahead


def _within_minute(meaning: Meaning, minute: int, start: int, end: int) -> Iterator[int]:
    for second in sorted(meaning.seconds):
        if start <= minute + second < end:
            yield minute + second


def _warm_up(info: ZoneInfo, start: int, end: int) -> Iterator[tuple[int, timedelta]]:
    """The instants to look at, and for how long the clock goes on from each without a jump."""
    first = start - start % 60 - 27 * 3600
    halves = range(first, end, _HALF_HOUR)
    offsets = [_wall(info, second).utcoffset() for second in (*halves, halves[-1] + _HALF_HOUR)]
    # While the clock never jumps there is nothing to remember of the time before.
    if len(set(offsets)) == 1:
        yield from ((minute, _MINUTE) for minute in range(start - start % 60 - 60, end, 60))
        return
    for half, offset, next_offset in zip(halves, offsets, offsets[1:], strict=False):
        if half + _HALF_HOUR <= start and offset == next_offset:
            yield half, 30 * _MINUTE
        else:
            yield from ((minute, _MINUTE) for minute in range(half, min(half + _HALF_HOUR, end), 60))


def _skipped(meaning: Meaning, low: datetime, high: datetime, minute: int) -> Iterator[int]:
    """What is owed for the wall times in [low, high), which the clock jumped over at `minute`."""
    if meaning.gap == "skip" or high - low >= timedelta(days=1):
        return
    wall = low
    while wall < high:
        if meaning.names(wall) and meaning.gap == "next_valid":
            yield minute
            return
        if meaning.names(wall):
            yield from (minute + int((wall - low).total_seconds()) + second for second in meaning.seconds)
        wall += timedelta(minutes=1)


def _counts(meaning: Meaning, info: ZoneInfo, instant: int, repeated: bool) -> bool:
    match meaning.fold:
        case "both":
            return True
        case "first":
            return not repeated
        case _:
            return not _comes_again(info, instant)


def _comes_again(info: ZoneInfo, instant: int) -> bool:
    wall = _wall(info, instant)
    return any(_wall(info, later) == wall for later in range(instant + 900, instant + 27 * 3600, 900))


def _wall(info: ZoneInfo, second: int) -> datetime:
    # Two of one zone are compared, and added to, as its clocks read.
    return datetime.fromtimestamp(second, info)
