"""Effects of pausing, resuming and deleting a job on its runs.

Occurrences that were due before a pause and had to wait are kept for the resume, or skipped. Occurrences that fall due
within a pause have no rows, see planning.py.
"""

from itinerary.protocol.instants import Instant
from scheduler_service.core.leader import freezing
from scheduler_service.core.leader.commands import Transition
from scheduler_service.core.leader.in_flight import take_claims
from scheduler_service.core.leader.planning import is_planned
from scheduler_service.core.leader.reports import end
from scheduler_service.core.leader.state import SchedulerState
from scheduler_service.core.leader.step import Step
from scheduler_service.core.model import ActiveRun, Job
from scheduler_service.core.run_state import Event, RunState


def is_paused(state: SchedulerState, run: ActiveRun, now: Instant) -> bool:
    """Whether a pause of its job holds this planned occurrence back; a pause that skips does so after its end too."""
    history = state.jobs.get(run.job_id)
    if history is None or not history.current.paused or not is_planned(run):
        return False
    job = history.current
    return job.paused_until is None or (run.scheduled_at if job.pause_skips else now) < job.paused_until


def hold_or_skip(state: SchedulerState, step: Step, run: ActiveRun, job: Job) -> None:
    """Keep the run of a paused job until the resume, or skip it if the pause skips waiting runs."""
    if job.pause_skips:
        change = Transition(run.run_id, run.attempt, Event.SKIP, RunState.SKIPPED, step.now, reason="its job is paused")
        end(state, step, run, change)
        return
    state.runs.set_back(run)
    state.judged.waits(step.now)  # commits that its lateness was judged, for the next leader
    if job.paused_until is not None or run.due_at > step.now:  # not yet due where the database's clock went back
        state.due.wait_until(run, max(run.due_at, job.paused_until or 0))


def follow_edit(state: SchedulerState, step: Step, job_id: str) -> None:
    """Apply a pause, resume, deletion or other tags of an edited job to its runs."""
    freezing.follow_edit(state, step, job_id)
    history = state.jobs[job_id]
    if history.current.deleted:
        _end_with_job(state, step, job_id)
    elif any(version.paused for version in history.versions):
        _pause_or_resume(state, step, job_id)


def _pause_or_resume(state: SchedulerState, step: Step, job_id: str) -> None:
    """Hold back the waiting occurrences of a paused job; let those of a resumed one proceed."""
    planned = [run for run in state.runs.of_job(job_id) if is_planned(run)]
    is_paused_now = state.jobs[job_id].current.paused
    for run in planned:
        # Also what is not due any more since the database's clock stepped back: a pause took it from the due runs.
        if run.due_at > step.now or not is_paused_now:
            state.due.wait_until(run)
    if not is_paused_now:
        return
    waiting = [run for run in planned if run.due_at <= step.now]
    state.held.drop(job_id, {run.run_id for run in waiting})
    for run in waiting:
        if run.run_id not in state.dispatches.in_progress:
            state.runs.set_back(run)
            step.read(state, run.run_id)


def _end_with_job(state: SchedulerState, step: Step, job_id: str) -> None:
    """End the runs of a deleted job: cancel waiting ones and unclaimed pending ones; let running ones finish."""
    ours = state.runs.of_job(job_id)
    for run in ours:
        if run.state in (RunState.SCHEDULED, RunState.RETRYING):
            step.read(state, run.run_id)
    take_claims(state, step, [r.run_id for r in ours if r.state is RunState.PENDING], "its job was deleted")
