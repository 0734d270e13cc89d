"""Reconciles a run in memory with its row in the database: the database wins, unless memory is newer.

Also applies the answers to writes: refused runs are read again, committed ends are forgotten, watermarks raised.
Promises that a row decides only if no command about its run is unanswered. Never reads: it asks by `Step.read`.
"""

from typing import Final

from itinerary.protocol.instants import MILLISECOND, Instant
from scheduler_service.core.leader import given_up, rates
from scheduler_service.core.leader.commands import (
    ForgetAttempts,
    ForgetResults,
    RaiseWatermarks,
    StopTasks,
    TrimInbox,
)
from scheduler_service.core.leader.dispatching import is_to_be_judged
from scheduler_service.core.leader.freezing import waits_in_database
from scheduler_service.core.leader.holding import leave_held
from scheduler_service.core.leader.in_flight import redispatch, take_claims
from scheduler_service.core.leader.job_states import hold_or_skip, is_paused
from scheduler_service.core.leader.lane_polling import stays_in_database
from scheduler_service.core.leader.parts.slots import uses_of
from scheduler_service.core.leader.reports import cancel
from scheduler_service.core.leader.results import Applied, RunsRead, WatermarksRaised
from scheduler_service.core.leader.state import SchedulerState
from scheduler_service.core.leader.step import Step, keep
from scheduler_service.core.model import ActiveRun, RunKind
from scheduler_service.core.run_state import FINAL, IN_FLIGHT, WAITING, Event, RunState

_POLL_AGAIN: Final = 200 * MILLISECOND


def applied(state: SchedulerState, step: Step, done: Applied) -> None:
    """Handle a committed Apply: re-read runs whose guard did not match, forget the results of the others."""
    refused = set(done.refused)
    over = [(report.run_id, report.attempt) for report in done.batch.late]
    for change in done.batch.transitions:
        if change.run_id in refused:
            step.read(state, change.run_id)
            continue
        if change.event is Event.RECALL:
            rates.recalled(state, change.run_id)
        if change.event is not Event.START:
            over.append((change.run_id, change.attempt))
            state.watermarks.committed(change.run_id, change.attempt)
            state.slots.committed(change.run_id, change.attempt)
    if over:
        step.others.append(ForgetResults(tuple(over)))
    state.epoch.position_committed(done.batch.position)
    if done.batch.position is not None and state.inbox.trim_due(step.now):
        step.others.append(TrimInbox(done.batch.position))


def raise_watermarks(state: SchedulerState, step: Step) -> None:
    """Raise the low watermarks of queues that changed, once a second."""
    if not state.watermarks.raise_due(step.now):
        return
    next_seq = state.numbers.last + 1
    watermarks = state.watermarks.to_raise(next_seq)
    for queue in watermarks:
        if queue not in state.runs.pending:
            state.unstarted.forget_queue(queue)  # needed for pending runs only
    if watermarks:
        step.others.append(RaiseWatermarks(watermarks, state.watermarks.lowest(next_seq)))


def watermarks_raised(state: SchedulerState, step: Step, raised: WatermarksRaised) -> None:
    """Forget ended attempts below the low watermarks: a message of them that is still delivered starts nothing."""
    passed = state.watermarks.raised(raised.watermarks)
    if passed:
        step.others.append(ForgetAttempts(tuple(passed)))
    # No pending run is below it; recorded here, the next poll of the epoch has nothing to do.
    state.epoch.raise_watermark(raised.lowest)
    highest = max(raised.watermarks.values(), default=0)
    if highest > state.numbers.last + 1:
        # Redis remembers numbers of a database that no longer exists: continue above them.
        state.numbers.raise_to(highest)
        redispatch(state, step, [run.run_id for run in state.runs if run.seq < highest], "floor")


def runs_read(state: SchedulerState, step: Step, read: RunsRead) -> None:
    """Reconcile the runs that were read; read again those dispatched or redispatched meanwhile."""
    rows = {row.run_id: row for row in read.runs}
    for run_id in read.asked:
        memory_is_newer = state.reads.answered(run_id) or _is_being_dispatched(state, run_id)
        if state.reads.take_refused(run_id):
            state.counts.add("stale", _stale_because(rows.get(run_id)))
        if memory_is_newer:
            step.read(state, run_id)
        elif run_id in rows:
            if state.runs.get(run_id) is not None or not stays_in_database(state, rows[run_id]):
                reconcile(state, step, rows[run_id])
            else:
                given_up.row_read(state, step, rows[run_id])
        else:
            state.runs.drop(run_id)
            state.watermarks.dropped(run_id)
            state.rates.given_back(run_id)
            state.slots.free(run_id)


def _is_being_dispatched(state: SchedulerState, run_id: str) -> bool:
    return run_id in state.dispatches.in_progress or run_id in state.publishing.redispatching


def _stale_because(row: ActiveRun | None) -> str:
    """The reason why a due row could not be dispatched: its job held it back, or its state had changed already."""
    if row is None:
        return "gone"
    if row.state in WAITING:
        return "held_by_job"
    return "final" if row.state in FINAL else "already_out"


def reconcile(state: SchedulerState, step: Step, row: ActiveRun) -> None:
    """Update memory to agree with this row and continue from there."""
    if _is_being_dispatched(state, row.run_id):
        return
    rates.follow_row(state, row)
    known = state.runs.get(row.run_id)
    if known is not None and known.queue != row.queue:
        leave_held(state, known)
    if row.state in IN_FLIGHT:
        state.slots.take([row.run_id], uses_of(row.queue, row.limits))
    else:
        state.slots.free(row.run_id)
    given_up.row_read(state, step, row)
    if row.state in FINAL:
        state.watermarks.committed(row.run_id, row.attempt)
    else:
        state.watermarks.still_running(row.run_id, row.attempt)
    if row.state in FINAL:
        if known is not None:
            keep(state, row, step.now)
    elif row.state in WAITING:
        _reconcile_waiting(state, step, row, again=known is not None)
    else:
        _reconcile_in_flight(state, step, row)


def _reconcile_waiting(state: SchedulerState, step: Step, row: ActiveRun, *, again: bool) -> None:
    if _waits_in_database(state, row, step.now):
        state.runs.drop(row.run_id)
        return
    keep(state, row, step.now)
    if row.cancel_requested:
        cancel(state, step, row, "cancelled while it waited")
        return
    history = state.jobs.get(row.job_id)
    job = history.current if history is not None else None
    if row.job_id is not None and history is None:
        state.edits.note((row.job_id,))
    if job is not None and job.deleted:
        cancel(state, step, row, "its job was deleted")
        return
    if (
        job is not None
        and is_paused(state, row, step.now)
        and (job.pause_skips or not is_to_be_judged(state, row, step.now))
    ):
        hold_or_skip(state, step, row, job)
        return
    # Wait before trying a refused row again: an unplanned edit or another transaction's lock needs a moment.
    state.due.wait_until(row, max(row.due_at, step.now + _POLL_AGAIN) if again else None)


def _waits_in_database(state: SchedulerState, row: ActiveRun, now: Instant) -> bool:
    """Whether a poll finds the run in time: it is due far ahead, or a one-off run that is paused or frozen."""
    # A retry is live however far away, for its job's overlap rule. Planned runs are loaded only here.
    is_tracked = row.kind is RunKind.OCCURRENCE or (row.state is RunState.RETRYING and row.job_id is not None)
    if is_tracked or row.cancel_requested:
        return False
    if row.due_at > now + state.settings.lookahead_window:
        return True
    return waits_in_database(state, row, now)


def _reconcile_in_flight(state: SchedulerState, step: Step, row: ActiveRun) -> None:
    if row.state is RunState.PENDING:
        state.watermarks.taken_over(row.queue, row.run_id, row.attempt)
    keep(state, row, step.now)
    if row.state is RunState.PENDING:
        _reconcile_pending(state, step, row)
        return
    state.running.take_over(row.run_id, step.now)
    state.running.check_at(step.now + state.settings.loop_interval, row.run_id)
    if row.cancel_requested:
        step.others.append(StopTasks(((row.run_id, row.attempt),)))


def _reconcile_pending(state: SchedulerState, step: Step, row: ActiveRun) -> None:
    history = state.jobs.get(row.job_id)
    if row.cancel_requested:
        take_claims(state, step, [row.run_id], "cancelled before it started")
    elif history is not None and history.current.deleted:
        take_claims(state, step, [row.run_id], "its job was deleted")
    elif row.seq < state.epoch.watermark:
        redispatch(state, step, [row.run_id], "generation")
    elif row.published_at is not None:
        if row.run_id not in state.unstarted.published:
            state.unstarted.accepted(row.run_id, row.published_at)
    elif row.run_id not in state.unstarted.published and row.run_id not in state.publishing.in_progress:
        # Its leader may have died between commit and publish; a duplicate message finds the claim taken.
        redispatch(state, step, [row.run_id], "unconfirmed")
    return
