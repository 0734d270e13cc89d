"""Running attempts: when each was last reported, and when it is checked."""

from collections import deque
from dataclasses import dataclass, field

from itinerary.protocol.instants import Instant
from scheduler_service.core.leader.timed_runs import TimedRuns


@dataclass(slots=True)
class Running(TimedRuns):
    """The runs by the time at which it is checked whether they are still reported.

    `_in_order`: those given no sooner time than the one before them: nearly all, and cheaper than a heap.
    """

    _reported: dict[str, Instant] = field(default_factory=dict)
    _in_order: deque[tuple[Instant, str]] = field(default_factory=deque)

    def check_at(self, at: Instant, run_id: str) -> None:
        """Check the run at `at`."""
        if not self._in_order or at >= self._in_order[-1][0]:
            self._in_order.append((at, run_id))
        else:
            TimedRuns.check_at(self, at, run_id)

    def passed(self, now: Instant) -> list[str]:
        """Take out the runs whose time has come."""
        passed = TimedRuns.passed(self, now)
        while self._in_order and self._in_order[0][0] <= now:
            passed.append(self._in_order.popleft()[1])
        return passed

    def report(self, run_id: str, now: Instant) -> None:
        """Record that a worker has reported the attempt."""
        self._reported[run_id] = now

    def take_over(self, run_id: str, now: Instant) -> None:
        """Count the time without a report from now on, unless one is known."""
        self._reported.setdefault(run_id, now)

    def reported_at(self, run_id: str, default: Instant) -> Instant:
        """The time of the attempt's last report."""
        return self._reported.get(run_id, default)

    def attempt_over(self, run_id: str) -> None:
        """Forget the run's attempt."""
        self._reported.pop(run_id, None)
