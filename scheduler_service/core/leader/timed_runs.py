"""Runs that are checked at a time: the heap that several parts of the leader's state are, soonest first.

Promises that a run comes out once its time has come, not before. It may be in the heap twice, or need no check any
more: the taker asks the run. Never drops an entry by itself.
"""

import heapq
from dataclasses import dataclass, field

from itinerary.protocol.instants import Instant


@dataclass(slots=True)
class TimedRuns:
    """A heap of times and run ids."""

    heap: list[tuple[Instant, str]] = field(default_factory=list)

    def check_at(self, at: Instant, run_id: str) -> None:
        """Check the run at `at`."""
        heapq.heappush(self.heap, (at, run_id))

    def passed(self, now: Instant) -> list[str]:
        """Take out the runs whose time has come."""
        passed = []
        while self.heap and self.heap[0][0] <= now:
            passed.append(heapq.heappop(self.heap)[1])
        return passed
