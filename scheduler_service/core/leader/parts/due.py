"""Waiting runs by the time at which they are to be dispatched."""

import heapq
from collections.abc import Iterable
from dataclasses import dataclass, field

from itinerary.protocol.instants import Instant
from scheduler_service.core.leader.timed_runs import TimedRuns
from scheduler_service.core.model import ActiveRun


@dataclass(slots=True)
class DueRuns(TimedRuns):
    """The waiting runs. `_put_off`: due occurrences of jobs whose missed occurrences are unknown yet, in due order."""

    _put_off: dict[str, None] = field(default_factory=dict)

    def wait_until(self, run: ActiveRun, at: Instant | None = None) -> None:
        """Check this waiting run again at its due time, or at `at`."""
        self.check_at(run.due_at if at is None else at, run.run_id)

    def has_passed(self, now: Instant) -> bool:
        """Whether the time of any run has come."""
        return bool(self.heap) and self.heap[0][0] <= now

    def put_off(self, run_ids: Iterable[str]) -> None:
        """Keep due runs until the missed occurrences of their jobs are known."""
        self._put_off.update((run_id, None) for run_id in run_ids)

    def resume_put_off(self) -> None:
        """Make the runs that were put off due at once."""
        if self._put_off:
            self.heap.extend((0, run_id) for run_id in self._put_off)
            heapq.heapify(self.heap)
            self._put_off.clear()

    def ripe(self, now: Instant) -> set[str]:
        """The runs whose time has come and those that were put off; all of them stay."""
        return {run_id for due_at, run_id in self.heap if due_at <= now} | self._put_off.keys()
