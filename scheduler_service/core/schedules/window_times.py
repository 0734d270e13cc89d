"""The times of an interval within a daily window: elapsed time, counted anew at each opening.

The window opens and closes at the first instants at which the zone's clocks reach its wall times. One that would open
in a whole skipped day, or whose two ends are one instant, does not open.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from itinerary.protocol.instants import DAY, SECOND, Instant
from scheduler_service.core.schedules.clock_rules import reached
from scheduler_service.core.schedules.kinds import WindowSchedule
from scheduler_service.core.schedules.zone_eras import cached_by_rules
from scheduler_service.core.schedules.zones import DAY_SECONDS, FIRST_SECOND, LAST_SECOND

Ints = NDArray[np.int64]
_DAYS_AT_ONCE: Final = 2_000
_CANDIDATES: Final = 50_000
_BLOCK: Final = 64  # days whose openings are kept together
_AROUND: Final = 3  # days: a window lasts one, and clocks jump by another


def window_parts(schedule: WindowSchedule, start: Instant, end: Instant) -> Iterator[Ints]:
    """Yield the occurrences in [start, end), ascending, chunk by chunk."""
    low, high = max(start, FIRST_SECOND * SECOND), min(end, LAST_SECOND * SECOND)
    step = chunk_days(schedule) * DAY
    for chunk in range(low, high, step):
        yield _in_chunk(schedule, chunk, min(chunk + step, high))


def window_from(schedule: WindowSchedule, low: Instant) -> Iterator[Instant]:
    """Yield the occurrences from `low` on, to the end of the calendar."""
    at, days = max(low, FIRST_SECOND * SECOND), 2
    while at < LAST_SECOND * SECOND:
        until = min(at + days * DAY, LAST_SECOND * SECOND)
        yield from _in_chunk(schedule, at, until).tolist()
        at, days = until, min(4 * days, chunk_days(schedule))


def last_of_window(schedule: WindowSchedule, start: Instant, end: Instant) -> Instant | None:
    """Return the newest occurrence in [start, end), or None."""
    low, until, days = max(start, FIRST_SECOND * SECOND), min(end, LAST_SECOND * SECOND), 2
    while until > low:
        found = _in_chunk(schedule, max(low, until - days * DAY), until)
        if found.size:
            return int(found[-1])
        until, days = until - days * DAY, min(4 * days, chunk_days(schedule))
    return None


def chunk_days(schedule: WindowSchedule) -> int:
    """Return the length of a chunk of bounded size, in days."""
    a_day = (schedule.closes - schedule.opens) * SECOND // schedule.every + 1
    return max(2, min(_DAYS_AT_ONCE, _CANDIDATES // a_day))


def _in_chunk(schedule: WindowSchedule, start: Instant, end: Instant) -> Ints:
    blocks = range((start // DAY - _AROUND) // _BLOCK, (end // DAY + _AROUND) // _BLOCK + 1)
    daily = (schedule.zone, schedule.weekdays, schedule.opens, schedule.closes)
    opening, closed = np.concatenate([_windows(*daily, block) for block in blocks], axis=1)
    within = slice(np.searchsorted(closed, start, side="right"), np.searchsorted(opening, end))
    first, closed = opening[within] + schedule.offset, closed[within]
    skipped = np.maximum(0, -((first - start) // schedule.every))
    counts = np.maximum(0, -((first - np.minimum(closed, end)) // schedule.every) - skipped)
    nth = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    times: Ints = np.repeat(first + skipped * schedule.every, counts) + nth * schedule.every
    return times


@cached_by_rules(maxsize=16_384)
def _windows(zone: str, weekdays: int, opens: int, closes: int, block: int) -> Ints:
    """The openings and the closings of the days of one block."""
    days = np.arange(block * _BLOCK, (block + 1) * _BLOCK)
    midnights = days[(weekdays >> (days + 4) % 7) & 1 == 1] * DAY_SECONDS
    opening, does_open = reached(zone, midnights + opens)
    closing, _ = reached(zone, midnights + closes)
    found: Ints = np.stack([opening[does_open], closing[does_open]]) * SECOND
    return found
