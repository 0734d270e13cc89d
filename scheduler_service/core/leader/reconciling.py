"""What the database says of a run, against what memory holds: the database wins, unless memory is newer."""

from typing import Final

from itinerary.protocol.instants import MILLISECOND, SECOND
from scheduler_service.core.leader.commands import (
    ForgetAttempts,
    ForgetResults,
    RaiseWatermarks,
    ReadJobs,
    StopTasks,
    TrimInbox,
)
from scheduler_service.core.leader.dispatching import is_to_be_judged
from scheduler_service.core.leader.in_flight import redispatch, take_claims
from scheduler_service.core.leader.job_states import hold_back, is_paused
from scheduler_service.core.leader.reports import cancel
from scheduler_service.core.leader.results import Applied, RunsRead, WatermarksRaised
from scheduler_service.core.leader.state import SchedulerState, Step, keep
from scheduler_service.core.model import ActiveRun, RunKind
from scheduler_service.core.run_state import FINAL, WAITING, Event, RunState

_POLL_AGAIN: Final = 200 * MILLISECOND
_TRIM_EVERY: Final = 10 * SECOND


def applied(state: SchedulerState, step: Step, done: Applied) -> None:
    """An Apply is committed: what did not match its guard is read anew; result keys of the rest may go."""
    refused = set(done.refused)
    over = [(report.run_id, report.attempt) for report in done.batch.late]
    for change in done.batch.transitions:
        if change.run_id in refused:
            step.read(state, change.run_id)
            continue
        if change.event is not Event.START:
            over.append((change.run_id, change.attempt))
            state.watermarks.committed(change.run_id, change.attempt)
    if over:
        step.others.append(ForgetResults(tuple(over)))
    if done.batch.position in state.epoch.positions:
        state.epoch.committed = True
    if done.batch.position is not None and step.now - state.trimmed_at > _TRIM_EVERY:
        state.trimmed_at = step.now
        step.others.append(TrimInbox(done.batch.position))


def raise_watermarks(state: SchedulerState, step: Step) -> None:
    """Once a second, the floors of queues in which something changed."""
    if step.now < state.next_watermarks_at:
        return
    state.next_watermarks_at = step.now + SECOND
    watermarks = state.watermarks.to_raise(state.seq + 1)
    for queue in watermarks:
        if queue not in state.runs.pending:
            state.started_seq.pop(queue, None)  # asked of pending runs only
    if watermarks:
        step.others.append(RaiseWatermarks(watermarks, state.watermarks.lowest(state.seq + 1)))


def watermarks_raised(state: SchedulerState, step: Step, raised: WatermarksRaised) -> None:
    """Ended attempts below the floors can be forgotten: whatever is still delivered of them starts nothing."""
    passed = state.watermarks.raised(raised.watermarks)
    if passed:
        step.others.append(ForgetAttempts(tuple(passed)))
    # Nothing pending is below it; known here, the next look at the generation has nothing to do.
    state.epoch.watermark = max(state.epoch.watermark, raised.lowest)
    highest = max(raised.watermarks.values(), default=0)
    if highest > state.seq + 1:
        # Redis remembers a database that is no more: go on above its numbers.
        state.seq = highest
        redispatch(state, step, [run.run_id for run in state.runs if run.seq < highest], "floor")


def runs_read(state: SchedulerState, step: Step, read: RunsRead) -> None:
    """Settle what was asked for; a run that was moved meanwhile, or is being moved or sent, is read once more."""
    rows = {row.run_id: row for row in read.runs}
    for run_id in read.asked:
        memory_is_newer = (
            state.reading.pop(run_id, False) or run_id in state.dispatching or run_id in state.redispatching
        )
        if run_id in state.refused:
            state.refused.discard(run_id)
            state.counts["stale", _stale_because(rows.get(run_id))] += 1
        if memory_is_newer:
            step.read(state, run_id)
        elif run_id in rows:
            reconcile(state, step, rows[run_id])
        else:
            state.runs.drop(run_id)
            state.watermarks.dropped(run_id)


def _stale_because(row: ActiveRun | None) -> str:
    """Why a due row could not be moved: its job held it back, or it was somewhere else already."""
    if row is None:
        return "gone"
    if row.state in WAITING:
        return "held_by_job"
    return "final" if row.state in FINAL else "already_out"


def reconcile(state: SchedulerState, step: Step, row: ActiveRun) -> None:
    """Make memory agree with this row and go on from there."""
    if row.run_id in state.dispatching or row.run_id in state.redispatching:
        return
    known = state.runs.get(row.run_id)
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
    # A retry, however far away, is live: its job's overlap rule asks for it. What a schedule made is found only here.
    is_tracked = row.kind is RunKind.OCCURRENCE or (row.state is RunState.RETRYING and row.job_id is not None)
    if row.due_at > step.now + state.settings.lookahead_window and not (is_tracked or row.cancel_requested):
        state.runs.drop(row.run_id)
        return
    keep(state, row, step.now)
    if row.cancel_requested:
        cancel(state, step, row, "cancelled while it waited")
        return
    history = state.jobs.get(row.job_id) if row.job_id is not None else None
    job = history.current if history is not None else None
    if row.job_id is not None and history is None:
        step.others.append(ReadJobs((row.job_id,)))
    if job is not None and job.deleted:
        cancel(state, step, row, "its job was deleted")
        return
    if (
        job is not None
        and is_paused(state, row, step.now)
        and (job.pause_skips or not is_to_be_judged(state, row, step.now))
    ):
        hold_back(state, step, row, job)
        return
    # A refused row is not looked at again at once: an edit not yet planned, or another's lock, needs a moment.
    state.wait_until(row, max(row.due_at, step.now + _POLL_AGAIN) if again else None)


def _reconcile_in_flight(state: SchedulerState, step: Step, row: ActiveRun) -> None:
    if row.state is RunState.PENDING:
        state.watermarks.taken_over(row.queue, row.run_id, row.attempt)
    keep(state, row, step.now)
    if row.state is RunState.PENDING:
        _reconcile_pending(state, step, row)
        return
    state.reported.setdefault(row.run_id, step.now)
    state.watch_at(step.now + state.settings.loop_interval, row.run_id)
    if row.cancel_requested:
        step.others.append(StopTasks(((row.run_id, row.attempt),)))


def _reconcile_pending(state: SchedulerState, step: Step, row: ActiveRun) -> None:
    history = state.jobs.get(row.job_id) if row.job_id is not None else None
    if row.cancel_requested:
        take_claims(state, step, [row.run_id], "cancelled before it started")
    elif history is not None and history.current.deleted:
        take_claims(state, step, [row.run_id], "its job was deleted")
    elif row.seq < state.epoch.watermark:
        redispatch(state, step, [row.run_id], "generation")
    elif row.published_at is not None:
        state.published.setdefault(row.run_id, row.published_at)
    elif row.run_id not in state.published and row.run_id not in state.publishing:
        # Its leader may have died between commit and publish; a second message finds the claim.
        redispatch(state, step, [row.run_id], "unconfirmed")
    return
