"""When to look into the database for what others wrote there: runs to come, cancel requests.

A look costs what it finds, and what does not fit into one is found by the next. One that a wakeup asks for is taken
at once, and the next one not before a pause in proportion to what the last one found, so that a flood of wakeups or a
long backlog is looked at now and then only.
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
    """Rows that others made, and words that were lost on their way, are found in the database itself."""
    by_time = step.now >= state.next_due_poll_at
    if by_time:
        state.next_due_poll_at = step.now + state.settings.due_poll_interval
        step.others.append(ReadCancels(_CANCEL_LIMIT, state.cancels_after))
        state.cancels_after = None
    if step.now >= state.next_overdue_at:
        # Planned runs are known to who planned them: one that is overdue and is not was lost from memory.
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
        state.next_poll_at = step.now + SECOND  # sooner, once this look has come back
        step.others.append(ReadDue(step.now + state.settings.pre_schedule_interval, _DUE_LIMIT))


def woken(state: SchedulerState) -> None:
    """Somebody committed runs: look as soon as may be."""
    state.poll_wanted = True


def next_poll(state: SchedulerState) -> Instant | None:
    """When the look that is wanted may be taken."""
    return state.next_poll_at if state.poll_wanted else None


def due_read(state: SchedulerState, step: Step, read: DueRead) -> None:
    """Take over what memory does not have yet."""
    for run in read.runs:
        _take_over(state, step, run)
    if read.full:
        state.next_due_poll_at = min(state.next_due_poll_at, step.now + _GO_ON)
    state.next_poll_at = min(state.next_poll_at, step.now + _PAUSE + len(read.runs) * _PAUSE_A_ROW)


def waiting_read(state: SchedulerState, step: Step, read: OverdueRead | ExpiredRead) -> None:
    """Take over what memory lost, or what should have started and is only in the database."""
    if isinstance(read, ExpiredRead):
        _expired_read(state, step, read)
    else:
        _overdue_read(state, step, read)


def _overdue_read(state: SchedulerState, step: Step, read: OverdueRead) -> None:
    """What was asked for is taken only as far as its queue has not enough of it that waits."""
    for run in read.runs:
        if run.kind is RunKind.OCCURRENCE or len(state.waiting.get(run.queue, ())) < _DUE_LIMIT:
            _take_over(state, step, run)
    state.overdue_after = read.after
    if read.after is not None:
        state.next_overdue_at = min(state.next_overdue_at, step.now + _GO_ON)


def _expired_read(state: SchedulerState, step: Step, read: ExpiredRead) -> None:
    """Its deadline is judged by what memory then knows of it."""
    for run in read.runs:
        _take_over(state, step, run)
    state.deadlines.poll_after = read.after
    if read.after is not None:
        state.deadlines.next_poll_at = min(state.deadlines.next_poll_at, step.now + _GO_ON)


def _take_over(state: SchedulerState, step: Step, run: ActiveRun) -> None:
    known = state.runs.get(run.run_id)
    if known is None and run.run_id not in state.reading:
        reconcile(state, step, run)
    elif known is not None and known.state in FINAL:
        step.read(state, run.run_id)  # its end may be on its way to the database still, or came to nothing


def cancels_read(state: SchedulerState, step: Step, read: CancelsRead) -> None:
    """Read anew what memory does not know to be cancelled."""
    for row in read.runs:
        run = state.runs.get(row.run_id)
        if run is None or (not run.cancel_requested and run.state in (RunState.PENDING, RunState.RUNNING)):
            step.read(state, row.run_id)
    state.cancels_after = read.after
