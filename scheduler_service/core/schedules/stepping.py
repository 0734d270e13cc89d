"""The occurrences of ONE schedule: the next, the newest, all, or their number in a window.

Steps through chunks of days with few candidates, each by array arithmetic, so that a window of years needs no loop over
seconds. Windows are [start, end) in microseconds. The expansion of many jobs is elsewhere and must agree with this.
"""

from collections.abc import Iterator, Sequence
from itertools import islice, pairwise, takewhile
from typing import Final, assert_never

import numpy as np
from numpy.typing import NDArray

from itinerary.protocol.instants import DAY, SECOND, Duration, Instant
from scheduler_service.core.schedules.clock_rules import CatchUp, Span, timeline
from scheduler_service.core.schedules.closed import ClosedSchedule, last_open, open_from
from scheduler_service.core.schedules.days import Dates
from scheduler_service.core.schedules.kinds import (
    CalendarSchedule,
    CronSchedule,
    HourlySchedule,
    IntervalSchedule,
    OnceSchedule,
    RuleSchedule,
    Schedule,
    SimpleSchedule,
    SolarSchedule,
    UnionSchedule,
    WindowSchedule,
)
from scheduler_service.core.schedules.rule_times import last_of_rule, rule_from, rule_parts
from scheduler_service.core.schedules.solar_times import last_solar, solar_from, solar_seconds
from scheduler_service.core.schedules.union_times import united, united_arrays
from scheduler_service.core.schedules.wall_times import WallTimes, times_of_day
from scheduler_service.core.schedules.window_times import chunk_days, last_of_window, window_from, window_parts
from scheduler_service.core.schedules.zones import DAY_SECONDS, FIRST_SECOND, LAST_SECOND

Ints = NDArray[np.int64]
# The year field spans 130 years; the rarest date without it, a 29 February on one weekday, 40.
HORIZON_DAYS: Final = 131 * 366
_CANDIDATES: Final = 50_000
_FEW: Final = 3_000
_MOST_DAYS: Final = 4_000
_NONE: Final[Ints] = np.empty(0, dtype=np.int64)


def next_after(
    schedule: Schedule, after: Instant, *, start_at: Instant | None = None, end_at: Instant | None = None
) -> Instant | None:
    """Return the first occurrence strictly after `after`, from `start_at` (included) to `end_at` (excluded)."""
    low = after + 1 if start_at is None else max(after + 1, start_at)
    found = next(_from(schedule, low), None)
    return None if found is None or (end_at is not None and found >= end_at) else found


def _periods_before(schedule: IntervalSchedule, instant: Instant) -> int:
    """Count the occurrences before an instant."""
    return max(0, -((schedule.first - instant) // schedule.every))


def _groups_from(wall: WallTimes, low: Instant) -> Iterator[Ints]:
    """Yield the occurrences (seconds) from `low` on, in groups of at least one, up to the horizon."""
    start = -(-max(low, wall.not_before or low, FIRST_SECOND * SECOND) // SECOND)
    end, step = min(start + HORIZON_DAYS * DAY_SECONDS, LAST_SECOND), _chunk_seconds(wall, 2, _FEW)
    while start < end:
        found = _in_chunk(wall, start, min(start + step, end), first_only=True)
        if found.size:
            yield found
            start = int(found[-1]) + 1
        else:
            start, step = start + step, min(step * 4, _MOST_DAYS * DAY_SECONDS)


def upcoming(
    schedule: Schedule,
    after: Instant,
    most: int,
    *,
    start_at: Instant | None = None,
    end_at: Instant | None = None,
) -> list[Instant]:
    """Return the next `most` occurrences strictly after `after`, fewer if it ends; bounds as in `next_after`."""
    low = after + 1 if start_at is None else max(after + 1, start_at)
    within = takewhile(lambda at: end_at is None or at < end_at, _from(schedule, low))
    return list(islice(within, most))


def _from(schedule: Schedule, low: Instant) -> Iterator[Instant]:
    match schedule:
        case OnceSchedule():
            yield from (schedule.at,) if schedule.at >= low else ()
        case IntervalSchedule():
            first = schedule.first + _periods_before(schedule, low) * schedule.every
            yield from range(first, LAST_SECOND * SECOND, schedule.every)
        case CronSchedule() | HourlySchedule() | CalendarSchedule():
            for group in _groups_from(schedule.wall, low):
                yield from (int(second) * SECOND for second in group)
        case SolarSchedule():
            yield from (second * SECOND for second in solar_from(schedule, low))
        case WindowSchedule():
            yield from window_from(schedule, low)
        case RuleSchedule():
            yield from rule_from(schedule, low)
        case UnionSchedule():
            yield from united(_from(member, low) for member in schedule.of)
        case ClosedSchedule():
            also = [at for at in schedule.also if at >= low]
            yield from united([iter(also), open_from(schedule, low, _from, parts)])
        case _:
            assert_never(schedule)


def occurrences(schedule: Schedule, start: Instant, end: Instant) -> list[Instant]:
    """Return every occurrence in [start, end), ascending."""
    return [int(i) for part in parts(schedule, start, end) for i in part]


def count(schedule: Schedule, start: Instant, end: Instant) -> int:
    """Count the occurrences in [start, end)."""
    if isinstance(schedule, IntervalSchedule):
        return max(0, _periods_before(schedule, end) - _periods_before(schedule, start))
    return sum(part.size for part in parts(schedule, start, end))


def counts_between(schedule: Schedule, edges: Sequence[Instant], most: int) -> list[int] | None:
    """Count the occurrences from each edge to the next; edges ascend. None if there are more than `most` in all."""
    if isinstance(schedule, IntervalSchedule):
        return [count(schedule, start, end) for start, end in pairwise(edges)]
    counts = np.zeros(len(edges) - 1, dtype=np.int64)
    for found in parts(schedule, edges[0], edges[-1]):
        counts += np.diff(np.searchsorted(found, edges))
        if counts.sum() > most:
            return None
    return [int(number) for number in counts]


def latest(schedule: Schedule, start: Instant, end: Instant) -> Instant | None:
    """Return the newest occurrence in [start, end), or None."""
    match schedule:
        case OnceSchedule():
            return schedule.at if start <= schedule.at < end else None
        case IntervalSchedule():
            newest = schedule.first + (_periods_before(schedule, end) - 1) * schedule.every
            return newest if max(start, schedule.first) <= newest < end else None
        case CronSchedule() | HourlySchedule() | CalendarSchedule():
            return _last_wall(schedule.wall, start, end)
        case SolarSchedule():
            second = last_solar(schedule, start, end)
            return None if second is None else second * SECOND
        case WindowSchedule():
            return last_of_window(schedule, start, end)
        case RuleSchedule():
            return last_of_rule(schedule, start, end)
        case UnionSchedule():
            newest_of = (latest(member, start, end) for member in schedule.of)
            return max((at for at in newest_of if at is not None), default=None)
        case ClosedSchedule():
            return last_open(schedule, start, end, latest, parts)
        case _:
            assert_never(schedule)


def _last_wall(wall: WallTimes, start: Instant, end: Instant) -> Instant | None:
    first, last = -(-max(start, wall.not_before or start) // SECOND), -(-end // SECOND)
    step, most = _chunk_seconds(wall, 2, _FEW), _chunk_seconds(wall, _MOST_DAYS, _CANDIDATES)
    while last > first:
        found = _in_chunk(wall, max(first, last - step), last)
        if found.size:
            return int(found[-1]) * SECOND
        last, step = last - step, min(step * 4, most)
    return None


def parts(schedule: Schedule, start: Instant, end: Instant) -> Iterator[Ints]:
    """Yield the occurrences in [start, end), ascending, in arrays of bounded size."""
    match schedule:
        case OnceSchedule():
            yield np.asarray([schedule.at] if start <= schedule.at < end else [], dtype=np.int64)
        case IntervalSchedule():
            periods = range(_periods_before(schedule, start), _periods_before(schedule, end))
            yield schedule.first + np.asarray(periods, dtype=np.int64) * schedule.every
        case CronSchedule() | HourlySchedule() | CalendarSchedule():
            for part in wall_parts(schedule.wall, start, end):
                yield part * SECOND
        case SolarSchedule():
            yield np.fromiter(solar_seconds(schedule, start, end), dtype=np.int64) * SECOND
        case WindowSchedule():
            yield from window_parts(schedule, start, end)
        case RuleSchedule():
            yield from rule_parts(schedule, start, end)
        case UnionSchedule():
            step = min(map(_stride, schedule.of))
            for low in range(start, end, step):
                high = min(low + step, end)
                yield united_arrays(part for member in schedule.of for part in parts(member, low, high))
        case ClosedSchedule():
            yield from schedule.open_parts(parts(schedule.fires, start, end), start, end)
        case _:
            assert_never(schedule)


def _stride(schedule: SimpleSchedule) -> Duration:
    """Return the length of a window whose occurrences fit into one array of bounded size."""
    match schedule:
        case CronSchedule() | HourlySchedule() | CalendarSchedule():
            return _chunk_seconds(schedule.wall, _MOST_DAYS, _CANDIDATES) * SECOND
        case IntervalSchedule():
            return _CANDIDATES * schedule.every
        case WindowSchedule():
            return chunk_days(schedule) * DAY
        case OnceSchedule() | SolarSchedule() | RuleSchedule():
            return HORIZON_DAYS * DAY
        case _:
            assert_never(schedule)


def wall_parts(wall: WallTimes, start: Instant, end: Instant) -> Iterator[Ints]:
    """Yield the occurrences (in SECONDS) of a wall-time schedule in [start, end), chunk by chunk."""
    begin = max(start, wall.not_before or start)
    low, high = -(-begin // SECOND), -(-end // SECOND)
    step = _chunk_seconds(wall, _MOST_DAYS, _CANDIDATES)
    for chunk in range(low, high, step):
        yield _in_chunk(wall, chunk, min(chunk + step, high))


def _chunk_seconds(wall: WallTimes, days: int, candidates: int) -> int:
    """Return a length of at most `days` that holds about so many candidates, in whole hours."""
    a_day = times_of_day(wall.blocks).size
    return min(days * DAY_SECONDS, max(1, 24 * candidates // a_day) * 3600)


def _in_chunk(wall: WallTimes, start: int, end: int, *, first_only: bool = False) -> Ints:
    """Return the occurrences (seconds) in [start, end); with `first_only`, at least the first of them."""
    meant = _days_meant(wall, start - 2 * DAY_SECONDS, end + 2 * DAY_SECONDS)
    most = max(1, _CANDIDATES // times_of_day(wall.blocks).size)
    while meant.size:
        # Days far apart need only the offsets around them, and days of many times few of the days.
        head = meant[: min(np.searchsorted(meant, meant[0] + 40), most)] if first_only else meant
        low = max(start, (int(head[0]) - 2) * DAY_SECONDS)
        high = min(end, (int(head[-1]) + 3) * DAY_SECONDS)
        found = _on_days(wall, meant, low, high)
        if found.size or head.size == meant.size:
            return found
        meant = meant[head.size :]
    return _NONE


def _days_meant(wall: WallTimes, start: int, end: int) -> Ints:
    numbers = np.arange(start // DAY_SECONDS, end // DAY_SECONDS + 1)
    return numbers[wall.days.matches(Dates.of(numbers))]


def _on_days(wall: WallTimes, days: Ints, start: int, end: int) -> Ints:
    if start >= end:
        return _NONE
    line = timeline(wall.zone, wall.rule, start, end)
    times = times_of_day(wall.blocks)
    found = [_in_span(days, times, span) for span in line.spans]
    caught_up = [c.at for c in line.catch_ups if _catches_up(days, times, c)]
    return np.unique(np.concatenate([*found, np.asarray(caught_up, dtype=np.int64)]))


def _in_span(days: Ints, times: Ints, span: Span) -> Ints:
    local = _local_times(days, times, span.start + span.offset, span.end + span.offset)
    return local - span.offset


def _local_times(days: Ints, times: Ints, low: int, high: int) -> Ints:
    """Return the wall times (seconds) in [low, high) at `times` of `days`."""
    first, last = low // DAY_SECONDS, (high - 1) // DAY_SECONDS
    within = days[np.searchsorted(days, first) : np.searchsorted(days, last, side="right")]
    if first == last:
        midnight = first * DAY_SECONDS
        times = times[np.searchsorted(times, low - midnight) : np.searchsorted(times, high - midnight)]
    local = (within[:, None] * DAY_SECONDS + times[None, :]).ravel()
    return local[(local >= low) & (local < high)]


def _catches_up(days: Ints, times: Ints, gap: CatchUp) -> bool:
    return _local_times(days, times, gap.local_start, gap.local_end).size > 0
