"""Polls of the database for rows that others wrote: new runs, overdue runs, expired runs, cancel requests.

The cost of a poll is proportional to what it finds; the next poll brings what did not fit. A wakeup causes a
poll at once. The more rows a poll returned, the later the next wakeup may poll: a flood of wakeups causes few polls.
"""

from typing import Final

from itinerary.protocol.instants import Instant
from scheduler_service.core.leader.freezing import frozen_queues
from scheduler_service.core.leader.frozen import needed_since
from scheduler_service.core.leader.poll_state import (
    CancelsRead,
    DueRead,
    ExpiredRead,
    OverdueRead,
    ReadCancels,
    ReadControls,
    ReadDue,
    ReadExpired,
    ReadOverdue,
)
from scheduler_service.core.leader.reconciling import reconcile
from scheduler_service.core.leader.state import SchedulerState
from scheduler_service.core.leader.step import Step
from scheduler_service.core.model import ActiveRun
from scheduler_service.core.run_state import FINAL, RunState

_DUE_LIMIT: Final = 10_000
_OVERDUE_LIMIT: Final = 1_000
_CANCEL_LIMIT: Final = 1_000
_EXPIRED_LIMIT: Final = 1_000


def poll(state: SchedulerState, step: Step) -> None:
    """Poll the database for rows that other processes wrote and for cancel requests whose message was lost."""
    polls, interval = state.polls, state.settings.due_poll_interval
    by_time = step.now >= polls.next_at
    if state.controls.take_ended(step.now):
        polls.want()  # the runs of that queue stayed in the database
    if by_time or state.controls.wanted:
        confirm = state.controls.begin_read()
        since = needed_since(state.planned.cursor, state.judged.until)
        step.others.append(ReadControls(state.controls.version, since, confirm))
    if by_time:
        step.others.append(ReadCancels(_CANCEL_LIMIT, polls.begin_cancels(step.now, interval)))
    if step.now >= polls.overdue.next_at:
        # Memory holds every planned run: an overdue one that it does not hold was lost from it.
        after = polls.overdue.begin(step.now, interval)
        step.others.append(ReadOverdue(step.now - interval, _OVERDUE_LIMIT, after))
    if step.now >= polls.expired.next_at:
        step.others.append(ReadExpired(step.now, _EXPIRED_LIMIT, polls.expired.begin(step.now, interval)))
    if by_time or (polls.wanted and step.now >= polls.wanted_at):
        polls.begin_due(step.now)
        until, held = step.now + state.settings.pre_schedule_interval, frozen_queues(state, step.now)
        if held is not None:  # everything is frozen: nothing is to be found
            step.others.append(ReadDue(until, _DUE_LIMIT, held))


def woken(state: SchedulerState) -> None:
    """Request a poll as soon as possible: another process committed runs."""
    state.polls.want()


def next_poll(state: SchedulerState) -> Instant | None:
    """The time of the requested poll, or None if none is requested."""
    return state.polls.wanted_at if state.polls.wanted else None


def due_read(state: SchedulerState, step: Step, read: DueRead) -> None:
    """Take over runs that memory does not hold yet."""
    for run in read.runs:
        _take_over(state, step, run)
    state.polls.due_read(len(read.runs), full=read.full, now=step.now)


def waiting_read(state: SchedulerState, step: Step, read: OverdueRead | ExpiredRead) -> None:
    """Take over planned runs that memory lost, and expired runs that only the database holds."""
    for run in read.runs:
        _take_over(state, step, run)  # the deadline of an expired run is judged later, against memory
    poll = state.polls.expired if isinstance(read, ExpiredRead) else state.polls.overdue
    poll.read(read.after, step.now)


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
    state.polls.cancels_read(read.after)
