"""Counting: how many runs of which jobs fall into each of some consecutive times, however often they fire.

Equal schedules are stepped once for all their jobs, so that the cost goes by distinct schedules. Pure array arithmetic.
Promises that a caller may stop it between two hours, and that what was counted until then is exact.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from itinerary.protocol.instants import HOUR, Instant
from scheduler_service.core.index.expansion import Entry, ScheduleTable, expand_table
from scheduler_service.core.schedules.schedule import Schedule

Ints = NDArray[np.int64]
_NAMED: Final = 3


@dataclass(frozen=True, slots=True)
class Planned:
    """A job's schedule, valid for occurrences in [start, end)."""

    job_id: str
    schedule: Schedule
    start: Instant
    end: Instant


@dataclass(frozen=True, slots=True)
class CellCount:
    """The runs of one time; `busiest` are the jobs with most of them, `jobs` counts all that have any."""

    start: Instant
    runs: int
    jobs: int
    busiest: tuple[tuple[str, int], ...]


@dataclass(slots=True)
class _Equals:
    """The jobs of one schedule, bounds included."""

    planned: Planned
    job_ids: list[str] = field(default_factory=list)


def cell_counts(
    planned: Iterable[Planned], edges: Sequence[Instant], since: Instant, may_go_on: Callable[[], bool] = lambda: True
) -> list[CellCount]:
    """Count the runs from `since` on in [edge, next edge) for each edge but the last; fewer cells if it may not go on.

    Cells that end before have none.
    """
    equals = _grouped(planned, max(since, edges[0]), edges[-1])
    entries = [
        Entry(n, f"{n:09}", one.planned.schedule, one.planned.start, one.planned.end) for n, one in enumerate(equals)
    ]
    table, weights = ScheduleTable.of(entries), np.array([len(one.job_ids) for one in equals], dtype=np.int64)
    cells: list[CellCount] = []
    for start, end in pairwise(edges):
        hits = np.zeros(len(equals), dtype=np.int64)
        for begin in range(max(start, since), end, HOUR):
            if not may_go_on():
                return cells
            found = expand_table(table, begin, min(begin + HOUR, end))
            hits += np.bincount(found.ordinals, minlength=len(equals))
        busiest = tuple(_busiest(equals, hits))
        cells.append(CellCount(start, int(hits @ weights), int(weights[hits > 0].sum()), busiest))
    return cells


def _grouped(planned: Iterable[Planned], start: Instant, end: Instant) -> list[_Equals]:
    # Equal schedules are one object; comparing the contents of others would take longer than all else here.
    by_schedule: dict[tuple[int, Instant, Instant], _Equals] = {}
    for one in planned:
        bounds = max(one.start, start), min(one.end, end)
        if bounds[0] < bounds[1]:
            key = (id(one.schedule), *bounds)
            by_schedule.setdefault(key, _Equals(Planned(one.job_id, one.schedule, *bounds))).job_ids.append(one.job_id)
    return list(by_schedule.values())


def _busiest(equals: Sequence[_Equals], hits: Ints) -> Iterator[tuple[str, int]]:
    left = _NAMED
    for n in np.argsort(-hits, kind="stable"):
        if not left or not hits[n]:
            return
        for job_id in equals[n].job_ids[:left]:
            left -= 1
            yield job_id, int(hits[n])
