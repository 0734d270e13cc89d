"""The balancer: carries out the loop's commands about places, over a bucket map of its own.

Its work may take long (a rebalance of 100,000 jobs), so it runs in a thread of its own; the loop alone interprets its
answers. Promises: the map depends only on the jobs received, not on when it was built. Pure except for its state.
"""

from typing import assert_never

from itinerary.protocol.instants import Instant
from scheduler_service.core.balancing.distribution import Distribution
from scheduler_service.core.balancing.placements import (
    BalancerCommand,
    Cause,
    FollowJobs,
    Placement,
    PlacementFeedback,
    PlacesFound,
    PlanRebalance,
    RebalancePlanned,
    Survey,
    Surveyed,
    placed,
    rhythm_of,
)
from scheduler_service.core.balancing.rebalancing import plan_rebalance, plan_undo
from scheduler_service.core.balancing.slot_balancer import BucketMap, slot_key
from scheduler_service.core.balancing.slot_counts import share_of
from scheduler_service.core.model import Job, JobHistory
from scheduler_service.core.versions import like

_MANY = 500


class Balancer:
    """All jobs received, without deleted ones, in a map of the present slot."""

    def __init__(self) -> None:
        self._map = BucketMap(0)

    def carry_out(self, order: BalancerCommand) -> PlacementFeedback | None:
        """Carry out the command; return its result, None if there is nothing to report."""
        match order:
            case FollowJobs():
                return self._follow(order)
            case Survey():
                return Surveyed(order, self._survey(order))
            case PlanRebalance(undo=None):
                return RebalancePlanned(order.asked, plan_rebalance(self.map_at(order.now), order))
            case PlanRebalance():
                return RebalancePlanned(order.asked, plan_undo(self.map_at(order.now), order))
            case _:
                assert_never(order)

    def map_at(self, now: Instant) -> BucketMap:
        """Return the map from the present slot on."""
        if self._map.base != slot_key(now):
            self._map = self._map.at(slot_key(now))
        return self._map

    def _follow(self, order: FollowJobs) -> PlacesFound | None:
        if len(order.jobs) > _MANY:
            self._map.uncount()
        for job in order.jobs:
            self._know(job)
        homeless = [job.current for job in order.jobs if needs_place(job)]
        if not homeless:
            return None
        slots = self.map_at(order.now)
        return PlacesFound(tuple(self._place(slots, job, order) for job in homeless), order.now)

    def _know(self, job: JobHistory) -> None:
        if like(job).deleted:
            self._map.remove(job.job_id)
        else:
            self._map.add(job)

    def _place(self, slots: BucketMap, job: Job, order: FollowJobs) -> Placement:
        rhythm = rhythm_of(job)
        assert rhythm is not None
        place = slots.least_loaded(job.job_id, rhythm.every, order.earliest)
        slots.add(JobHistory((placed(job, place.at, order.now),), job.version))
        cause: Cause = "new" if job.version == 1 else "reschedule"
        return Placement(job.job_id, job.version, job.placed_anchor, place.at, place.load, cause)

    def _survey(self, order: Survey) -> Distribution:
        slots = self.map_at(order.now)
        if order.base is not None and order.base != slots.base:
            slots = slots.at(order.base)
        balanced = sum(rhythm_of(job) is not None for job in slots.jobs.values())
        return Distribution(slots.base, slots.day(), len(slots), balanced)


def needs_place(job: Job | JobHistory) -> bool:
    """Whether the job is one that the scheduler places, is active, and has no place."""
    return rhythm_of(job) is not None and like(job).placed_anchor is None and share_of(job) is not None
