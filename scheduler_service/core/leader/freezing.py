"""Occurrences that freezes skip, and the gate of a dispatch. An occurrence is judged by the freeze at its due time.

Promises that nothing in scope is dispatched while a freeze holds, forced runs aside. An occurrence due within one that
skips never runs, also if a leader finds it later. Never skips what somebody asked for, or a retry.
"""

from typing import Final

from itinerary.protocol.instants import MILLISECOND, Instant
from scheduler_service.core.freezes import skipping
from scheduler_service.core.leader.frozen import (
    deadline_of,
    freeze_of,
    freezes_of,
    is_to_be_skipped,
    skipping_freeze,
)
from scheduler_service.core.leader.holding import held_text, hold_frozen, queue_up, skip
from scheduler_service.core.leader.planning import is_fresh
from scheduler_service.core.leader.state import SchedulerState
from scheduler_service.core.leader.step import Step
from scheduler_service.core.model import ActiveRun
from scheduler_service.core.run_state import RunState

_ASK_AGAIN: Final = 200 * MILLISECOND
_MOST_IN_MEMORY: Final = 10_000


def skip_frozen(state: SchedulerState, step: Step, ripe: list[ActiveRun]) -> list[ActiveRun]:
    """End due occurrences that a freeze skips; return the others."""
    return [run for run in ripe if not _is_skipped(state, step, run)] if state.controls.any_skips else ripe


def _is_skipped(state: SchedulerState, step: Step, run: ActiveRun) -> bool:
    if not is_fresh(run):
        return False
    freezes = freezes_of(state, run.queue, run.job_id, run.due_at)
    freeze = skipping(freezes, run.due_at)
    if freeze is None:
        return False
    if skipping_freeze(state, freezes, run.due_at) is None:
        # Somebody may have ended the freeze before the run was due, in an edit that is not read yet.
        state.controls.confirm(step.now)
        state.due.wait_until(run, step.now + _ASK_AGAIN)
    else:
        skip(state, step, run, freeze.skipped(), "frozen")
    return True


def may_go(state: SchedulerState, step: Step, run: ActiveRun) -> bool:
    """Whether no freeze keeps this admitted run from its dispatch; otherwise it waits, or is skipped soon."""
    if not state.controls.freezes or run.forced:
        return True
    if state.controls.any_skips and is_fresh(run) and is_to_be_skipped(state, run):
        state.due.wait_until(run, step.now)  # it was admitted before its freeze was known
        return False
    return not hold_frozen(state, run, step.now)


def waits_in_database(state: SchedulerState, row: ActiveRun, now: Instant) -> bool:
    """Whether a paused or frozen run that somebody asked for stays in the database: a poll finds it afterwards.

    Of runs of jobs memory holds some, since their overlap rules count them.
    """
    deadline = deadline_of(state, row)
    if deadline is not None and deadline <= now:
        return False
    if row.job_id is None:
        return held_text(state, row, now) is not None
    is_full = len(state.frozen) >= _MOST_IN_MEMORY and row.state is RunState.SCHEDULED
    return is_full and freeze_of(state, row, now) is not None


def frozen_queues(state: SchedulerState, now: Instant) -> tuple[str, ...] | None:
    """The queues that are paused or frozen as a whole; None if all are."""
    holding = state.controls.holding(now)
    if any(one.scope.everything for one in holding):
        return None
    return tuple(sorted({*state.controls.held_queues(now), *(q for one in holding for q in one.scope.queues)}))


def follow_edit(state: SchedulerState, step: Step, job_id: str) -> None:
    """Judge held runs of an edited job again: its tags may have brought it into a scope or out of one."""
    for run_id in state.frozen.take_job(job_id):
        if (run := state.runs.get(run_id)) is not None:
            queue_up(state, run, step.now)
