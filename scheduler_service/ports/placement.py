"""The part of the leader's store that places balanced jobs, and the meter of it."""

from typing import Protocol

from scheduler_service.core.balancing.placements import MovedBefore, PlaceJobs
from scheduler_service.core.model import Lease


class PlacementStore(Protocol):
    """Placements are outside a job's version: they are written where version and anchor are still what was seen."""

    def place_jobs(self, lease: Lease, batch: PlaceJobs) -> frozenset[str]:
        """Give the jobs their places, in one fenced transaction; returns the ids whose guard did not match.

        A job that has the place already counts as placed. With an order, it is recorded in the audit log in the same
        transaction; an order whose plan is recorded writes nothing, and the answer tells who is in place.
        """

    def last_rebalance(self) -> tuple[MovedBefore, ...] | None:
        """What the last rebalance that moved anything moved; None where there is none, or it was undone."""


class PlacementMeter(Protocol):
    """Never fails, never blocks."""

    def placed(self, count: int, seconds: float) -> None:
        """So many places were found, in so much time altogether."""
