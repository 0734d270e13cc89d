"""Steps of the database's clock, as this process's steady clock sees them: within a term, and just before it.

What started by a rate is dated by the database's clock. If that clock steps ahead, the dates look older than they are,
and too many runs would start. Promises to call no step smaller than it is; one may be called larger by a round trip.
Time in which this process read no clock counts as the database says.
"""

from collections import deque
from typing import Final

from itinerary.protocol.instants import MILLISECOND, SECOND, Duration, Instant
from scheduler_service.ports.leases import LeaseView

_DRIFT: Final = 10 * MILLISECOND
_WATCHED: Final = 30 * SECOND


class ClockSteps:
    """The lowest that the database's clock was beside the steady one since its last step ahead, between two bounds."""

    def __init__(self, asked_at: Duration, answered_at: Duration, shown: Instant) -> None:
        self._lowest = (shown - answered_at, shown - asked_at)

    def see(self, asked_at: Duration, answered_at: Duration, shown: Instant) -> Duration:
        """The clock showed this between the question and its answer; returns by how much it has stepped ahead."""
        earliest, latest = shown - answered_at, shown - asked_at
        if earliest > self._lowest[1] + _DRIFT:
            step = latest - self._lowest[0]
            self._lowest = (earliest, latest)
            return step
        self._lowest = min(self._lowest, (earliest, latest), key=lambda bounds: bounds[1])
        return 0


class ClockWatch:
    """A standby's sight of the database's clock, which it reads with the lease, over the last half minute.

    That is longer than a leader takes to date anew what it stored before a step: it may have died meanwhile.
    """

    def __init__(self) -> None:
        self._seen: deque[tuple[Duration, Duration]] = deque()

    def see(self, view: LeaseView | None, answered_at: Duration) -> None:
        """Note how far the clock was ahead of the steady one."""
        if view is not None:
            while len(self._seen) > 1 and self._seen[0][0] < answered_at - _WATCHED:
                self._seen.popleft()
            self._seen.append((answered_at, view.now - answered_at))

    def stepped(self, asked_at: Duration, shown: Instant) -> Duration:
        """By how much the clock may have stepped ahead until the lease was taken."""
        lowest = min((ahead for _, ahead in self._seen), default=shown - asked_at)
        step = shown - asked_at - lowest
        return step if step > _DRIFT else 0
