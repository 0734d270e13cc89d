"""Balanced placement in the leader: choose the jobs to place, and apply the places that the balancer found.

The leader applies a place before it is committed: rows created from it are written later, by the same thread. Places of
a rebalance apply only once committed, since the database may refuse single jobs.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final, assert_never

from itinerary.protocol.batches import batched
from itinerary.protocol.instants import SECOND, Duration, Instant, format_instant
from scheduler_service.core.balancing.distribution import distribution_body, score_of
from scheduler_service.core.balancing.placements import (
    FollowJobs,
    JobsPlaced,
    PlaceJobs,
    Placement,
    PlacementFeedback,
    PlacesFound,
    PlanRebalance,
    ReadRebalance,
    RebalanceAsked,
    RebalanceOrder,
    RebalancePlan,
    RebalancePlanned,
    RebalanceRead,
    Skip,
    Survey,
    Surveyed,
    placed,
)
from scheduler_service.core.balancing.rebalancing import PLAN_LIVES
from scheduler_service.core.balancing.slot_balancer import slot_time
from scheduler_service.core.leader.commands import Reply
from scheduler_service.core.leader.state import SchedulerState
from scheduler_service.core.leader.step import Step
from scheduler_service.core.model import Job, JobHistory
from scheduler_service.core.run_state import RunState

_MARGIN: Final[Duration] = 20 * SECOND
_AT_ONCE: Final = 500


def follow(state: SchedulerState, step: Step, job_ids: Iterable[str]) -> None:
    """Send these jobs to the balancer; jobs without a place get one, later than everything planned already."""
    jobs = [state.jobs[job_id] for job_id in job_ids if job_id in state.jobs]
    earliest = max(state.planned.cursor, step.now + state.settings.pre_schedule_interval) + _MARGIN
    for batch in batched(jobs, _AT_ONCE):
        step.others.append(FollowJobs(batch, step.now, earliest))


def survey(state: SchedulerState, step: Step) -> None:
    """Measure the distribution once a minute, for the metrics."""
    if state.placing.survey_due(step.now):
        step.others.append(Survey(step.now))


def rebalance_asked(state: SchedulerState, step: Step, asked: RebalanceAsked) -> None:
    """Start the requested preview, rebalance or undo."""
    if asked.kind == "undo":
        step.others.append(ReadRebalance(asked))
    elif not asked.known_plan:
        step.others.append(_plan(state, step, asked))
    else:
        plan = state.placing.plans.get(asked.plan_id)
        if plan is None or step.now - plan.created_at > PLAN_LIVES:
            _refuse(step, asked, "the plan is unknown or has expired; request a new preview")
        else:
            _carry_out(state, step, asked, plan)


def take(state: SchedulerState, step: Step, message: PlacementFeedback) -> None:
    """Apply an answer of the balancer or the store."""
    match message:
        case PlacesFound():
            _places_found(state, step, message)
        case JobsPlaced():
            _jobs_placed(state, step, message)
        case Surveyed():
            _surveyed(state, step, message)
        case RebalancePlanned():
            _planned(state, step, message)
        case RebalanceRead(moved=None):
            _refuse(step, message.asked, "there is no rebalance to undo")
        case RebalanceRead():
            step.others.append(replace(_plan(state, step, message.asked), undo=message.moved))
        case _:
            assert_never(message)


def _plan(state: SchedulerState, step: Step, asked: RebalanceAsked) -> PlanRebalance:
    in_flight = (RunState.PENDING, RunState.RUNNING)
    busy = frozenset(run.job_id for run in state.runs if run.state in in_flight and run.job_id is not None)
    return PlanRebalance(asked, step.now, state.planned.cursor, busy)


def _planned(state: SchedulerState, step: Step, message: RebalancePlanned) -> None:
    asked, plan = message.asked, message.plan
    if asked.kind != "preview":
        _carry_out(state, step, asked, plan)
        return
    state.placing.previewed(plan)
    step.others.append(Reply(asked.reply_to, preview_body(plan)))


def _carry_out(state: SchedulerState, step: Step, asked: RebalanceAsked, plan: RebalancePlan) -> None:
    moves = (Placement(m.job_id, m.version, m.old_anchor, m.new_time, cause="rebalance") for m in plan.moves)
    step.others.append(PlaceJobs(tuple(moves), step.now, RebalanceOrder(plan, asked)))


def _places_found(state: SchedulerState, step: Step, found: PlacesFound) -> None:
    kept: list[Placement] = []
    late: list[str] = []
    for placement in found.placements:
        job = _as_it_was(state, placement)
        if job is None:
            continue
        if placement.anchor < state.planned.cursor:
            late.append(placement.job_id)
            continue
        _place(state, job, placement.anchor, found.at)
        kept.append(placement)
    if kept:
        step.creating.append(PlaceJobs(tuple(kept), found.at))
    follow(state, step, late)


def _as_it_was(state: SchedulerState, placement: Placement) -> Job | None:
    """The job, if its version and place are still those that the balancer saw."""
    history = state.jobs.get(placement.job_id)
    if history is None or history.current.version != placement.version:
        return None
    return history.current if history.current.placed_anchor == placement.replaces else None


def _place(state: SchedulerState, job: Job, anchor: Instant, at: Instant) -> None:
    """Give the current version its place, whichever calendars are in force."""
    history = state.jobs[job.job_id]
    versions = (placed(each, anchor, at) if each.version == job.version else each for each in history.versions)
    state.jobs.put(JobHistory(tuple(versions), history.planned_version))


def _jobs_placed(state: SchedulerState, step: Step, done: JobsPlaced) -> None:
    if done.refused:
        state.edits.note(sorted(done.refused))
    order = done.command.order
    for placement in done.command.placements:
        if placement.job_id not in done.refused:
            state.counts.add("placed", placement.cause)
    if order is None:
        return
    moved = [p for p in done.command.placements if p.job_id not in done.refused]
    for placement in moved:
        job = _as_it_was(state, placement)
        if job is not None:
            _place(state, job, placement.anchor, done.command.at)
    follow(state, step, [placement.job_id for placement in moved])
    body = _result_body(order.plan, done.refused)
    state.placing.carried_out(order.plan.plan_id, len(body["moved"]), len(body["skipped"]))
    state.counts.add("rebalanced", order.plan.kind)
    step.others.append(Survey(step.now, order.asked.reply_to, order.plan.base, body))


def _surveyed(state: SchedulerState, step: Step, message: Surveyed) -> None:
    order = message.order
    if order.base is None:
        state.placing.surveyed(message.seen)
    if order.reply_to is not None:
        body = distribution_body(message.seen)
        if order.body is not None:
            body = {**order.body, "new_distribution_score": body["distribution_score"]}
        step.others.append(Reply(order.reply_to, body))


def preview_body(plan: RebalancePlan) -> dict[str, Any]:
    """The plan as the API shows it; beyond the contract: the skipped jobs and the loads before and after."""
    return {
        "plan_id": plan.plan_id,
        "would_move": len(plan.moves),
        "would_skip": len(plan.skips),
        "current_score": round(score_of(plan.slots), 4),
        "projected_score": round(score_of(plan.projected_slots), 4),
        "preview": [
            {
                "job_id": move.job_id,
                "current_time": format_instant(move.old_time),
                "proposed_time": format_instant(move.new_time),
                "why": move.why,
            }
            for move in plan.moves
        ],
        "skipped": [_skip_body(skip) for skip in plan.skips],
        "first_slot": format_instant(slot_time(plan.base)),
        "current_slots": list(plan.slots),
        "projected_slots": list(plan.projected_slots),
    }


def _result_body(plan: RebalancePlan, refused: frozenset[str]) -> dict[str, Any]:
    moved = [
        {"job_id": m.job_id, "old_time": format_instant(m.old_time), "new_time": format_instant(m.new_time)}
        for m in plan.moves
        if m.job_id not in refused
    ]
    skips = [*plan.skips, *(Skip(job_id, "changed") for job_id in sorted(refused))]
    return {"plan_id": plan.plan_id, "moved": moved, "skipped": [_skip_body(skip) for skip in skips]}


def _skip_body(skip: Skip) -> dict[str, str]:
    return {"job_id": skip.job_id, "reason": skip.reason}


def _refuse(step: Step, asked: RebalanceAsked, why: str) -> None:
    step.others.append(Reply(asked.reply_to, {"error": why}))
