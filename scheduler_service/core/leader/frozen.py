"""Which freezes meet a run: lookups for the rules that judge lateness, dispatch, and recall. Changes nothing.

A job's tags are those of its present version. Past freezes count too: an occurrence is judged by the one that held at
its due time.
"""

from collections.abc import Iterable

from itinerary.protocol.instants import Instant
from scheduler_service.core.freezes import FREEZES_KEPT, Freeze, late_from, skipping
from scheduler_service.core.leader.state import SchedulerState
from scheduler_service.core.model import ActiveRun


def freezes_of(state: SchedulerState, queue: str, job_id: str | None, due_at: Instant) -> tuple[Freeze, ...]:
    """The known freezes that judge such a run due then: those in whose scope it is, and that end later."""
    return _meeting(state, state.controls.lasting(due_at), queue, job_id)


def freeze_of(state: SchedulerState, run: ActiveRun, now: Instant) -> Freeze | None:
    """The oldest freeze that holds the run back now."""
    holding = state.controls.holding(now)
    if not holding or run.forced:
        return None
    return next(iter(_meeting(state, holding, run.queue, run.job_id)), None)


def lateness_counts_from(state: SchedulerState, run: ActiveRun) -> Instant:
    """The run's due time, or the end of the freezes that held it from then on."""
    if not state.controls.freezes or run.forced:
        return run.due_at
    return late_from(freezes_of(state, run.queue, run.job_id, run.due_at), run.due_at)


def deadline_of(state: SchedulerState, run: ActiveRun) -> Instant | None:
    """The run's start deadline; freezes that held it from its due time on put it off."""
    return None if run.start_by is None else run.start_by + lateness_counts_from(state, run) - run.due_at


def skipping_freeze(state: SchedulerState, freezes: Iterable[Freeze], due_at: Instant) -> Freeze | None:
    """The freeze that skips an occurrence due at this instant; None also while an edit might have ended it before."""
    return skipping(freezes, due_at) if due_at < state.controls.read_at else None


def is_to_be_skipped(state: SchedulerState, run: ActiveRun) -> bool:
    """Whether a freeze that skips held at the due time of this planned occurrence."""
    return skipping(freezes_of(state, run.queue, run.job_id, run.due_at), run.due_at) is not None


def needed_since(cursor: Instant | None, judged_until: Instant | None) -> Instant:
    """The time since when freezes may still judge an occurrence."""
    return max(0, min(cursor or 0, judged_until or 0) - FREEZES_KEPT)


def _meeting(state: SchedulerState, freezes: tuple[Freeze, ...], queue: str, job_id: str | None) -> tuple[Freeze, ...]:
    if not freezes:
        return ()
    history = state.jobs.get(job_id)
    tags = () if history is None else history.current.tags
    return tuple(one for one in freezes if one.scope.meets(queue, job_id, tags))
