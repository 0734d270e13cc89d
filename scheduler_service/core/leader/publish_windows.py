"""The publish window of each queue: how many runs may lie in it, sent and neither received nor started.

With `PUBLISH_WINDOW=auto` that is the free slots of the workers that listen, and what was started in the last
`PUBLISH_AHEAD`. The rest waits in the database, where priority and cancelling reach it. What lies in a queue for long
while a better priority waits is recalled. A number is a fixed window of pending runs. Never dispatches.
"""

from typing import Final

from itinerary.protocol.instants import SECOND, Instant
from scheduler_service.core.leader.recalling import recall_unreceived
from scheduler_service.core.leader.results import QueuesSeen
from scheduler_service.core.leader.state import SchedulerState
from scheduler_service.core.leader.step import Step

WITHOUT_WORKERS: Final = 100
_LATE: Final = SECOND


def room(state: SchedulerState, queue: str, now: Instant) -> int:
    """How many runs of the queue may be dispatched now; with `auto` none before a refill is worth a transaction."""
    settings, under_way = state.settings, state.dispatches.of_queue[queue]
    pending = state.runs.pending[queue]
    if settings.publish_window is not None:
        return settings.publish_window - pending - under_way
    lying = _in_queue(state, queue) + under_way
    free = free_slots(state, queue)
    window = state.windows.find(
        queue, WITHOUT_WORKERS if free is None else free, settings.publish_ahead, now,
        is_late=now - state.inbox.listened.until > _LATE, is_dry=bool(free) and not (pending or under_way),
    )  # fmt: skip
    waiting = len(state.dispatches.waiting[queue])
    is_free = free is not None and lying < free
    return window - lying if state.windows.may_refill(queue, window - lying, waiting, now, is_free=is_free) else 0


def _in_queue(state: SchedulerState, queue: str) -> int:
    """Our messages that lie in the queue, as far as the leader knows."""
    return max(0, state.runs.pending[queue] - state.unstarted.held[queue])


def free_slots(state: SchedulerState, queue: str) -> int | None:
    """The free slots of the workers that listen to the queue; None if no worker is known to listen."""
    listening = [view for view in state.workers.listening(queue) if state.is_alive(view)]
    if not listening:
        return None
    return sum(max(0, view.concurrency - state.runs.running_on[view.name]) for view in listening)


def queues_seen(state: SchedulerState, seen: QueuesSeen, now: Instant) -> None:
    """Note the queues in which others' messages lie before ours: our share of them must not shrink to a few."""
    for queue, length in seen.lengths.items():
        state.windows.seen(queue, length, _in_queue(state, queue), now)


def recall_outranked(state: SchedulerState, step: Step) -> None:
    """Recall what has lain in its queue for long while a run of a better priority waits; once a second.

    Only where a worker listens: recalled messages lie in the queue until one has taken them out.
    """
    if state.settings.publish_window is not None or not state.windows.check_due(step.now):
        return
    state.windows.forget_idle(state.runs.pending, state.dispatches.waiting, step.now)
    best = {
        queue: priority
        for queue, lanes in state.dispatches.waiting.items()
        if (priority := lanes.best_priority()) is not None and free_slots(state, queue) is not None
    }
    if best:
        reason = "recalled: runs of a better priority waited"
        recall_unreceived(state, step, lambda run: run.priority > best.get(run.queue, run.priority), reason)
