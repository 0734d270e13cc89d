"""Log lines about placement: each job placed, and each rebalance with the jobs that it skipped and why."""

from collections import Counter
from typing import Final

import structlog

from itinerary.protocol.instants import format_instant
from scheduler_service.core.balancing.distribution import score_of
from scheduler_service.core.balancing.placements import JobsPlaced, RebalanceOrder, Surveyed
from scheduler_service.core.balancing.slot_balancer import slot_key, slot_time

log = structlog.get_logger(__name__)

_NAMED: Final = 20


def log_placed(done: JobsPlaced) -> None:
    """Log a committed PlaceJobs."""
    placed = [p for p in done.command.placements if p.job_id not in done.refused]
    if done.command.order is not None:
        _log_rebalance(done, done.command.order, len(placed))
        return
    for placement in placed[:_NAMED]:
        event = "new job placed" if placement.cause == "new" else "job placed afresh"
        slot = format_instant(slot_time(slot_key(placement.anchor)))
        at = format_instant(placement.anchor)
        log.info(event, job_id=placement.job_id, slot=slot, at=at, load=placement.load)
    if len(placed) > _NAMED:
        log.info("more jobs placed", count=len(placed) - _NAMED)


def log_survey(seen: Surveyed) -> None:
    """Log that a new term's bucket map is ready."""
    log.info("bucket map rebuilt", job_count=seen.seen.jobs, distribution_score=round(seen.seen.score, 4))


def _log_rebalance(done: JobsPlaced, order: RebalanceOrder, moved: int) -> None:
    plan, asked = order.plan, order.asked
    reasons = [*((skip.job_id, skip.reason) for skip in plan.skips), *((job_id, "changed") for job_id in done.refused)]
    log.info(
        "rebalance undone" if plan.kind == "undo" else "full rebalance completed",
        moved=moved, skipped=len(reasons), old_score=round(score_of(plan.slots), 4),
        new_score=round(score_of(plan.projected_slots), 4), actor=asked.actor, plan_id=plan.plan_id,
    )  # fmt: skip
    for job_id, reason in reasons[:_NAMED]:
        log.warning("job skipped during rebalance", job_id=job_id, reason=reason)
    if len(reasons) > _NAMED:
        log.warning("more jobs skipped during rebalance", **Counter(reason for _, reason in reasons[_NAMED:]))
