"""Running attempts: when each was last reported, and when it is checked."""

from dataclasses import dataclass, field

from itinerary.protocol.instants import Instant
from scheduler_service.core.leader.timed_runs import TimedRuns


@dataclass(slots=True)
class Running(TimedRuns):
    """The runs by the time at which it is checked whether they are still reported."""

    _reported: dict[str, Instant] = field(default_factory=dict)

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
