"""The part of the leader's store that places balanced jobs, and its metrics.

An implementation promises that a job moves only from the version that was judged. It never chooses a place.
"""

from typing import Protocol

from scheduler_service.core.balancing.placements import MovedBefore, PlaceJobs
from scheduler_service.core.model import Lease


class PlacementStore(Protocol):
    """Placements are outside a job's version: version and anchor as the balancer saw them guard each write."""

    def place_jobs(self, lease: Lease, batch: PlaceJobs) -> frozenset[str]:
        """Store the places of these jobs in one fenced transaction; return the ids whose guard did not match.

        A job already at its place counts as placed. The same transaction records an order in the audit log. If the
        order's plan is recorded already, nothing is written, and the answer says which jobs are in place.
        """

    def last_rebalance(self) -> tuple[MovedBefore, ...] | None:
        """The moves of the last rebalance that moved any job; None if there is none or it was undone."""


class PlacementMeter(Protocol):
    """Placement metrics. Never fails, never blocks."""

    def placed(self, count: int, seconds: float) -> None:
        """Count the places found and the total time spent."""
