"""Time zones as arithmetic: the changes of an offset, and the instants that read a wall time.

Owns every question about a zone, by the rules in force (`zone_eras`), in whole seconds since the epoch, not
microseconds. Offsets are sampled every third day and each change is bisected to the second. By one set of rules, no
zone since 1960 changed twice within six days; a test of the zone files holds that. The instant at which other rules
come into force is looked at for itself. Answers are cached by zone and year. Promises to name only real IANA zones;
never reads a clock.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from io import BytesIO
from itertools import pairwise
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

from itinerary.protocol.errors import BadValue
from scheduler_service.core.schedules.zone_eras import ZoneIn, cached_by_rules, files_of, names_in_force

DAY_SECONDS: Final = 86_400
# Python's dates end with the year 9999; before and after, a zone keeps its nearest offset.
FIRST_SECOND: Final = -62_135_510_400
LAST_SECOND: Final = 253_370_764_800
_APART: Final = 3 * DAY_SECONDS


@dataclass(frozen=True, slots=True)
class Transition:
    """A change at `at` (seconds) of the zone's offset from `before` to `after` (seconds east of UTC)."""

    at: int
    before: int
    after: int


class _Part(NamedTuple):
    """From `since` (seconds) on, this file decides."""

    since: int
    info: ZoneInfo


def zone(name: str) -> ZoneInfo:
    """Return the zone of an IANA name, by the newest rules; for anything else BadValue with the nearest names."""
    return _parts(name)[-1].info


@cached_by_rules(maxsize=1_024)
def _parts(name: str) -> tuple[_Part, ...]:
    if isinstance(name, ZoneIn) or name in names_in_force():
        return tuple(_Part(since, ZoneInfo.from_file(BytesIO(file), key=name)) for since, file in files_of(name))
    raise BadValue("timezone", name, _nearest(name))


def _nearest(name: object) -> str:
    allowed = "give an IANA time zone such as UTC, Europe/Berlin or America/New_York"
    wanted = str(name).replace(" ", "_").casefold()[:64]
    # `right/Europe/Berlin` and `posix/Europe/Berlin` mean this zone.
    wanted = wanted.removeprefix("right/").removeprefix("posix/")
    close = [z for z in sorted(names_in_force()) if wanted and z.casefold().endswith(wanted)]
    return f"{allowed} (did you mean {' or '.join(close[:2])}?)" if close else allowed


def offset_at(name: str, second: int) -> int:
    """Return the seconds east of UTC that the zone's clocks show at an instant."""
    parts = _parts(name)
    return _sample((parts[0] if len(parts) == 1 else _part_at(parts, second)).info, second)


def _part_at(parts: tuple[_Part, ...], second: int) -> _Part:
    return next((part for part in reversed(parts) if part.since <= second), parts[0])


def _sample(info: ZoneInfo, second: int) -> int:
    delta = datetime.fromtimestamp(_known(second), info).utcoffset()
    return 0 if delta is None else delta.days * DAY_SECONDS + delta.seconds


def _known(second: int) -> int:
    return min(max(second, FIRST_SECOND), LAST_SECOND)


def changes_between(name: str, start: int, end: int) -> tuple[Transition, ...]:
    """Return the offset changes of a zone in [start, end), in order."""
    first, last = _year_of(start), _year_of(end)
    found = _year_changes(name, first)
    for year in range(first + 1, last + 1):
        found += _year_changes(name, year)
    low = bisect_left(found, start, key=_moment)
    return found[low : bisect_left(found, end, key=_moment)]


def _moment(change: Transition) -> int:
    return change.at


def _year_of(second: int) -> int:
    # Mean Gregorian years are near enough to pick a bucket, since buckets are cut by the same rule.
    return 1970 + _known(second) // 31_556_952


@cached_by_rules(maxsize=16_384)
def _year_changes(name: str, year: int) -> tuple[Transition, ...]:
    parts = _parts(name)
    start = (year - 1970) * 31_556_952
    end = start + 31_556_952
    found: list[Transition] = []
    for part, until in zip(parts, [*(p.since for p in parts[1:]), end], strict=True):
        found += _changes_of(name, part.info, max(start, part.since), min(end, until))
    return tuple(found)


def _changes_of(name: str, info: ZoneInfo, start: int, end: int) -> Iterator[Transition]:
    """Yield the changes in [start, end), in which this file decides; another may decide until `start`."""
    if start >= end:
        return
    before, after = offset_at(name, start - 1), _sample(info, start)
    if after != before:
        yield Transition(start, before, after)
    first, last = _known(start), _known(end - 1)
    moments = [*range(first, last, _APART), last]
    # A year has 122 of them, and each zone of each job is asked for several years: no call of ours for each.
    shown = [datetime.fromtimestamp(moment, info).utcoffset() for moment in moments]
    for (low, high), (earlier, later) in zip(pairwise(moments), pairwise(shown), strict=True):
        if later != earlier:
            yield _bisected(info, low, high)


def _bisected(info: ZoneInfo, low: int, high: int) -> Transition:
    before, after = _sample(info, low), _sample(info, high)
    while high - low > 1:
        middle = (low + high) // 2
        if _sample(info, middle) == before:
            low = middle
        else:
            high = middle
    return Transition(high, before, after)


def instants_of(name: str, local: int) -> tuple[int, ...]:
    """Return every instant (seconds) at which the zone's clocks read `local` (wall seconds), in order; often one."""
    offsets = {offset_at(name, local - 2 * DAY_SECONDS)}
    offsets |= {c.after for c in changes_between(name, local - 2 * DAY_SECONDS, local + 2 * DAY_SECONDS)}
    return tuple(sorted(local - o for o in offsets if offset_at(name, local - o) == o))


def first_instant_from(name: str, local: int) -> int:
    """Return the first instant (seconds) at which the zone's clocks read `local` or later."""
    existing = instants_of(name, local)
    if existing:
        return existing[0]
    around = changes_between(name, local - 2 * DAY_SECONDS, local + 2 * DAY_SECONDS)
    jumps = [c.at for c in around if c.at + c.before <= local < c.at + c.after]
    return jumps[0]


def passes_of(name: str, second: int) -> tuple[int, int]:
    """Return (which pass, of how many) for the wall time at an instant: (1, 1) outside a repeated hour."""
    everyone = instants_of(name, second + offset_at(name, second))
    return bisect_right(everyone, second), len(everyone)
