"""Occurrences that wait for a limit: of each job `max_catch_up` at most, older ones become a missed range.

A limit that the runs name holds back their lane, a queue's own limit all lanes of the queue. What waits for workers or
for the publish window is not counted. Never skips what somebody asked for, or a retry.
"""

from scheduler_service.core.leader.holding import skip
from scheduler_service.core.leader.lanes import Lane
from scheduler_service.core.leader.limiting import room_in_limit
from scheduler_service.core.leader.planning import is_fresh
from scheduler_service.core.leader.state import SchedulerState
from scheduler_service.core.leader.step import Step
from scheduler_service.core.limits import QUEUE
from scheduler_service.core.model import ActiveRun
from scheduler_service.core.run_state import RunState


def skip_beyond_limit(state: SchedulerState, step: Step, run: ActiveRun) -> None:
    """Skip the oldest occurrences of the run's job beyond `max_catch_up` of those that wait for a limit with it."""
    history = state.jobs.get(run.job_id)
    if history is None or not is_fresh(run):
        return
    most = history.current.misfire.max_catch_up
    if state.runs.number_of_job(run.job_id) <= most:
        return
    lane = state.dispatches.lane_of(run)
    if lane is None or (limit := _full_limit(state, lane)) is None:
        return
    state.judged.waits(step.now)
    waiting = [one for one in state.runs.of_job(run.job_id or "") if _waits_in(state, lane, one)]
    late = sorted(waiting, key=lambda one: one.due_at)[:-most]
    reason = f"limit {limit} is reached; of one job at most {most} occurrences wait for it"
    for one in late:
        skip(state, step, one, reason, "limited")
    state.dispatches.leave_out(lane, [one.run_id for one in late])


def _full_limit(state: SchedulerState, lane: Lane) -> str | None:
    """The limit for which the lane waits, as reasons name it: one of its own, or that of its queue."""
    if lane.closed_by is not None:
        name, key = lane.closed_by
        return name if key is None else f"{name}/{key}"
    name = QUEUE + lane.queue
    if name not in state.controls.limits or room_in_limit(state, lane.queue, 1, with_ends=True) > 0:
        return None
    return name


def _waits_in(state: SchedulerState, lane: Lane, run: ActiveRun) -> bool:
    return (
        is_fresh(run)
        and run.state is RunState.SCHEDULED
        and state.runs.is_admitted(run.run_id)
        and run.run_id not in state.dispatches.in_progress
        and state.dispatches.lane_of(run) is lane
    )
