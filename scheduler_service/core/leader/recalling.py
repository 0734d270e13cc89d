"""Recall: a published run that nobody has started waits in the database again, with the same attempt.

The leader first marks the attempt in Redis, so that none of its messages so far starts it, then commits. A worker's
claim wins. Promises that no attempt is counted or lost. If the leader dies after the mark, the run is still pending,
and its next message starts it. Never recalls while a known worker does not understand the mark.
"""

from collections.abc import Callable, Iterable
from typing import Final

from itinerary.protocol.instants import SECOND
from itinerary.protocol.wire import HEARTBEAT_SECONDS
from scheduler_service.core.leader.commands import RecallClaims, Transition
from scheduler_service.core.leader.results import ClaimsRecalled
from scheduler_service.core.leader.state import SchedulerState
from scheduler_service.core.leader.step import Step
from scheduler_service.core.model import ActiveRun
from scheduler_service.core.run_state import PENDING, Event, next_state

_LIES_TOO_LONG: Final = 10 * SECOND
_LISTED_WITHIN: Final = 5 * HEARTBEAT_SECONDS * SECOND // 4
_RECALLED_AT_ONCE: Final = 1_000


def recall(state: SchedulerState, step: Step, run_ids: Iterable[str], reason: str) -> int:
    """Recall those of these runs whose message the broker has and nobody withdraws; returns how many."""
    if not (state.epoch.all_reported and state.workers.all_know_recalls()):
        return 0
    wanted = []
    for run_id in run_ids:
        run = state.runs.get(run_id)
        if run is not None and _may_be_recalled(state, run) and state.recalls.begin(run_id, reason):
            wanted.append((run_id, run.attempt, run.seq))
    if wanted:
        step.others.append(RecallClaims(tuple(wanted)))
    return len(wanted)


def recall_unreceived(
    state: SchedulerState, step: Step, wanted: Callable[[ActiveRun], bool], reason: str, *, gone: bool = False
) -> None:
    """Recall wanted runs that have lain in their queues for long, received by no worker; not all of many at once.

    `gone`: also those whose message has left its queue, and that no worker has listed or started since.
    """
    unreceived = []
    for run_id, at in state.unstarted.published.items():
        run = state.runs.get(run_id)
        if run is None or run.state is not PENDING or state.unstarted.is_received(run_id, step.now):
            continue
        if (step.now - at >= _LIES_TOO_LONG or (gone and _is_gone(state, run))) and wanted(run):
            unreceived.append(run_id)
    recall(state, step, unreceived[:_RECALLED_AT_ONCE], reason)


def _is_gone(state: SchedulerState, run: ActiveRun) -> bool:
    """Whether a later message of its queue has started, and a worker that took this one would have listed it since."""
    at = state.unstarted.overtaken_at(run.queue, run.seq)
    return at is not None and state.unreported_for(at) >= _LISTED_WITHIN


def _may_be_recalled(state: SchedulerState, run: ActiveRun) -> bool:
    """Whether the broker has confirmed the run's last message, so that no mark of its publish comes later."""
    return (
        run.state is PENDING
        and not run.cancel_requested
        and run.run_id in state.unstarted.published
        and run.run_id not in state.publishing.redispatching
        and not state.withdrawals.is_in_progress(run.run_id)
    )


def claims_recalled(state: SchedulerState, step: Step, recalled: ClaimsRecalled) -> None:
    """Let each run whose mark is set wait again, unless it was started, sent again or withdrawn meanwhile."""
    for run_id, attempt, seq, won in recalled.outcomes:
        reason = state.recalls.answered(run_id)
        run = state.runs.get(run_id)
        if not won or run is None or (run.attempt, run.seq) != (attempt, seq) or not _may_be_recalled(state, run):
            # A run that stays pending has a later message, which may claim, or gets one once this one is missed.
            continue
        to = next_state(run_id, run.state, Event.RECALL, attempt=attempt)
        state.attempt_over(run_id)
        state.counts.add("recalled")
        if state.settings.publish_window is None:
            state.windows.recalled(run.queue)
        after = run._replace(state=to, pending_at=None, published_at=None)
        step.transition(state, after, Transition(run_id, attempt, Event.RECALL, to, step.now, reason=reason))
        state.due.wait_until(after)
