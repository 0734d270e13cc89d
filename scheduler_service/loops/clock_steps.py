"""Steps of the database's clock, as this process's steady clock sees them: within a term, and from the last term to it.

What started by a rate is dated by the database's clock. If that clock steps ahead, the dates look older than they are,
and too many runs would start. Promises to call no step smaller than it is; one may be called larger by a round trip.
Time in which this process did not watch the lease counts as the database says.
"""

from typing import Final

from itinerary.protocol.instants import MILLISECOND, Duration, Instant
from scheduler_service.ports.leases import LeaseView

_DRIFT: Final = 10 * MILLISECOND


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


class LeaseWatch:
    """A standby's sight of the leader's signs of life: renewals, and a resignation."""

    def __init__(self) -> None:
        self._sign: Instant | None = None
        self._seen_at: Duration = 0
        self._watched = False

    def see(self, view: LeaseView | None, now: Duration) -> None:
        """Note the lease as it was read at this steady time."""
        sign = None if view is None else view.last_seen_at
        if sign != self._sign:
            self._watched = self._sign is not None
            self._sign, self._seen_at = sign, now

    def stepped(self, taken_at: Instant, now: Duration) -> Duration:
        """By how much more the database's clock went on since the last sign than the steady one."""
        if self._sign is None or not self._watched:
            return 0
        return max(0, (taken_at - self._sign) - (now - self._seen_at))
