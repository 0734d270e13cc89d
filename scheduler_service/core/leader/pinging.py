"""Pings of a transition: the address of its job, if the job wants to hear of that event. Pure."""

from typing import Final

from scheduler_service.core.leader.commands import Transition
from scheduler_service.core.leader.parts.jobs import Jobs
from scheduler_service.core.model import ActiveRun
from scheduler_service.core.pings import Ping, PingState
from scheduler_service.core.run_state import RunState

_STATES: Final = {
    RunState.RUNNING: PingState.START,
    RunState.COMPLETED: PingState.SUCCESS,
    RunState.FAILED: PingState.FAILURE,
    RunState.MISSED: PingState.FAILURE,
}


def with_pings(jobs: Jobs, run: ActiveRun, change: Transition) -> Transition:
    """Return the transition with its ping; a run starts once, whatever its attempts."""
    job = jobs.get(run.job_id)
    if job is None or (wanted := job.versions[-1].ping) is None:
        return change
    event = _STATES.get(change.to)
    if event is None or event not in wanted.on or (event is PingState.START and change.attempt > 1):
        return change
    return change._replace(pings=(Ping(job.job_id, event, wanted.address_of(event)),))
