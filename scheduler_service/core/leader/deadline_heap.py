"""The start deadlines of what waits in memory, soonest first, and where the look into the database goes on."""

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from itinerary.protocol.instants import Instant
from scheduler_service.core.leader.poll_state import Place
from scheduler_service.core.model import ActiveRun
from scheduler_service.core.run_state import PENDING, RunState

_SCHEDULED: Final = RunState.SCHEDULED
_FEW: Final = 1_000
_SPARE: Final = 4


@dataclass(slots=True)
class Deadlines:
    """A heap that may hold a run more than once, and runs that started: whoever takes one out looks at the run."""

    heap: list[tuple[Instant, str]] = field(default_factory=list)
    next_poll_at: Instant = 0
    poll_after: Place | None = None

    def note(self, run: ActiveRun) -> None:
        """Keep the deadline of a run that has one and has not started."""
        if run.start_by is not None and run.attempt == 1 and (run.state is _SCHEDULED or run.state is PENDING):
            heapq.heappush(self.heap, (run.start_by, run.run_id))

    def again(self, at: Instant, run_id: str) -> None:
        """Look at this run at `at`."""
        heapq.heappush(self.heap, (at, run_id))

    def passed(self, now: Instant) -> Iterator[str]:
        """Take out the runs whose deadline has passed."""
        while self.heap and self.heap[0][0] <= now:
            yield heapq.heappop(self.heap)[1]

    def forget_started(self, runs: Iterable[ActiveRun], active: int) -> None:
        """Most runs start long before their deadline: those must not pile up until it passes."""
        if len(self.heap) > _FEW + _SPARE * active:
            self.heap = []
            for run in runs:
                self.note(run)
