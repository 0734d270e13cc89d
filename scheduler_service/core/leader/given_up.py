"""Attempts that run, as heartbeats say, and that their rows know nothing of: they hold the slots of their run.

They were given up, or the database has forgotten their dispatch with what it lost: that is counted. Promises that an
attempt which its worker cannot stop keeps others out until it has ended. A new leader learns of them by two heartbeats:
one alone may list an attempt whose end it overtook. The exception is an attempt that no heartbeat lists: its slots are
free once it is declared lost.
"""

from typing import Final

from itinerary.protocol.identity import task_id
from itinerary.protocol.instants import SECOND
from itinerary.protocol.wire import HEARTBEAT_SECONDS
from scheduler_service.core.leader.messages import Heartbeat
from scheduler_service.core.leader.parts.slots import uses_of
from scheduler_service.core.leader.state import SchedulerState
from scheduler_service.core.leader.step import Step
from scheduler_service.core.model import ActiveRun
from scheduler_service.core.run_state import IN_FLIGHT, WAITING

_UNLISTED_FOR: Final = 5 * HEARTBEAT_SECONDS * SECOND // 2


def timed_out(state: SchedulerState, step: Step, run: ActiveRun) -> None:
    """Keep the slots of the attempt, which its worker may be unable to stop, until heartbeats say more."""
    name = task_id(run.run_id, run.attempt)
    state.slots.keep(name, uses_of(run.queue, run.limits), run.worker or "", step.now)


def listed(state: SchedulerState, step: Step, message: Heartbeat) -> None:
    """Keep or free the slots of given-up attempts, as this heartbeat lists them or does not."""
    for run_id, attempt in message.running if state.controls.limits else ():
        run = state.runs.get(run_id)
        if run is not None and run.attempt == attempt and run.state in IN_FLIGHT:
            continue
        if state.slots.is_listed_again(task_id(run_id, attempt), message.worker, step.now):
            if run is not None:
                row_read(state, step, run)
            if run is None or run.state in WAITING:
                step.read(state, run_id)
    state.slots.free_unlisted(message.worker, step.now - _UNLISTED_FOR, step.now - state.settings.lost_after)


def row_read(state: SchedulerState, step: Step, row: ActiveRun) -> None:
    """Keep the slots of attempts of this run that are not in flight by its row and that two heartbeats listed."""
    if not state.slots.suspects:
        return
    last = row.attempt - 1 if row.state in IN_FLIGHT else row.attempt
    for attempt in range(1, last + 1):
        name = task_id(row.run_id, attempt)
        if (worker := state.slots.suspects.get(name, ("", 0))[0]) != "":
            if attempt == row.attempt and row.state in WAITING:
                state.counts.add("forgotten")
            state.slots.keep(name, uses_of(row.queue, row.limits), worker, step.now)
