"""Ended runs, by parts of the time, for the calendar: from the leaders' samples, or of one job from its runs.

Promises that an answer reads a bounded number of rows: samples of ten minutes, at most 30 days back. Of a job it reads
the newest 25,000 runs.
"""

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Sequence
from typing import Final, NamedTuple

from itinerary.protocol.instants import DAY, MINUTE, Instant
from scheduler_service.core.run_state import RunState
from scheduler_service.core.samples import QueueSample, Sample, Step
from scheduler_service.ports.samples import SampleStore
from scheduler_service.ports.stores import RunFilter
from scheduler_service.ports.timeline import MOST_COUNTED, LaneKind, Span, TimelineStore

_STEP: Final = Step.TEN_MINUTES
_LATE: Final = 30 * MINUTE
_DAYS: Final = 256
_QUARTER: Final = 15 * MINUTE


class Ends(NamedTuple):
    """How many runs ended how."""

    completed: int = 0
    failed: int = 0
    missed: int = 0

    def plus(self, other: "Ends") -> "Ends":
        """Return the sum."""
        return Ends(*(a + b for a, b in zip(self, other, strict=True)))


class PastDays:
    """The ends of each day in UTC, kept once it is over: a day of samples takes milliseconds to read."""

    def __init__(self) -> None:
        self._days: OrderedDict[Hashable, list[tuple[Instant, Ends]]] = OrderedDict()

    def ends(
        self, samples: SampleStore, who: Hashable, queue: str | None, since: Instant, until: Instant, now: Instant
    ) -> list[tuple[Instant, Ends]]:
        """Return the ends by the beginning of their ten minutes."""
        found = []
        for day in range(since - since % DAY, min(until, now), DAY):
            key = who, queue, day
            ends = self._days.get(key)
            if ends is None:
                ends = _of_samples(samples.read(_STEP, day, day + DAY), queue)
                if day + DAY + _LATE < now:
                    self._days[key] = ends
                    while len(self._days) > _DAYS:
                        self._days.popitem(last=False)
            found += ends
        return found


def _of_samples(samples: Iterable[Sample], queue: str | None) -> list[tuple[Instant, Ends]]:
    found = []
    for sample in samples:
        one = sample.total if queue is None else sample.queues.get(queue, QueueSample())
        found.append((sample.at, Ends(one.completed, one.failed, one.missed)))
    return found


def ends_of_job(
    store: TimelineStore, job_id: str, since: Instant, until: Instant, now: Instant
) -> tuple[list[tuple[Instant, Ends]], Instant | None]:
    """Return the ends of the job's newest runs by quarters of an hour, and since when they are all counted."""
    begin, end = since - since % _QUARTER, min(until, now)
    if begin >= end:
        return [], None
    span = Span(begin, end + -end % _QUARTER, (end + -end % _QUARTER - begin) // _QUARTER)
    counted = store.counts(LaneKind.JOB, span, RunFilter(job_id=job_id), first=0, lanes=1)
    states = {RunState.COMPLETED: Ends(1), RunState.FAILED: Ends(0, 1), RunState.MISSED: Ends(0, 0, 1)}
    found = [
        (begin + cell.part * span.width, Ends(*(cell.number * one for one in states[cell.state])))
        for cell in counted.cells
        if cell.state in states
    ]
    is_cut = counted.runs >= MOST_COUNTED
    return found, min((at for at, _ in found), default=None) if is_cut else None


def in_cells(found: Iterable[tuple[Instant, Ends]], edges: Sequence[Instant]) -> list[Ends]:
    """Add them up between the edges."""
    cells = [Ends()] * (len(edges) - 1)
    for at, ends in found:
        if edges[0] <= at < edges[-1]:
            place = bisect_right(edges, at) - 1
            cells[place] = cells[place].plus(ends)
    return cells
