"""Balanced jobs as values, placed where a test wants them, and the balancer's orders in short."""

from collections.abc import Iterable
from typing import Any

from itinerary.protocol.instants import HOUR, Duration, Instant, format_duration, parse_instant
from scheduler_service.core.balancing.balancer import Balancer
from scheduler_service.core.balancing.placements import (
    FollowJobs,
    Placement,
    PlacesFound,
    PlanRebalance,
    RebalanceAsked,
    RebalancePlan,
    RebalancePlanned,
    placed,
)
from scheduler_service.core.balancing.slot_balancer import BucketMap
from scheduler_service.core.contract.job_json import read_job
from scheduler_service.core.model import Job, JobHistory

NOW = parse_instant("2026-11-30T10:00:00Z")


def balanced(job_id: str, every: Duration, **more: Any) -> Job:
    """A job that has no place yet."""
    pinned = more.pop("pinned", False)
    schedule = {"kind": "interval", "every": format_duration(every), "balanced": True, "pinned": pinned}
    job, _ = read_job({"job_id": job_id, "task": "t", "schedule": schedule, **more}, created_at=NOW)
    return job


def at_place(job_id: str, every: Duration, anchor: Instant, *, placed_at: Instant = NOW - 2 * HOUR, **more: Any) -> Job:
    """A job that was placed, by default long enough ago to be moved."""
    return placed(balanced(job_id, every, **more), anchor, placed_at)


def cron(job_id: str, expr: str) -> Job:
    """A job that nobody places."""
    job, _ = read_job({"job_id": job_id, "task": "t", "schedule": {"kind": "cron", "expr": expr}}, created_at=NOW)
    return job


def asked(plan_id: str = "plan") -> RebalanceAsked:
    """A request for a plan."""
    return RebalanceAsked("preview", "reply", plan_id, False, "somebody", "operator")


def held(*jobs: Job) -> tuple[JobHistory, ...]:
    """The jobs as the leader holds them."""
    return tuple(JobHistory((job,), job.version) for job in jobs)


def map_of(base: int, jobs: Iterable[Job] = ()) -> BucketMap:
    """The bucket map of these jobs."""
    return BucketMap(base, held(*jobs))


def balancer_of(jobs: Iterable[Job], now: Instant = NOW) -> Balancer:
    """A balancer that was told of these jobs."""
    told = Balancer()
    told.carry_out(FollowJobs(held(*jobs), now, now))
    return told


def places(told: Balancer, *jobs: Job, now: Instant = NOW) -> tuple[Placement, ...]:
    """What it finds for jobs that are new to it."""
    found = told.carry_out(FollowJobs(held(*jobs), now, now))
    return found.placements if isinstance(found, PlacesFound) else ()


def plan_of(told: Balancer, now: Instant = NOW, busy: Iterable[str] = ()) -> RebalancePlan:
    """Its plan of a rebalance."""
    planned = told.carry_out(PlanRebalance(asked(), now, now, frozenset(busy)))
    assert isinstance(planned, RebalancePlanned)
    return planned.plan
