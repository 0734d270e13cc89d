"""Counting: the runs of one job, or of many, in each quarter of an hour of the next week.

Intervals and one-offs are counted exactly over the whole week. Wall-time schedules are counted exactly over its first
day, and assumed equal on each later day. Counting a week of a million crons would take longer than a slot lasts.
Up to 10,000 jobs with calendars, whose days differ, are counted over the whole week too.
Promises: the counts of many are the sum of the counts of each. Pure array arithmetic, no state.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from itinerary.protocol.instants import DAY, HOUR, Instant
from scheduler_service.core.index.expansion import Entry, ScheduleTable, expand_table
from scheduler_service.core.index.forecast import SLOT
from scheduler_service.core.model import Job, JobHistory
from scheduler_service.core.schedules.schedule import (
    ClosedSchedule,
    IntervalSchedule,
    OnceSchedule,
    Schedule,
    count,
    occurrences,
)
from scheduler_service.core.versions import like

Ints = NDArray[np.int64]
SLOTS_A_DAY: Final = DAY // SLOT
HORIZON_DAYS: Final = 7
HORIZON_SLOTS: Final = HORIZON_DAYS * SLOTS_A_DAY
_FAR: Final = 2**62
_EDGES: Final[Ints] = np.arange(HORIZON_SLOTS + 1, dtype=np.int64) * SLOT
_ROWS_AT_ONCE: Final = 1_000
_CLOSED_OF_A_WEEK: Final = 10_000
_A_DAY_AT_ONCE: Final = 20


@dataclass(frozen=True, slots=True)
class Share:
    """One job's contribution to the load: its occurrences in [start, end)."""

    schedule: Schedule
    start: Instant
    end: Instant


def share_of(job: Job | JobHistory) -> Share | None:
    """Return the (present) share of the job; None if it is deleted or paused indefinitely."""
    one = like(job)
    if one.deleted or (one.paused and one.paused_until is None):
        return None
    bounds = [at for at in (one.start_at, one.paused_until if one.paused else None) if at is not None]
    return Share(job.schedule, max(bounds, default=-_FAR), _FAR if one.end_at is None else one.end_at)


def counts_of(share: Share, base: int) -> Ints:
    """Count the runs of one share in each slot of the week from slot `base` on."""
    schedule = share.schedule
    match schedule:
        case IntervalSchedule():
            row = (schedule.first, schedule.every, share.start, share.end)
            return _interval_rows(np.asarray([row], dtype=np.int64), base)
        case OnceSchedule():
            return _of_times([schedule.at] if share.start <= schedule.at < share.end else [], base, HORIZON_SLOTS)
        case ClosedSchedule():
            start, end = max(share.start, base * SLOT), min(share.end, (base + HORIZON_SLOTS) * SLOT)
            return _of_times(occurrences(schedule, start, end), base, HORIZON_SLOTS)
        case _:
            start = base * SLOT
            day = _of_times(occurrences(schedule, start, start + DAY), base, SLOTS_A_DAY)
            return _within(share, np.tile(day, HORIZON_DAYS), base)


def counts_of_all(shares: Iterable[Share], base: int) -> Ints:
    """Sum the counts of all shares; many together cost far less than one by one."""
    total = np.zeros(HORIZON_SLOTS, dtype=np.int64)
    intervals: list[tuple[int, int, int, int]] = []
    endless: list[Schedule] = []
    closed: list[Schedule] = []
    start, end = base * SLOT, (base + HORIZON_SLOTS) * SLOT
    for share in shares:
        if isinstance(share.schedule, IntervalSchedule):
            intervals.append((share.schedule.first, share.schedule.every, share.start, share.end))
        elif isinstance(share.schedule, OnceSchedule) or share.start > start or share.end < end:
            total += counts_of(share, base)
        elif isinstance(share.schedule, ClosedSchedule):  # its days differ
            closed.append(share.schedule)
        else:
            endless.append(share.schedule)
    for chunk in range(0, len(intervals), _ROWS_AT_ONCE):
        total += _interval_rows(np.asarray(intervals[chunk : chunk + _ROWS_AT_ONCE], dtype=np.int64), base)
    if closed:
        days = HORIZON_DAYS if len(closed) <= _CLOSED_OF_A_WEEK else 1
        total += np.tile(_slots_of(closed, base, days * SLOTS_A_DAY), HORIZON_DAYS // days)
    return total + np.tile(_slots_of(endless, base, SLOTS_A_DAY), HORIZON_DAYS)


def _slots_of(endless: Sequence[Schedule], base: int, number: int) -> Ints:
    """Count the first slots of schedules, each as often as it is used; many hour by hour, to bound memory."""
    if not endless:
        return np.zeros(number, dtype=np.int64)
    start, end = base * SLOT, (base + number) * SLOT
    # Equal schedules are one object; comparing the contents of others would take longer than all else here.
    used, distinct = Counter(map(id, endless)), {id(schedule): schedule for schedule in endless}
    weights = np.fromiter(used.values(), dtype=np.int64, count=len(used))
    entries = [Entry(n, f"{n:09}", schedule, start, end) for n, schedule in enumerate(distinct.values())]
    table = ScheduleTable.of(entries)
    slots = np.zeros(number, dtype=np.int64)
    stride = DAY if len(entries) <= _A_DAY_AT_ONCE else HOUR
    for since in range(start, end, stride):
        found = expand_table(table, since, since + stride)
        in_slots = np.bincount((found.times - start) // SLOT, weights[found.ordinals], number)
        slots += in_slots.astype(np.int64)
    return slots


def _interval_rows(rows: Ints, base: int) -> Ints:
    """Sum rows (first, every, start, end) over the slots; intervals shorter than a slot are not expanded."""
    firsts, everys, starts, ends = rows.T
    low, high = np.maximum(starts, base * SLOT), np.minimum(ends, (base + HORIZON_SLOTS) * SLOT)
    skipped = _before(firsts, everys, low)
    number = np.maximum(0, _before(firsts, everys, high) - skipped)
    short = everys < SLOT
    number[short] = 0
    row = np.repeat(np.arange(firsts.size), number)
    nth = np.arange(row.size) - np.repeat(np.cumsum(number) - number, number)
    times = firsts[row] + (skipped[row] + nth) * everys[row]
    counts = np.bincount(times // SLOT - base, minlength=HORIZON_SLOTS)
    for first, every, start, end in zip(firsts[short], everys[short], low[short], high[short], strict=True):
        # The differences of the numbers before each slot's edge.
        counts += np.diff(_before(first, every, np.clip(_EDGES + base * SLOT, start, max(start, end))))
    return counts


def _before(first: Any, every: Any, instants: Ints) -> Ints:
    """Count the occurrences before each instant."""
    number: Ints = np.maximum(0, -((first - instants) // every))
    return number


def _of_times(times: Sequence[Instant], base: int, slots: int) -> Ints:
    keys = np.asarray(times, dtype=np.int64) // SLOT - base
    return np.bincount(keys[(keys >= 0) & (keys < slots)], minlength=slots).astype(np.int64)


def _within(share: Share, counts: Ints, base: int) -> Ints:
    """Limit the counts to the share's bounds; the slots that contain a bound are counted again."""
    first, last = share.start // SLOT - base, share.end // SLOT - base
    counts[: max(0, first)] = 0
    counts[max(0, min(last, HORIZON_SLOTS)) :] = 0
    for key in {first, last}:
        if 0 <= key < HORIZON_SLOTS:
            low = max(share.start, (base + key) * SLOT)
            counts[key] = count(share.schedule, low, min(share.end, (base + key + 1) * SLOT))
    return counts
