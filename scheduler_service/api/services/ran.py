"""Ended runs, by parts of the time, for the calendar: from the leaders' samples, or of one job from its runs.

Promises that an answer reads a bounded number of rows: samples of ten minutes, at most 30 days back. Of a job it counts
the newest 100,000 runs, by indexes alone.
"""

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Sequence
from typing import Final

from itinerary.protocol.instants import DAY, MINUTE, Instant
from scheduler_service.core.samples import Step
from scheduler_service.ports.samples import SampleStore
from scheduler_service.ports.timeline import Ends, JobEnds, TimelineStore

_STEP: Final = Step.TEN_MINUTES
_LATE: Final = 30 * MINUTE
_DAYS: Final = 256
MOST_OF_A_JOB: Final = 100_000
"""So many runs of one job are counted."""


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
                read = samples.read_queue(_STEP, day, day + DAY, queue)
                ends = [(at, Ends(one.completed, one.failed, one.missed)) for at, one in read]
                if day + DAY + _LATE < now:
                    self._days[key] = ends
                    while len(self._days) > _DAYS:
                        self._days.popitem(last=False)
            found += ends
        return found


def ends_of_job(store: TimelineStore, job_id: str, edges: Sequence[Instant], now: Instant) -> JobEnds:
    """Return how the job's newest runs ended between the edges; nothing has ended after `now`."""
    number = bisect_right(edges, now)  # the edges that are over, and one more
    if number == 0:
        return JobEnds([Ends()] * (len(edges) - 1))
    found = store.ends(job_id, edges[: number + 1], MOST_OF_A_JOB)
    return JobEnds([*found.ends, *[Ends()] * (len(edges) - 1 - len(found.ends))], found.since)


def in_cells(found: Iterable[tuple[Instant, Ends]], edges: Sequence[Instant]) -> list[Ends]:
    """Add them up between the edges."""
    sums = [[0, 0, 0] for _ in edges[1:]]
    for at, ends in found:
        if edges[0] <= at < edges[-1]:
            of_cell = sums[bisect_right(edges, at) - 1]
            for place, number in enumerate(ends):
                of_cell[place] += number
    return [Ends(*of_cell) for of_cell in sums]
