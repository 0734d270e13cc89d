"""Start deadlines of runs waiting in memory, soonest first."""

import heapq
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from itinerary.protocol.instants import Instant
from scheduler_service.core.model import ActiveRun
from scheduler_service.core.run_state import PENDING, RunState

_SCHEDULED: Final = RunState.SCHEDULED
_FEW: Final = 1_000
_SPARE: Final = 4


@dataclass(slots=True)
class Deadlines:
    """A heap of start deadlines. It may hold duplicates and started runs, so callers check the run they take out."""

    heap: list[tuple[Instant, str]] = field(default_factory=list)

    def note(self, run: ActiveRun) -> None:
        """Add the run's deadline, if it has one and has not started."""
        if run.start_by is not None and run.attempt == 1 and (run.state is _SCHEDULED or run.state is PENDING):
            heapq.heappush(self.heap, (run.start_by, run.run_id))

    def again(self, at: Instant, run_id: str) -> None:
        """Check this run again at `at`."""
        heapq.heappush(self.heap, (at, run_id))

    def passed(self, now: Instant) -> list[str]:
        """Take out the runs whose deadline has passed."""
        passed = []
        while self.heap and self.heap[0][0] <= now:
            passed.append(heapq.heappop(self.heap)[1])
        return passed

    def forget_started(self, runs: Iterable[ActiveRun], active: int) -> None:
        """Rebuild the heap if started runs fill it: most start long before their deadline and must not pile up."""
        if len(self.heap) > _FEW + _SPARE * active:
            self.heap = []
            for run in runs:
                self.note(run)
