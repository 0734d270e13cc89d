"""Polls of the database for rows that others wrote: new runs, overdue runs, expired runs, cancel requests.

The cost of a poll is proportional to what it finds; the next poll brings what did not fit. A wakeup causes a
poll at once. The more rows a poll returned, the later the next wakeup may poll: a flood of wakeups causes few polls.
"""

from collections.abc import Sequence
from typing import Final

from itinerary.protocol.instants import Instant
from scheduler_service.core.leader.freezing import frozen_queues
from scheduler_service.core.leader.frozen import needed_since
from scheduler_service.core.leader.lane_polling import poll_lanes, stays_in_database, take_lanes
from scheduler_service.core.leader.lane_reads import LaneFeedback
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

_OVERDUE_LIMIT: Final = 1_000
_CANCEL_LIMIT: Final = 1_000
_EXPIRED_LIMIT: Final = 1_000
_FEW: Final = 100
_FIRST_PART: Final = 8
_MANY: Final = 1_000


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
    asks = by_time or (polls.wanted and step.now >= polls.wanted_at)
    if not asks and not state.full_queues:
        return
    held = frozen_queues(state, step.now)
    if asks:
        polls.begin_due(step.now)
        if held is not None:  # everything is frozen: nothing is to be found
            until = step.now + state.settings.pre_schedule_interval
            size = state.settings.due_page
            # A new leader dispatches the first of them while it reads the rest.
            size = size if polls.is_first_answered else max(1, size // _FIRST_PART)
            step.others.append(ReadDue(until, size, held))
    poll_lanes(state, step, held)


def enqueued(state: SchedulerState, step: Step, run_ids: Sequence[str]) -> None:
    """Read these new runs: few by their names, many as a poll finds them, so that memory holds no flood."""
    if len(run_ids) > _FEW or len(state.reads.in_progress) > _MANY:
        state.polls.want()
        return
    for run_id in run_ids:
        if state.runs.get(run_id) is None:
            step.read(state, run_id)


def moved(state: SchedulerState, step: Step, run_ids: Sequence[str]) -> None:
    """Read those that memory holds, under the queue that they left; a poll of their new queue finds the others."""
    for run_id in run_ids:
        if state.runs.get(run_id) is not None:
            step.read(state, run_id)
    state.polls.want()


def woken(state: SchedulerState) -> None:
    """Request a poll as soon as possible: another process committed runs."""
    state.polls.want()


def next_poll(state: SchedulerState) -> Instant | None:
    """The time of the next poll that the clock alone does not bring; None if there is none."""
    times = (state.polls.wanted_at if state.polls.wanted else None, state.full_queues.next_at())
    return min(filter(None, times), default=None)


def due_read(state: SchedulerState, step: Step, read: DueRead) -> None:
    """Take over runs that memory does not hold yet; of full queues those of which it has few."""
    for queue in state.full_queues:
        if queue not in read.full and state.full_queues.forget(queue):
            state.polls.want()  # a run may have been left in the database since this poll began
    for queue in sorted(read.full):
        state.full_queues.note_full(queue)
    for run in read.runs:
        if state.runs.get(run.run_id) is not None or not stays_in_database(state, run):
            _take_over(state, step, run)
    if read.full and not state.polls.is_first_answered:
        state.polls.want()
    state.polls.due_read(len(read.runs), step.now)


def lanes_read(state: SchedulerState, step: Step, read: LaneFeedback) -> None:
    """Take over the runs of a page of lanes."""
    for run in take_lanes(state, step, read):
        _take_over(state, step, run)


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
    elif known is not None and known.queue != run.queue:
        step.read(state, run.run_id)  # it was moved, and the message about that was lost


def cancels_read(state: SchedulerState, step: Step, read: CancelsRead) -> None:
    """Re-read runs that memory does not know to be cancelled."""
    for row in read.runs:
        run = state.runs.get(row.run_id)
        if run is None or (not run.cancel_requested and run.state in (RunState.PENDING, RunState.RUNNING)):
            step.read(state, row.run_id)
    state.polls.cancels_read(read.after)
