"""Running attempts: when each was last reported, and when it is checked."""

import heapq
from dataclasses import dataclass, field

from itinerary.protocol.instants import Instant


@dataclass(slots=True)
class Running:
    """`_watch`: a heap of times and run ids. A run may be in it twice, or run no longer: the taker checks it."""

    _reported: dict[str, Instant] = field(default_factory=dict)
    _watch: list[tuple[Instant, str]] = field(default_factory=list)

    def report(self, run_id: str, now: Instant) -> None:
        """Record that a worker has reported the attempt."""
        self._reported[run_id] = now

    def take_over(self, run_id: str, now: Instant) -> None:
        """Count the time without a report from now on, unless one is known."""
        self._reported.setdefault(run_id, now)

    def reported_at(self, run_id: str, default: Instant) -> Instant:
        """The time of the attempt's last report."""
        return self._reported.get(run_id, default)

    def watch_at(self, at: Instant, run_id: str) -> None:
        """Check at `at` whether this running run is still reported."""
        heapq.heappush(self._watch, (at, run_id))

    def to_check(self, now: Instant) -> list[str]:
        """Take out the runs to be checked now."""
        to_check = []
        while self._watch and self._watch[0][0] <= now:
            to_check.append(heapq.heappop(self._watch)[1])
        return to_check

    def attempt_over(self, run_id: str) -> None:
        """Forget the run's attempt."""
        self._reported.pop(run_id, None)
