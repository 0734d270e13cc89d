"""Planned occurrences that wait in paused queues, by job: a schedule would fill memory during a long pause."""

import heapq
from dataclasses import dataclass, field

from itinerary.protocol.instants import Instant
from scheduler_service.core.model import ActiveRun


@dataclass(slots=True)
class PausedOccurrences:
    """Admitted occurrences by queue and job, the oldest first. `_grown`: the queues and jobs with new ones."""

    _of_queue: dict[str, dict[str, list[tuple[Instant, str]]]] = field(default_factory=dict)
    _ids: set[str] = field(default_factory=set)
    _grown: dict[tuple[str, str], None] = field(default_factory=dict)

    def queues(self) -> list[str]:
        """The queues with such occurrences."""
        return list(self._of_queue)

    def is_empty(self) -> bool:
        """Whether no occurrence waits."""
        return not self._of_queue

    def hold(self, run: ActiveRun) -> None:
        """Let this occurrence wait, once."""
        if run.run_id not in self._ids:
            job_id = run.job_id or ""
            self._ids.add(run.run_id)
            heap = self._of_queue.setdefault(run.queue, {}).setdefault(job_id, [])
            heapq.heappush(heap, (run.due_at, run.run_id))
            self._grown[run.queue, job_id] = None

    def take_grown(self) -> list[tuple[str, str]]:
        """Return the queues and jobs with new occurrences since the last call."""
        grown, self._grown = list(self._grown), {}
        return grown

    def take_beyond(self, queue: str, job_id: str, most: int) -> list[str]:
        """Take out the job's oldest ones, until `most` are left."""
        heap = self._of_queue.get(queue, {}).get(job_id, [])
        taken = [heapq.heappop(heap)[1] for _ in range(len(heap) - most)]
        self._ids.difference_update(taken)
        return taken

    def take_queue(self, queue: str) -> list[str]:
        """Take out all of the queue."""
        taken = [run_id for heap in self._of_queue.pop(queue).values() for _, run_id in heap]
        self._ids.difference_update(taken)
        return taken
