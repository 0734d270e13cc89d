"""Forecast: how many runs a coming window holds, minute by minute and slot by slot.

Uses the same expansion as the index, so the forecast equals the later plan.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from itinerary.protocol.instants import MINUTE, Duration, Instant
from scheduler_service.core.index.expansion import Entry, ScheduleTable, expand_table

SLOT: Final = 15 * MINUTE


@dataclass(frozen=True, slots=True)
class Counts:
    """Runs in consecutive buckets of `width`; the first begins at `start`, a multiple of the width in UTC."""

    start: Instant
    width: Duration
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Forecast:
    """The runs of a window, counted twice, and the entries that could not be counted."""

    minutes: Counts
    slots: Counts
    failures: tuple[tuple[int, str], ...]


def forecast(entries: Sequence[Entry] | ScheduleTable, start: Instant, end: Instant) -> Forecast:
    """The runs of all entries in [start, end), a minute and a 15-minute slot at a time."""
    table = entries if isinstance(entries, ScheduleTable) else ScheduleTable.of(entries)
    found = expand_table(table, start, end)
    minutes, slots = (_counts(found.times, start, end, width) for width in (MINUTE, SLOT))
    return Forecast(minutes, slots, found.failures)


def _counts(times: np.ndarray[tuple[int], np.dtype[np.int64]], start: Instant, end: Instant, width: Duration) -> Counts:
    first = start - start % width
    buckets = max(0, -(-(end - first) // width))
    counts = np.bincount((times - first) // width, minlength=buckets)
    return Counts(first, width, tuple(int(n) for n in counts))
