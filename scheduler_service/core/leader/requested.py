"""Waiting runs in memory that no schedule created, counted by queue, lane and priority.

Those are the ones that may be a million in the database: a read of their lane brings more of them when it is needed.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from scheduler_service.core.model import ActiveRun, RunKind
from scheduler_service.core.run_state import WAITING, RunState

LEAST_URGENT: Final = 9


def is_requested(run: ActiveRun) -> bool:
    """Whether the run waits and no schedule created it."""
    return run.state in WAITING and run.kind is not RunKind.OCCURRENCE


def is_left(run: ActiveRun) -> bool:
    """Whether the run may stay in the database: no rule about other runs depends on it."""
    retries = run.state is RunState.RETRYING and run.job_id is not None
    return is_requested(run) and not run.cancel_requested and not retries


@dataclass(slots=True)
class RequestedRuns:
    """The numbers; lanes and queues without such runs have none."""

    _of_lane: dict[str, dict[str, dict[int, int]]] = field(default_factory=dict)
    _of_queue: Counter[str] = field(default_factory=Counter)

    def count(self, run: ActiveRun, step: int) -> None:
        """Count this run in or out."""
        lanes = self._of_lane.setdefault(run.queue, {})
        priorities = lanes.setdefault(run.lane, {})
        number = priorities.get(run.priority, 0) + step
        if number:
            priorities[run.priority] = number
        else:
            priorities.pop(run.priority, None)
            if not priorities:
                del lanes[run.lane]
                if not lanes:
                    del self._of_lane[run.queue]
        self._of_queue[run.queue] += step
        if not self._of_queue[run.queue]:
            del self._of_queue[run.queue]

    def in_lane(self, queue: str, lane: str, least: int = LEAST_URGENT) -> int:
        """The number of runs in the lane, of those that are at least as urgent as priority `least`."""
        priorities = self._of_lane.get(queue, {}).get(lane)
        return 0 if not priorities else sum(number for priority, number in priorities.items() if priority <= least)

    def in_queue(self, queue: str) -> int:
        """The number of runs in the queue."""
        return self._of_queue.get(queue, 0)
