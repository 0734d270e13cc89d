"""Start deadlines: a run not started by its `start_by` ends `missed`, with a reason that names what it waited for.

Applies only before the first start: a retry keeps its remaining attempts. A heap holds the deadlines of runs in memory;
a paged database poll finds the other rows. Before a pending run ends `missed`, the leader takes its claim: no
worker can start it then. The next leader finds the same rows and decides the same.
"""

from typing import Final

from itinerary.protocol.instants import MILLISECOND, SECOND, Instant, format_instant
from scheduler_service.core.leader.commands import Transition
from scheduler_service.core.leader.frozen import deadline_of
from scheduler_service.core.leader.holding import held_text
from scheduler_service.core.leader.in_flight import take_claims
from scheduler_service.core.leader.reports import end
from scheduler_service.core.leader.state import SchedulerState
from scheduler_service.core.leader.step import Step
from scheduler_service.core.model import ActiveRun
from scheduler_service.core.policies import START_WITHIN
from scheduler_service.core.run_state import Event, RunState

_POLL_AGAIN: Final = 200 * MILLISECOND
_FROZEN_AGAIN: Final = 5 * SECOND


def expire(state: SchedulerState, step: Step) -> None:
    """End waiting runs whose deadline has passed, and withdraw published runs that have not started."""
    withdrawn = []
    for run_id in state.deadlines.passed(step.now):
        run = state.runs.get(run_id)
        if run is None or run.attempt != 1 or run.cancel_requested:
            continue
        deadline = deadline_of(state, run)
        if deadline is None or deadline > step.now:
            if deadline is not None:  # a freeze puts it off, until it is ended
                state.deadlines.check_at(min(deadline, step.now + _FROZEN_AGAIN), run_id)
            continue
        if run_id in state.dispatches.in_progress:
            # Its dispatch is unanswered: the run comes back pending or refused.
            state.deadlines.check_at(step.now + _POLL_AGAIN, run_id)
        elif run.state is RunState.SCHEDULED:
            miss(state, step, run, _reason(run, _waited_for(state, run, step.now)))
        elif run.state is RunState.PENDING:
            withdrawn.append(run)
    for run in withdrawn:
        take_claims(
            state, step, [run.run_id], _reason(run, f"it was sent to queue {run.queue} and no worker started it")
        )
    state.deadlines.forget_started(state.runs)


def miss(state: SchedulerState, step: Step, run: ActiveRun, reason: str) -> None:
    """End the run as `missed`: no worker will start it."""
    end(state, step, run, Transition(run.run_id, run.attempt, Event.EXPIRE, RunState.MISSED, step.now, reason=reason))


def _reason(run: ActiveRun, waited_for: str) -> str:
    by = "" if run.start_by is None else format_instant(run.start_by)
    return f"{START_WITHIN}: not started by {by}; {waited_for}"


def _waited_for(state: SchedulerState, run: ActiveRun, now: Instant) -> str:
    if run.job_id is not None and run.run_id in state.held.of(run.job_id):
        live = state.runs.live_of(run.job_id)
        return f"it waited for run {live[0]} of its job" if live else "it waited for another run of its job"
    if (text := held_text(state, run, now)) is not None:
        return text
    if (use := state.dispatches.waits_for(run)) is not None:
        return f"it waited for limit {use}"
    if state.runs.is_admitted(run.run_id):
        return f"it waited for room in queue {run.queue}"
    return "no leader read it in time"
