"""Polls lane by lane, where more runs wait in a queue than a poll by time brings.

Promises that a flood in one lane hides no run of another, and that memory holds a bounded number of runs of each queue.
The rest of a lane stays in the database until memory has few of it. Never leaves a planned run there, or a retry that
its job's other runs wait for.
"""

from collections.abc import Collection
from typing import Final

from itinerary.protocol.instants import MILLISECOND
from scheduler_service.core.leader.lane_reads import LaneFeedback, LanePage, LanesRead, ReadHeads, ReadLanes
from scheduler_service.core.leader.requested import LEAST_URGENT, is_left
from scheduler_service.core.leader.state import SchedulerState
from scheduler_service.core.leader.step import Step
from scheduler_service.core.model import ActiveRun

_LANES_AT_ONCE: Final = 500
_PAGES_AT_ONCE: Final = 20
_CONSIDERED: Final = 200
_AGAIN_AFTER: Final = 20 * MILLISECOND
# In pages of a poll: what is read at once; what memory has of a queue in which more waits; and with how much
# of a queue it takes no more of a lane of which it has any.
_AT_ONCE: Final = 2
_ENOUGH: Final = 4
_MOST: Final = 10
# Of each of many lanes memory has this part of a page, whatever it has of the others.
_PART: Final = 16
_FIRST_PART: Final = 4


def poll_lanes(state: SchedulerState, step: Step, held: Collection[str] | None) -> None:
    """Continue the rounds through the lanes of full queues, and read pages of those that memory has few runs of.

    `held`: the queues of which nothing is dispatched; None if they all are.
    """
    full = state.full_queues
    for queue in full:
        if held is None or queue in held:
            full.forget(queue)
            continue
        if _is_crowded(state, queue, 2 * _MOST) and full.begin_freeing(queue, step.now):
            _free_memory(state, queue)
        full.prune(queue, lambda page: _has_few(state, page))
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
        step.others.append(ReadHeads(until, tuple(pages), _rows(state, pages)))


def _wanted(state: SchedulerState) -> list[LanePage]:
    pages: list[LanePage] = []
    for queue in state.full_queues:
        for page in state.full_queues.next_pages(queue, _CONSIDERED):
            if _has_few(state, page):
                pages.append(page)
                if len(pages) == _PAGES_AT_ONCE:
                    return pages
    return pages


def _rows(state: SchedulerState, pages: Collection[LanePage]) -> int:
    if not state.full_queues.has_read_heads:
        return max(1, _part(state) // _FIRST_PART)  # a new leader dispatches these while it reads more
    if any(_is_crowded(state, page.queue, _MOST) for page in pages):
        return max(1, _part(state) // _PART)  # of as many lanes as possible
    return max(_part(state), _AT_ONCE * state.settings.due_page // len(pages))


def _is_crowded(state: SchedulerState, queue: str, pages: int) -> bool:
    return state.runs.requested.in_queue(queue) >= pages * state.settings.due_page


def _free_memory(state: SchedulerState, queue: str) -> None:
    """Drop what waits for a limit or for its job's other runs from memory, if it can be read again."""

    def wanted(run_id: str) -> bool:
        run = state.runs.get(run_id)
        if run is None:
            return True
        if run.queue != queue or run_id in state.dispatches.in_progress or run_id in state.reads.in_progress:
            return False
        # The overlap rule let an admitted run of a job pass: it would be asked again.
        return is_left(run) and (run.job_id is None or not state.runs.is_admitted(run_id))

    for run_id in (*state.dispatches.drop_closed(queue, wanted), *state.held.drop_rest(wanted)):
        state.runs.drop(run_id)


def _has_few(state: SchedulerState, page: LanePage) -> bool:
    """Whether memory has few runs of the lane, of those that come before the page."""
    known, size = state.runs.requested, state.settings.due_page
    together, before = known.in_queue(page.queue), page.after[0] if page.after is not None else LEAST_URGENT
    number = known.in_lane(page.queue, page.lane, before)
    if together < _ENOUGH * size:
        return True
    if together < _MOST * size:
        return 2 * number < _part(state)
    return not number and together < 2 * _MOST * size


def _part(state: SchedulerState) -> int:
    return max(1, state.settings.due_page // _PART)


def take_lanes(state: SchedulerState, step: Step, read: LaneFeedback) -> tuple[ActiveRun, ...]:
    """Take what was read of lanes; returns the runs."""
    if isinstance(read, LanesRead):
        few = [lane for lane in read.lanes if 2 * state.runs.requested.in_lane(read.queue, lane) < _part(state)]
        state.full_queues.lanes_read(read, step.now, frozenset(few))
        return ()
    state.full_queues.heads_read(read)
    return read.runs


def stays_in_database(state: SchedulerState, run: ActiveRun) -> bool:
    """Whether memory, which does not hold the run, has enough of its lane; a later page brings it then."""
    if not is_left(run):
        return False
    known, size = state.runs.requested, state.settings.due_page
    together, as_urgent = known.in_queue(run.queue), known.in_lane(run.queue, run.lane, run.priority)
    if together < _ENOUGH * size:
        return False
    most = _part(state) if together < _MOST * size else 1 if together < 2 * _MOST * size else 0
    if as_urgent < most:
        return False
    state.full_queues.left(run)
    return True
