"""The end of a pass: forgets finished runs, gone workers, and starts that are over."""

from scheduler_service.core.leader import rates
from scheduler_service.core.leader.state import SchedulerState
from scheduler_service.core.leader.step import Step
from scheduler_service.core.run_state import FINAL


def clean_up(state: SchedulerState, step: Step) -> None:
    """Forget finished runs after the grace period (in memory only), and workers that are gone."""
    for run_id in state.runs.ended_by(step.now - state.settings.grace_period):
        run = state.runs.get(run_id)
        # An edit may have created the same occurrence again meanwhile.
        is_over = run is not None and run.state in FINAL
        if is_over and run_id not in state.reads.in_progress:
            state.runs.drop(run_id)
    state.workers.forget_gone(step.now)
    rates.tidy(state, step)
