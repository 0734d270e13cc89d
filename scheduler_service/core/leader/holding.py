"""Paused queues: what waits there stays `scheduled`, and what was published and not started is recalled.

Promises that a pause is heeded by every dispatch after its edit was committed: one that was chosen by older edits
changes nothing. Of a job at most `max_catch_up` occurrences wait for the resume; older ones become a missed range.
Never skips what somebody asked for, or a retry. One-off runs that come meanwhile are not held in memory: a poll finds
them after the pause.
"""

from collections import defaultdict

from itinerary.protocol.instants import Instant
from scheduler_service.core.leader import rates
from scheduler_service.core.leader.commands import Transition
from scheduler_service.core.leader.planning import is_fresh
from scheduler_service.core.leader.poll_state import ControlsRead
from scheduler_service.core.leader.recalling import recall
from scheduler_service.core.leader.state import SchedulerState
from scheduler_service.core.leader.step import Step
from scheduler_service.core.model import ActiveRun
from scheduler_service.core.run_state import Event, RunState


def controls_read(state: SchedulerState, step: Step, read: ControlsRead) -> None:
    """Choose by these edits from now on."""
    controls, before = state.controls, state.controls.limits
    controls.put(read.controls)
    rates.follow_edit(state, before)
    for queue in controls.held_queues(step.now):
        for _, _, run_id in state.dispatches.waiting.get(queue, ()):
            run = state.runs.get(run_id)
            if run is not None and is_fresh(run):
                state.paused.hold(run)


def queue_up(state: SchedulerState, run: ActiveRun) -> None:
    """Let the admitted run wait for room in its queue's window; an occurrence of a paused queue for the resume."""
    if run.queue in state.controls.pauses and is_fresh(run):
        state.paused.hold(run)
    else:
        state.dispatches.queue_up(run)


def hold_back(state: SchedulerState, step: Step) -> None:
    """Queue up what waited for a resume, and skip the oldest occurrences beyond `max_catch_up` of jobs that wait on."""
    if state.paused.is_empty():
        return
    for queue in state.paused.queues():
        if state.controls.pause_of(queue, step.now) is not None:
            state.judged.waits(step.now)
            continue
        for run_id in state.paused.take_queue(queue):
            if (run := state.runs.get(run_id)) is not None:
                state.dispatches.queue_up(run)
    for queue, job_id in state.paused.take_grown():
        pause, history = state.controls.pause_of(queue, step.now), state.jobs.get(job_id)
        if pause is None or history is None:
            continue
        most = history.current.misfire.max_catch_up
        reason = f"{pause.text(queue)}; of one job at most {most} occurrences wait for the resume"
        for run_id in state.paused.take_beyond(queue, job_id, most):
            run = state.runs.get(run_id)
            if run is not None and is_fresh(run) and run_id not in state.dispatches.in_progress:
                _skip(state, step, run, job_id, reason)


def next_of_queues(state: SchedulerState, now: Instant) -> tuple[Instant | None, Instant | None]:
    """When the next pause ends by itself, and when a queue that is not paused is to be refilled."""
    if not state.controls.pauses:
        return None, state.windows.next_at(state.dispatches.waiting)
    held = state.controls.held_queues(now)
    going = (queue for queue in state.dispatches.waiting if queue not in held)
    return state.controls.next_end(now), state.windows.next_at(going)


def _skip(state: SchedulerState, step: Step, run: ActiveRun, job_id: str, reason: str) -> None:
    state.counts.add("skip", "paused")
    # The first one with this reason keeps its row, the others share a missed range.
    coalesce = state.skipped.extend(job_id, run.scheduled_at, reason)
    change = Transition(
        run.run_id, run.attempt, Event.SKIP, RunState.SKIPPED, step.now, reason=reason, coalesce=coalesce
    )
    step.transition(state, run._replace(state=RunState.SKIPPED), change)


def recall_paused(state: SchedulerState, step: Step) -> None:
    """Recall what no worker has started in paused queues; again each second, as long as something is pending there."""
    if not state.controls.pauses or not state.controls.recall_due(step.now):
        return
    pending: dict[str, list[str]] = defaultdict(list)
    for run_id in state.unstarted.published:  # not all runs: a million may be planned
        if (run := state.runs.get(run_id)) is not None:
            pending[run.queue].append(run_id)
    for queue, run_ids in pending.items():
        if (pause := state.controls.pause_of(queue, step.now)) is not None:
            recall(state, step, run_ids, f"recalled: {pause.text(queue)}")
