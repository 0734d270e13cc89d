"""Pauses, freezes and limits: what waits there stays `scheduled`, and what was published and not started is recalled.

Promises that a pause or freeze is heeded by every dispatch after its edit was committed: one that was chosen by older
edits changes nothing. Of a job at most `max_catch_up` occurrences wait for the end; older ones become a missed range.
Never skips what somebody asked for, or a retry. One-off runs that come meanwhile are not held in memory: a poll finds
them after the end.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import partial

from itinerary.protocol.instants import Instant
from scheduler_service.core.leader import rates
from scheduler_service.core.leader.commands import Transition
from scheduler_service.core.leader.frozen import freeze_of
from scheduler_service.core.leader.held_back import HeldBack, Holder
from scheduler_service.core.leader.planning import is_fresh
from scheduler_service.core.leader.poll_state import ControlsConfirmed, ControlsRead
from scheduler_service.core.leader.recalling import recall
from scheduler_service.core.leader.state import SchedulerState
from scheduler_service.core.leader.step import Step
from scheduler_service.core.model import ActiveRun
from scheduler_service.core.run_state import Event, RunState


def controls_read(state: SchedulerState, step: Step, read: ControlsRead | ControlsConfirmed) -> None:
    """Choose by these edits from now on."""
    controls, before = state.controls, state.controls.limits
    if isinstance(read, ControlsConfirmed):
        controls.confirmed(read.version, read.at)
        return
    controls.put(read.controls)
    state.calendars.note(read.controls.version, read.controls.calendars)
    rates.follow_edit(state, before)
    state.dispatches.set_fair(controls.fair, state.runs.get)
    state.slots.consider(tuple(state.dispatches.closed))
    for queue in controls.held_queues(step.now):
        lanes = state.dispatches.waiting.get(queue)
        for run_id in () if lanes is None else lanes.run_ids():
            run = state.runs.get(run_id)
            if run is not None and is_fresh(run):
                state.paused.hold(queue, run)


def queue_up(state: SchedulerState, run: ActiveRun, now: Instant) -> None:
    """Let the admitted run wait for room in its queue's window, or for the end of what holds it."""
    if run.queue in state.controls.pauses and is_fresh(run):
        state.paused.hold(run.queue, run)
    elif not hold_frozen(state, run, now):
        state.dispatches.queue_up(run)


def leave_held(state: SchedulerState, run: ActiveRun) -> None:
    """Let a run that is moved to another queue wait no longer for what holds the one that it leaves."""
    state.paused.leave(run)
    state.frozen.leave(run)


def hold_frozen(state: SchedulerState, run: ActiveRun, now: Instant) -> bool:
    """Let the run wait for the end of the freeze that holds it; false if none does."""
    freeze = freeze_of(state, run, now)
    if freeze is None:
        return False
    if is_fresh(run):
        state.frozen.hold(freeze.freeze_id, run)
    else:
        state.frozen.hold_other(freeze.freeze_id, run)
    return True


def resume_held(state: SchedulerState, step: Step) -> None:
    """Queue up what waited for a pause or freeze that has ended; skip the oldest of a job where too many wait on."""
    paused = {queue: state.controls.pauses[queue] for queue in state.controls.held_queues(step.now)}
    reasons = {
        queue: partial("{}; of one job at most {} occurrences wait for the resume".format, pause.text(queue))
        for queue, pause in paused.items()
    }
    _resume_or_skip(state, step, state.paused, reasons)
    frozen = {one.freeze_id: one.held_too_many for one in state.controls.holding(step.now)}
    _resume_or_skip(state, step, state.frozen, frozen)


def _resume_or_skip(
    state: SchedulerState, step: Step, held: HeldBack[Holder], reasons: Mapping[Holder, Callable[[int], str]]
) -> None:
    for holder in held.holders():
        if holder in reasons:
            state.judged.waits(step.now)
            continue
        for run_id in held.take_holder(holder):
            if (run := state.runs.get(run_id)) is not None:
                state.dispatches.queue_up(run)
    for holder, job_id in held.take_grown():
        history = state.jobs.get(job_id)
        if holder not in reasons or history is None:
            continue
        most = history.current.misfire.max_catch_up
        reason = reasons[holder](most)
        for run_id in held.take_beyond(holder, job_id, most):
            run = state.runs.get(run_id)
            if run is not None and is_fresh(run) and run_id not in state.dispatches.in_progress:
                skip(state, step, run, reason, "paused" if held is state.paused else "frozen")


def next_of_queues(state: SchedulerState, now: Instant) -> tuple[Instant | None, Instant | None]:
    """When the next pause or freeze begins or ends by itself, and when a queue that is not paused is to be refilled."""
    held = state.controls.held_queues(now)
    going = (queue for queue in state.dispatches.waiting if queue not in held)
    return state.controls.next_change(now), state.windows.next_at(going)


def skip(
    state: SchedulerState, step: Step, run: ActiveRun, reason: str, cause: str, in_common: str | None = None
) -> None:
    """End a run that was never dispatched as `skipped`; `in_common`: the reason as occurrences in a row share it."""
    state.counts.add("skip", cause)
    # The first one with this reason keeps its row, the others share a missed range.
    shared = in_common or reason
    coalesce = state.skipped.extend(run.job_id, run.scheduled_at, shared) if run.job_id and is_fresh(run) else None
    change = Transition(
        run.run_id, run.attempt, Event.SKIP, RunState.SKIPPED, step.now, reason=reason, coalesce=coalesce
    )
    step.transition(state, run._replace(state=RunState.SKIPPED), change)


def recall_held(state: SchedulerState, step: Step) -> None:
    """Recall what no worker has started and is paused or frozen; again each second, as long as something is pending."""
    if not state.controls.is_anything_held(step.now) or not state.controls.recall_due(step.now):
        return
    pending: dict[str, list[str]] = defaultdict(list)
    for run_id in state.unstarted.published:  # not all runs: a million may be planned
        run = state.runs.get(run_id)
        if run is not None and (text := held_text(state, run, step.now)) is not None:
            pending[text].append(run_id)
    for text, run_ids in pending.items():
        recall(state, step, run_ids, f"recalled: {text}")


def held_text(state: SchedulerState, run: ActiveRun, now: Instant) -> str | None:
    """The pause or the freeze that holds the run back, as its reasons name it."""
    if (pause := state.controls.pause_of(run.queue, now)) is not None:
        return pause.text(run.queue)
    freeze = freeze_of(state, run, now)
    return None if freeze is None else freeze.held()
