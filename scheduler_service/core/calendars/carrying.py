"""Days moved over an edit: the times that a newer version of a calendar adds to its own days, and those it leaves out.

Each day that the job's own schedule means fires once. A newer version does not repeat a day that an older one fired
before the edit. A day that the older one moved forward over the edit fires there, unless the newer one has a later time
for it. A day that neither can fire is left out. Where business days decide, a day is a position of a month: its third
one, or the one nearest to its end. A pure function of neighbouring versions, 31 days around each.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from itinerary.protocol.instants import DAY, SECOND, Instant
from scheduler_service.core.calendars.closing import Closing, with_workdays
from scheduler_service.core.calendars.workdays import counted_apart
from scheduler_service.core.schedules.clock_rules import timeline
from scheduler_service.core.schedules.days import Dates
from scheduler_service.core.schedules.kinds import OwnSchedule, WallSchedule
from scheduler_service.core.schedules.moved_days import FURTHEST, NOWHERE, MovedDays
from scheduler_service.core.schedules.wall_times import WallTimes, times_of_day
from scheduler_service.core.schedules.zones import DAY_SECONDS, offset_at

Ints = NDArray[np.int64]
REACH: Final = 2 * FURTHEST * DAY
"""An edit matters so long before another: a day moves by 31 days at most, on each side, or within its month."""
# A schedule with more times a day than one a minute is cut without looking at its days.
_MOST_TIMES: Final = 1_440
# Days around an edit: what moved over it from before, and all that may coincide with what it moves.
_WINDOW: Final = 5 * FURTHEST + 1
_POSITION: Final = 2**32  # apart from the numbers of days
_NONE: Final = -(2**62)
_DONE: Final = -(2**61)


class Stretch(NamedTuple):
    """A schedule and its calendars from `start` on."""

    start: Instant
    own: OwnSchedule
    closing: Closing


class Carried(NamedTuple):
    """The instants that a version fires beside its own, and those that it does not fire."""

    also: tuple[Instant, ...] = ()
    never: tuple[Instant, ...] = ()


NOTHING: Final = Carried()


class _Meant(NamedTuple):
    """The days that fire once each, around an edit: `keys` are the same by each version, `days` by one, or NOWHERE."""

    keys: Ints
    days: Ints


@dataclass(frozen=True, slots=True)
class _Known:
    """The instant that fires for each key and time of day, of those around the day `first`."""

    first: int
    keys: Ints
    instants: Ints


def carried(stretches: Sequence[Stretch]) -> list[Carried]:
    """Return for each stretch of one schedule, in order, what its neighbours before it leave to it."""
    found, known = [NOTHING], None
    for older, newer in pairwise(stretches):
        known = _edit(older, newer, known)
        found.append(NOTHING if known is None else _differences(newer, known))
    return found


def _edit(older: Stretch, newer: Stretch, known: _Known | None) -> _Known | None:
    """Return what fires for each day after the edit; None if that is what the newer version says of itself."""
    wall = _wall(newer)
    if wall is None or _wall(older) is None or times_of_day(wall.blocks).size > _MOST_TIMES:
        return None
    at = newer.start
    first = (at // SECOND + offset_at(wall.zone, at // SECOND)) // DAY_SECONDS - FURTHEST
    before, after = _alone(older, first), _alone(newer, first)
    keys, days = _meant(wall, first)
    if known is not None:
        _, here, there = np.intersect1d(keys, known.keys, assume_unique=True, return_indices=True)
        before[here] = known.instants[there]
    if np.array_equal(before, after):
        return None
    own = _instants(wall, days)
    done = (before != _NONE) & (before < at)
    moved = (before >= at) & (own < at) & (days != NOWHERE)[:, None]
    kept = _open(newer.closing, np.where(moved, before, _NONE))
    return _Known(first, keys, np.where(done, _DONE, np.where(after >= at, after, kept)))


def _differences(stretch: Stretch, known: _Known) -> Carried:
    alone = _alone(stretch, known.first)
    fires, own = (each[each >= stretch.start] for each in (known.instants, alone))
    never = np.setdiff1d(own, fires).tolist()
    return Carried(tuple(np.setdiff1d(fires, own).tolist()), tuple(sorted({*never, *_again(stretch, never)})))


def _again(stretch: Stretch, instants: list[Instant]) -> list[Instant]:
    """Return the second passes of instants whose wall times come twice, where both fire."""
    wall = _wall(stretch)
    if wall is None or not instants or not (wall.rule.wildcard or wall.rule.fold == "both"):
        return []
    found = []
    for at in instants:
        second = at // SECOND
        local = second + offset_at(wall.zone, second)
        spans = timeline(wall.zone, wall.rule, second, second + DAY_SECONDS).spans
        found += [(local - s.offset) * SECOND for s in spans if s.start + s.offset <= local < s.end + s.offset]
    return found


def _wall(stretch: Stretch) -> WallTimes | None:
    counted = with_workdays(stretch.own, stretch.closing)
    return counted.wall if isinstance(counted, WallSchedule) else None


def _meant(wall: WallTimes, first: int) -> _Meant:
    """Return the days of the schedule around an edit: each by its number, those that business days decide by month."""
    rest, positions = counted_apart(wall.days)
    plain = np.arange(first, first + _WINDOW)
    keys, days = [plain], [np.where(rest.matches(Dates.of(plain)), plain, NOWHERE)]
    low, high = (int(np.datetime64(day, "D").astype("M8[M]").astype(np.int64)) for day in (first, first + _WINDOW))
    begin, end = np.asarray([low, high + 1], "M8[M]").astype("M8[D]").astype(np.int64)
    dates = Dates.of(np.arange(begin, end))
    months = 12 * (dates.year - 1970) + dates.month - 1
    for place, position in enumerate(positions, 1):
        found, meant = np.full(high + 1 - low, NOWHERE), position.matches(dates)
        found[months[meant] - low] = dates.number[meant]
        keys.append(np.arange(low, high + 1) + place * _POSITION)
        days.append(found)
    return _Meant(np.concatenate(keys), np.concatenate(days))


def _alone(stretch: Stretch, first: int) -> Ints:
    """Return what the stretch by itself fires for each key and time of day."""
    wall, closing = _wall(stretch), stretch.closing
    assert wall is not None
    days = _meant(wall, first).days
    some = days != NOWHERE
    if closing.days is not None and some.any():
        low, high = int(days[some].min()), int(days[some].max())
        days[some] = MovedDays(wall.days, closing.days, closing.back).targets(low, high)[days[some] - low]
    return _open(closing, _instants(wall, days))


def _open(closing: Closing, instants: Ints) -> Ints:
    """Return the instants, _NONE in place of those in closed times."""
    if closing.times is not None:
        flat = instants.ravel()
        order = np.argsort(flat, kind="stable")
        some = order[flat[order] != _NONE]
        flat[some[closing.times.closed(flat[some])]] = _NONE
    return instants


def _instants(wall: WallTimes, days: Ints) -> Ints:
    """Return the instant, the first if there are two, of each time of day on each of these days."""
    times = times_of_day(wall.blocks)
    found = np.full((days.size, times.size), _NONE, dtype=np.int64)
    some = days[days != NOWHERE]
    if not some.size:
        return found
    local = days[:, None] * DAY_SECONDS + times[None, :]
    line = timeline(wall.zone, wall.rule, (int(some.min()) - 2) * DAY_SECONDS, (int(some.max()) + 3) * DAY_SECONDS)
    for span in reversed(line.spans):
        within = (local >= span.start + span.offset) & (local < span.end + span.offset)
        found[within] = (local[within] - span.offset) * SECOND
    for gap in line.catch_ups:
        found[(local >= gap.local_start) & (local < gap.local_end)] = gap.at * SECOND
    if wall.not_before is not None:
        found[found < wall.not_before] = _NONE
    return found
