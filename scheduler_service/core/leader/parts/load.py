"""Whether the leader is behind with dispatches or reports, and how much later it plans because of that."""

from dataclasses import dataclass
from typing import Final

from itinerary.protocol.instants import Duration, Instant

# Planning that was put off is caught up within four times that time: a fourth of its usual work more.
_PACE: Final = 4


@dataclass(slots=True)
class Load:
    """`planning_lag`: by how much planning stays behind its usual distance."""

    is_behind: bool = False
    planning_lag: Duration = 0
    _judged_at: Instant = 0
    _first: str | None = None
    _first_since: Instant = 0

    def unanswered_for(self, first: str | None, now: Instant) -> Duration:
        """How long the first unanswered dispatch has been the first one."""
        if first != self._first:
            self._first, self._first_since = first, now
        return 0 if first is None else now - self._first_since

    def judged(self, now: Instant, most: Duration, *, is_behind: bool) -> None:
        """Let planning lag by `most` while the leader is behind, and catch up slowly afterwards."""
        caught_up = max(0, now - self._judged_at) // _PACE
        self.planning_lag = most if is_behind else max(0, self.planning_lag - caught_up)
        self.is_behind, self._judged_at = is_behind, now
