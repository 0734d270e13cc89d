"""Polls lane by lane, where more runs wait in a queue than a poll by time brings.

Promises that a flood in one lane hides no run of another, and that memory holds a bounded number of runs of each queue.
The rest of a lane stays in the database until memory has few of it. Never leaves a planned run there, or a retry that
its job's other runs wait for.
"""

from collections.abc import Collection
from typing import Final

from itinerary.protocol.instants import MILLISECOND
from scheduler_service.core.leader.lane_reads import LaneFeedback, LanePage, LanesRead, ReadHeads, ReadLanes
from scheduler_service.core.leader.requested import is_requested
from scheduler_service.core.leader.state import SchedulerState
from scheduler_service.core.leader.step import Step
from scheduler_service.core.model import ActiveRun
from scheduler_service.core.run_state import RunState

_LANES_AT_ONCE: Final = 500
_PAGES_AT_ONCE: Final = 20
_CONSIDERED: Final = 200
_AGAIN_AFTER: Final = 20 * MILLISECOND
# In pages of a poll: what is read at once, what memory has of a lane that is alone in its queue, and of a queue.
_AT_ONCE: Final = 2
_OF_ONE_LANE: Final = 4
_OF_QUEUE: Final = 10
# Of each of many lanes memory has at least this part of a page.
_PART: Final = 16


def poll_lanes(state: SchedulerState, step: Step, held: Collection[str] | None) -> None:
    """Continue the rounds through the lanes of full queues, and read pages of those that memory has few runs of.

    `held`: the queues of which nothing is dispatched; None if they all are.
    """
    full = state.full_queues
    for queue in full:
        if held is None or queue in held:
            full.forget(queue)
            continue
        first = full.begin_lanes(queue, step.now)
        if first is not None:
            step.others.append(ReadLanes(queue, first, _LANES_AT_ONCE))
    if not full or full.heads_awaited(step.now):
        return
    pages = _wanted(state)
    full.consider_again(_CONSIDERED, step.now + _AGAIN_AFTER)
    if pages:
        full.begin_heads(step.now)
        until = step.now + state.settings.pre_schedule_interval
        step.others.append(ReadHeads(until, tuple(pages), _share_of(state, _AT_ONCE, len(pages))))


def _wanted(state: SchedulerState) -> list[LanePage]:
    pages: list[LanePage] = []
    for queue in state.full_queues:
        for page in state.full_queues.next_pages(queue, _CONSIDERED):
            if _has_few(state, page):
                pages.append(page)
                if len(pages) == _PAGES_AT_ONCE:
                    return pages
    return pages


def _has_few(state: SchedulerState, page: LanePage) -> bool:
    known = state.runs.requested
    number, together = known.in_lane(page.queue, page.lane), known.in_queue(page.queue)
    most = _OF_QUEUE * state.settings.due_page
    if together >= most:
        return not number and together < 2 * most
    return 2 * number < _share(state, page.queue)


def _share(state: SchedulerState, queue: str) -> int:
    """How many runs of each of its lanes memory is to have."""
    return _share_of(state, _OF_ONE_LANE, state.runs.requested.lanes(queue))


def _share_of(state: SchedulerState, pages: int, lanes: int) -> int:
    page = state.settings.due_page
    return max(1, page // _PART, pages * page // max(1, lanes))


def take_lanes(state: SchedulerState, step: Step, read: LaneFeedback) -> tuple[ActiveRun, ...]:
    """Take what was read of lanes; returns the runs."""
    if isinstance(read, LanesRead):
        state.full_queues.lanes_read(read, step.now)
        return ()
    state.full_queues.heads_read(read)
    return read.runs


def stays_in_database(state: SchedulerState, run: ActiveRun) -> bool:
    """Whether memory, which does not hold the run, has enough of its lane; a later page brings it then."""
    if not is_requested(run) or run.cancel_requested or (run.state is RunState.RETRYING and run.job_id is not None):
        return False
    known, page = state.runs.requested, state.settings.due_page
    together, as_urgent = known.in_queue(run.queue), known.in_lane(run.queue, run.lane, run.priority)
    if run.queue not in state.full_queues and together < _OF_ONE_LANE * page:
        return False
    if together < _OF_QUEUE * page:
        stays = as_urgent >= _share(state, run.queue)
    else:
        stays = as_urgent > 0 or together >= 2 * _OF_QUEUE * page
    if stays:
        state.full_queues.left(run)
    return stays
