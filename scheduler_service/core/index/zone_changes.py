"""Finds the schedules that run at other times by other zone rules, and their first differences, many together.

Compares only schedules of zones whose clocks differ in the window, and only around the times at which they do. Most
differ in the first days and are found by expanding all of them at once. The others are stepped through one by one,
within a bound of instants. Pure.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final, NamedTuple, TypeVar, assert_never

import numpy as np
from numpy.typing import NDArray

from itinerary.protocol.instants import DAY, HOUR, SECOND, Duration, Instant
from scheduler_service.core.index.expansion import Entry, expand
from scheduler_service.core.schedules.days import CYCLE_DAYS, Dates
from scheduler_service.core.schedules.kinds import OwnSchedule, RuleSchedule, WindowSchedule
from scheduler_service.core.schedules.schedule import (
    CalendarSchedule,
    CronSchedule,
    HourlySchedule,
    IntervalSchedule,
    OnceSchedule,
    SolarSchedule,
    UnionSchedule,
    occurrences,
)
from scheduler_service.core.schedules.wall_times import times_of_day
from scheduler_service.core.schedules.zone_eras import Era, ZoneIn
from scheduler_service.core.schedules.zones import changes_between, offset_at

Eras = tuple[Era, ...]
S = TypeVar("S", bound=OwnSchedule)
# No gap or fold is longer than 26 hours: so far around a difference of the clocks may a schedule differ.
_AROUND: Final = 27 * HOUR
_TOGETHER: Final = 35 * DAY
_SELDOM: Final = 300
_AT_ONCE: Final = 2_000_000
MOST_INSTANTS: Final = 5_000_000
_ALL_HOURS: Final = (1 << 24) - 1
_CYCLE: Final = np.arange(CYCLE_DAYS)


class Difference(NamedTuple):
    """The first instants that only one of two sets of rules has: `before` is no more, `after` is new."""

    before: Instant | None
    after: Instant | None

    @property
    def at(self) -> Instant:
        """The first of both."""
        return min(instant for instant in self if instant is not None)


@dataclass(frozen=True, slots=True)
class Differences:
    """The zones that differ, with the first instant; the schedules that do; those that were not compared."""

    zones: Mapping[str, Instant]
    found: Mapping[OwnSchedule, Difference]
    unchecked: frozenset[OwnSchedule]


def differences(
    schedules: Iterable[OwnSchedule], left: Eras, right: Eras, start: Instant, end: Instant, most: int = MOST_INSTANTS
) -> Differences:
    """Compare the schedules by two sets of rules in [start, end); one by one, no more than `most` instants in all."""
    by_zone: dict[frozenset[str], list[OwnSchedule]] = defaultdict(list)
    for schedule in dict.fromkeys(schedules):
        by_zone[frozenset(_zones_of(schedule))].append(schedule)
    spans_of = {
        zone: spans for zone in sorted(frozenset().union(*by_zone)) if (spans := _apart(zone, left, right, start, end))
    }
    found: dict[OwnSchedule, Difference] = {}
    unchecked: set[OwnSchedule] = set()
    room = [most]
    for zones, of_zones in by_zone.items():
        spans = _merged([span for zone in zones for span in spans_of.get(zone, ())])
        if not spans:
            continue
        compared = [_Compared(one, _in(one, left), _in(one, right)) for one in of_zones]
        rest = [one for one in compared if not _follows_elapsed_time(one.schedule, spans)]
        for low, high, _ in spans:
            within = max(start, low - _AROUND), min(end, high + _AROUND)
            rest = _together(rest, within[0], min(within[1], within[0] + _TOGETHER), found)
            rest = _one_by_one(rest, *within, found, unchecked, room)
    first = {zone: spans[0].start for zone, spans in spans_of.items()}
    return Differences(first, found, frozenset(unchecked))


class _Compared(NamedTuple):
    schedule: OwnSchedule
    left: OwnSchedule
    right: OwnSchedule


class _Span(NamedTuple):
    """Instants [start, end) at which two sets of rules show other times, and by how much (seconds)."""

    start: Instant
    end: Instant
    by: int


def _zones_of(schedule: OwnSchedule) -> list[str]:
    match schedule:
        case CronSchedule() | HourlySchedule() | CalendarSchedule():
            return [schedule.wall.zone]
        case WindowSchedule() | RuleSchedule():
            return [schedule.zone]
        case UnionSchedule():
            return [zone for member in schedule.of for zone in _zones_of(member)]
        case IntervalSchedule() | OnceSchedule() | SolarSchedule():  # no clock of a zone decides
            return []
        case _:
            assert_never(schedule)


def _in(schedule: S, eras: Eras) -> S:
    """The schedule with its zones told by these eras."""
    found: Any = schedule
    match found:
        case CronSchedule() | HourlySchedule() | CalendarSchedule():
            found = replace(found, wall=replace(found.wall, zone=ZoneIn.of(found.wall.zone, eras)))
        case WindowSchedule() | RuleSchedule():
            found = replace(found, zone=ZoneIn.of(found.zone, eras))
        case UnionSchedule():
            found = replace(found, of=tuple(_in(member, eras) for member in found.of))
    moved: S = found
    return moved


def _apart(zone: str, left: Eras, right: Eras, start: Instant, end: Instant) -> list[_Span]:
    """The spans at which the zone's clocks differ."""
    names = ZoneIn.of(zone, left), ZoneIn.of(zone, right)
    low, high = start // SECOND, -(-end // SECOND)
    changes = {change.at for name in names for change in changes_between(name, low + 1, high)}
    found = []
    for since, until in pairwise([low, *sorted(changes), high]):
        by = offset_at(names[1], since) - offset_at(names[0], since)
        if by:
            found.append(_Span(since * SECOND, until * SECOND, by))
    return found


def _merged(spans: Sequence[_Span]) -> list[_Span]:
    """Join spans whose surroundings meet, so that none is compared twice; a shift of part of an hour stays visible."""
    found: list[_Span] = []
    for span in sorted(spans):
        if found and span.start <= found[-1].end + 2 * _AROUND:
            last = found.pop()
            found.append(_Span(last.start, max(last.end, span.end), last.by if last.by % 3600 else span.by))
        else:
            found.append(span)
    return found


def _follows_elapsed_time(schedule: OwnSchedule, spans: Sequence[_Span]) -> bool:
    """Whether a shift by whole hours changes nothing: it runs in each hour of each day, at the same minutes."""
    if not isinstance(schedule, CronSchedule | HourlySchedule) or any(span.by % 3600 for span in spans):
        return False
    wall = schedule.wall
    each_hour = wall.rule.wildcard and all(block.hours == _ALL_HOURS for block in wall.blocks)
    return each_hour and bool(wall.days.matches(Dates.of(_CYCLE)).all())


def _together(
    rest: Sequence[_Compared], start: Instant, end: Instant, found: dict[OwnSchedule, Difference]
) -> list[_Compared]:
    """Compare seldom runs in [start, end) by expanding all at once; return those without a difference so far."""
    days = max(1, (end - start) // DAY)
    few = [one for one in rest if _a_day(one.schedule) <= _SELDOM]
    size, part = 0, list[_Compared]()
    for one in few:
        part.append(one)
        size += days * _a_day(one.schedule)
        if size > _AT_ONCE:
            _expanded(part, start, end, found)
            size, part = 0, []
    _expanded(part, start, end, found)
    return [one for one in rest if one.schedule not in found]


def _a_day(schedule: OwnSchedule) -> int:
    match schedule:
        case CronSchedule() | HourlySchedule() | CalendarSchedule():
            return int(times_of_day(schedule.wall.blocks).size)
        case WindowSchedule():
            return max(1, DAY // schedule.every)
        case UnionSchedule():
            return sum(_a_day(member) for member in schedule.of)
        case IntervalSchedule():
            return max(1, DAY // schedule.every)
        case RuleSchedule() | OnceSchedule() | SolarSchedule():
            return 1
        case _:
            assert_never(schedule)


def _expanded(part: Sequence[_Compared], start: Instant, end: Instant, found: dict[OwnSchedule, Difference]) -> None:
    width = end - start
    keys = []
    for side in ("left", "right"):
        entries = [Entry(n, f"{n:09d}", getattr(one, side), start, end) for n, one in enumerate(part)]
        runs = expand(entries, start, end)
        keys.append(runs.ordinals.astype(np.int64) * width + (runs.times - start))
    before, after = keys
    gone, fresh = (_first_of_each(np.setdiff1d(*pair), width) for pair in ((before, after), (after, before)))
    for number in gone.keys() | fresh.keys():
        times = (None if at is None else start + at for at in (gone.get(number), fresh.get(number)))
        found[part[number].schedule] = Difference(*times)


def _first_of_each(keys: NDArray[np.int64], width: Duration) -> dict[int, int]:
    numbers, places = np.unique(keys // width, return_index=True)
    return dict(zip(numbers.tolist(), (keys[places] % width).tolist(), strict=True))


def _one_by_one(
    rest: Sequence[_Compared],
    start: Instant,
    end: Instant,
    found: dict[OwnSchedule, Difference],
    unchecked: set[OwnSchedule],
    room: list[int],
) -> list[_Compared]:
    equal = []
    for one in rest:
        if room[0] <= 0:
            unchecked.add(one.schedule)
        elif (difference := _stepped_through(one, start, end, room)) is not None:
            found[one.schedule] = difference
        else:
            equal.append(one)
    return equal


def _stepped_through(one: _Compared, start: Instant, end: Instant, room: list[int]) -> Difference | None:
    """Find the first difference in [start, end); `room` is the number of instants that may still be compared."""
    width = 2 * DAY
    while start < end and room[0] > 0:
        until = min(start + width, end)
        before, after = occurrences(one.left, start, until), occurrences(one.right, start, until)
        room[0] -= len(before) + len(after) + 100
        if before != after:
            gone = set(before) - set(after)
            fresh = set(after) - set(before)
            return Difference(min(gone, default=None), min(fresh, default=None))
        start, width = until, width * 4 if len(before) < 20_000 else width
    return None
