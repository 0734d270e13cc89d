"""Polls of the database for rows that others wrote: new runs, overdue runs, expired runs, cancel requests.

The cost of a poll is proportional to what it finds; the next poll brings what did not fit. A wakeup polls at once, but
the next poll waits in proportion to the last result. So a flood of wakeups or a long backlog causes few polls.
"""

from typing import Final

from itinerary.protocol.instants import MICROSECOND, MILLISECOND, SECOND, Instant
from scheduler_service.core.leader.poll_state import (
    CancelsRead,
    DueRead,
    ExpiredRead,
    OverdueRead,
    ReadCancels,
    ReadDue,
    ReadExpired,
    ReadOverdue,
)
from scheduler_service.core.leader.reconciling import reconcile
from scheduler_service.core.leader.state import SchedulerState, Step
from scheduler_service.core.model import ActiveRun, RunKind
from scheduler_service.core.run_state import FINAL, RunState

_DUE_LIMIT: Final = 10_000
_OVERDUE_LIMIT: Final = 1_000
_CANCEL_LIMIT: Final = 1_000
_EXPIRED_LIMIT: Final = 1_000
_GO_ON: Final = 500 * MILLISECOND
_PAUSE: Final = 20 * MILLISECOND
_PAUSE_A_ROW: Final = 100 * MICROSECOND


def poll(state: SchedulerState, step: Step) -> None:
    """Poll the database for rows that other processes wrote and for cancel requests whose message was lost."""
    by_time = step.now >= state.next_due_poll_at
    if by_time:
        state.next_due_poll_at = step.now + state.settings.due_poll_interval
        step.others.append(ReadCancels(_CANCEL_LIMIT, state.cancels_after))
        state.cancels_after = None
    if step.now >= state.next_overdue_at:
        # Memory holds every planned run: an overdue one that it does not hold was lost from it.
        state.next_overdue_at = step.now + state.settings.due_poll_interval
        until = step.now - state.settings.due_poll_interval
        step.others.append(ReadOverdue(until, _OVERDUE_LIMIT, state.overdue_after))
        state.overdue_after = None
    deadlines = state.deadlines
    if step.now >= deadlines.next_poll_at:
        deadlines.next_poll_at = step.now + state.settings.due_poll_interval
        step.others.append(ReadExpired(step.now, _EXPIRED_LIMIT, deadlines.poll_after))
        deadlines.poll_after = None
    if by_time or (state.poll_wanted and step.now >= state.next_poll_at):
        state.poll_wanted = False
        state.next_poll_at = step.now + SECOND  # sooner, once this poll is answered
        step.others.append(ReadDue(step.now + state.settings.pre_schedule_interval, _DUE_LIMIT))


def woken(state: SchedulerState) -> None:
    """Request a poll as soon as possible: another process committed runs."""
    state.poll_wanted = True


def next_poll(state: SchedulerState) -> Instant | None:
    """The time of the requested poll, or None if none is requested."""
    return state.next_poll_at if state.poll_wanted else None


def due_read(state: SchedulerState, step: Step, read: DueRead) -> None:
    """Take over runs that memory does not hold yet."""
    for run in read.runs:
        _take_over(state, step, run)
    if read.full:
        state.next_due_poll_at = min(state.next_due_poll_at, step.now + _GO_ON)
    state.next_poll_at = min(state.next_poll_at, step.now + _PAUSE + len(read.runs) * _PAUSE_A_ROW)


def waiting_read(state: SchedulerState, step: Step, read: OverdueRead | ExpiredRead) -> None:
    """Take over runs that memory lost, and expired runs that only the database holds."""
    if isinstance(read, ExpiredRead):
        _expired_read(state, step, read)
    else:
        _overdue_read(state, step, read)


def _overdue_read(state: SchedulerState, step: Step, read: OverdueRead) -> None:
    """Take over overdue runs; requested (not planned) ones only while their queue has too few waiting."""
    for run in read.runs:
        if run.kind is RunKind.OCCURRENCE or len(state.dispatches.waiting.get(run.queue, ())) < _DUE_LIMIT:
            _take_over(state, step, run)
    state.overdue_after = read.after
    if read.after is not None:
        state.next_overdue_at = min(state.next_overdue_at, step.now + _GO_ON)


def _expired_read(state: SchedulerState, step: Step, read: ExpiredRead) -> None:
    """Take over expired runs; their deadline is judged later, against memory."""
    for run in read.runs:
        _take_over(state, step, run)
    state.deadlines.poll_after = read.after
    if read.after is not None:
        state.deadlines.next_poll_at = min(state.deadlines.next_poll_at, step.now + _GO_ON)


def _take_over(state: SchedulerState, step: Step, run: ActiveRun) -> None:
    known = state.runs.get(run.run_id)
    if known is None and run.run_id not in state.reads.in_progress:
        reconcile(state, step, run)
    elif known is not None and known.state in FINAL:
        step.read(state, run.run_id)  # its end may not be committed yet, or was refused


def cancels_read(state: SchedulerState, step: Step, read: CancelsRead) -> None:
    """Re-read runs that memory does not know to be cancelled."""
    for row in read.runs:
        run = state.runs.get(row.run_id)
        if run is None or (not run.cancel_requested and run.state in (RunState.PENDING, RunState.RUNNING)):
            step.read(state, row.run_id)
    state.cancels_after = read.after
