"""Admitted runs that wait for room in their queue's publish window, and dispatches that are not answered yet."""

import heapq
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from itinerary.protocol.instants import Instant
from scheduler_service.core.model import ActiveRun


@dataclass(slots=True)
class Dispatches:
    """`waiting`: a heap of runs by queue, most urgent first. `in_progress`: the queues of unanswered dispatches."""

    waiting: dict[str, list[tuple[int, Instant, str]]] = field(default_factory=dict)
    in_progress: dict[str, str] = field(default_factory=dict)
    of_queue: Counter[str] = field(default_factory=Counter)

    def queue_up(self, run: ActiveRun) -> None:
        """Let the run wait for room in its queue's window."""
        heapq.heappush(self.waiting.setdefault(run.queue, []), (run.priority, run.due_at, run.run_id))

    def take(self, queue: str, number: int) -> list[str]:
        """Take out the most urgent runs of the queue, at most `number`, each once; one sort if all are taken."""
        heap = self.waiting[queue]
        taken = [heapq.heappop(heap) for _ in range(number)] if number < len(heap) else sorted(self.waiting.pop(queue))
        return list(dict.fromkeys(run_id for _, _, run_id in taken))

    def begin(self, queue: str, run_ids: Sequence[str]) -> None:
        """Record that the dispatch of these runs was commanded."""
        if run_ids:  # queue names come and go: keep no zero counts
            self.in_progress.update(dict.fromkeys(run_ids, queue))
            self.of_queue[queue] += len(run_ids)

    def answered(self, run_id: str) -> None:
        """Record that the dispatch of this run was answered, whatever the outcome."""
        queue = self.in_progress.pop(run_id, None)
        if queue is not None:
            self.of_queue[queue] -= 1
            if not self.of_queue[queue]:
                del self.of_queue[queue]
