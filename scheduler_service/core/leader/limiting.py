"""Limits: whether a run may take a slot and a start of each of its limits, and which lanes go on once there is room.

A run takes the slots of all its limits together or none. A lane with limits is served only while a live worker listens
to its queue and has a free slot. What fails an earlier check stands in no limit's order. A lane that a limit holds back
waits there until it has room. Never scans all lanes that wait, but for those that an edit concerns.
"""

from collections.abc import Iterable
from typing import Final

from itinerary.protocol.instants import SECOND, Instant
from itinerary.protocol.limits import LimitUse
from scheduler_service.core.leader.freezing import may_go
from scheduler_service.core.leader.lanes import Lane
from scheduler_service.core.leader.parts.rates import RatedUse
from scheduler_service.core.leader.publish_windows import free_slots
from scheduler_service.core.leader.recalling import recall_unreceived
from scheduler_service.core.leader.state import SchedulerState
from scheduler_service.core.leader.step import Step
from scheduler_service.core.limits import QUEUE, Limit, Rate
from scheduler_service.core.model import ActiveRun
from scheduler_service.core.run_state import WAITING

_PASSED_OVER_FOR: Final = 30 * SECOND


def room_in_limit(state: SchedulerState, queue: str, most: int, *, with_ends: bool) -> int:
    """How many of at most `most` runs the queue's own limit lets go, perhaps `with_ends` of this pass."""
    limit = state.controls.limits.get(QUEUE + queue)
    if limit is None:
        return most
    use, bounds = LimitUse(limit.name), limit.bounds
    if bounds.concurrency is not None:
        ending = _ending(state, limit, use) if with_ends else 0
        most = min(most, bounds.concurrency - slots_taken(state, limit, use) + ending)
    if bounds.rate is not None and most > 0:
        rated = RatedUse(use, bounds.rate)
        state.rates.may_start((rated,))  # if there is no room, the pass that has some comes by itself
        most = min(most, state.rates.room(rated))
    return most


def has_worker(state: SchedulerState, queue: str) -> bool:
    """Whether a live worker that listens to the queue has reported a free slot."""
    return bool(free_slots(state, queue))


def slots_taken(state: SchedulerState, limit: Limit, use: LimitUse) -> int:
    """How many slots of the limit are taken that count as this use does; one that is handed over counts once."""
    if limit.per_key:
        return state.slots.count(use) - state.hand_overs.paired(use)
    return state.slots.count_of_all_keys(limit.name) - state.hand_overs.paired(limit.name)


def _ending(state: SchedulerState, limit: Limit, use: LimitUse) -> int:
    return state.hand_overs.ending(use if limit.per_key else limit.name)


def may_hand_over(state: SchedulerState, queue: str) -> bool:
    """Whether runs of the queue may be dispatched in the transaction that writes the ends of this pass.

    Not while another dispatch is under way: of two messages in a queue the later has the greater number.
    """
    return state.hand_overs.has_ends() and state.dispatches.of_queue[queue] <= state.hand_overs.of_queue(queue)


def hand_over(state: SchedulerState, queue: str, chosen: Iterable[str]) -> bool:
    """Give these runs, which have taken their slots, those that end in this pass; false if no limit is over by them."""
    uses = {run_id: state.slots.uses(run_id) for run_id in chosen}
    if not any(_is_over(state, use) for use in {one for some in uses.values() for one in some}):
        return False
    for run_id, taken in uses.items():
        state.hand_overs.give(run_id, queue, taken)
    return True


def _is_over(state: SchedulerState, named: LimitUse) -> bool:
    limit = state.controls.limits.get(named.name)
    if limit is None:
        return False
    use = limit.counted(named)
    most = limit.bounds_of(use.key).concurrency
    return most is not None and slots_taken(state, limit, use) > most


def full_limit(state: SchedulerState, lane: Lane, *, with_ends: bool = False) -> LimitUse | None:
    """The first limit of the lane that has no room for it, also `with_ends` of this pass; None if all have."""
    rated = []
    for named in lane.limits:
        limit = state.controls.limits.get(named.name)
        if limit is None:
            continue
        use = limit.counted(named)
        bounds, promised = limit.bounds_of(use.key), state.slots.promised(use, lane)
        if bounds.concurrency is not None:
            kept = promised + state.slots.reserved(use, lane)
            ending = _ending(state, limit, use) if with_ends else 0
            if slots_taken(state, limit, use) + kept - ending >= bounds.concurrency:
                return use
        if bounds.rate is not None:
            count = bounds.rate.count - state.slots.reserved_start(use, lane)
            if count <= 0:
                return use
            one = RatedUse(use, Rate(count, bounds.rate.per))
            rated.append(one)
            if promised and state.rates.room(one) <= promised:
                state.slots.consider((use,))  # again, once the others have gone
                return use
    return state.rates.may_start(rated) if rated else None


def still_waiting(state: SchedulerState, step: Step, run_id: str) -> ActiveRun | None:
    """The run in a lane if it may be dispatched: nothing has ended it, and no pause or freeze keeps it back."""
    run = state.runs.get(run_id)
    if run is None or run.state not in WAITING or run_id in state.dispatches.in_progress or run.due_at > step.now:
        return None
    # A pause may have revoked its admission.
    return run if state.runs.is_admitted(run_id) and may_go(state, step, run) else None


def open_lanes(state: SchedulerState, step: Step) -> None:
    """Let lanes stand in their queues again, in the order of each limit that got room and as many as it has room for.

    A lane whose queue dispatches nothing now stands there as well, but no slot is kept for it.
    """
    state.slots.consider(state.rates.take_free())
    _choose_reserver(state, step)
    for use in dict.fromkeys((*state.slots.take_freed(), *state.hand_overs.ending_uses())):
        reserver = state.slots.reserver
        if reserver is not None and reserver.closed_by == use:
            _try(state, step, reserver, use)
        while (order := state.dispatches.closed.get(use)) is not None and (lane := order.first()) is not None:
            if not _try(state, step, lane, use):
                break
        if use not in state.dispatches.closed and not state.slots.count(use):
            state.dispatches.forget_turns(use)


def _try(state: SchedulerState, step: Step, lane: Lane, use: LimitUse) -> bool:
    """Move the lane to where it waits now; false if that is this limit still."""
    if still_waiting(state, step, lane.runs[0][2]) is None:
        state.dispatches.discard_first(lane)
        return True
    full = full_limit(state, lane, with_ends=may_hand_over(state, lane.queue))
    if full == use:
        return False
    if full is not None:
        state.dispatches.close(lane, full, step.now)
        return True
    state.dispatches.open(lane)
    if _may_be_served(state, lane, step.now):
        state.slots.promise(lane)
    return True


def _choose_reserver(state: SchedulerState, step: Step) -> None:
    """Let the lane of several limits that was passed over for longest keep what it needs, one lane at a time.

    Without it, those that wait for one of its limits only would take each slot that comes free, for ever.
    """
    lane = state.slots.reserver
    if lane is not None:
        # If it stands in its queue since the last pass, that has no room.
        if lane.closed_by is not None and _may_be_served(state, lane, step.now):
            state.slots.reserve_for(lane, slots=_has_starts(state, lane))
            return
        state.slots.reserve_for(None)
        state.dispatches.watch_again(lane, step.now)
    while (lane := state.dispatches.take_passed_over(step.now - _PASSED_OVER_FOR)) is not None:
        if _may_be_served(state, lane, step.now):
            state.slots.reserve_for(lane, slots=_has_starts(state, lane))
            return
        state.dispatches.watch_again(lane, step.now)


def _has_starts(state: SchedulerState, lane: Lane) -> bool:
    """Whether each rate of the lane has a start for it: slots are not kept idle for a rate of one a day."""
    for use in lane.limits:
        limit = state.controls.limits.get(use.name)
        rate = None if limit is None else limit.bounds_of(use.key).rate
        if limit is not None and rate is not None and state.rates.room(RatedUse(limit.counted(use), rate)) <= 0:
            return False
    return True


def _may_be_served(state: SchedulerState, lane: Lane, now: Instant) -> bool:
    return state.controls.pause_of(lane.queue, now) is None and has_worker(state, lane.queue)


def recall_hogs(state: SchedulerState, step: Step) -> None:
    """Recall what no worker has received for long while lanes wait for one of its slots; once a second.

    Its queue may have lost its workers, or they are busy; or a worker died with the message that it had just taken. Its
    turn at the limit is over by then.
    """
    if state.dispatches.closed and state.slots.check_due(step.now):
        reason = "recalled: no worker received it, and others wait for its slot"
        recall_unreceived(state, step, lambda run: _is_waited_for(state, run), reason, gone=True)


def _is_waited_for(state: SchedulerState, run: ActiveRun) -> bool:
    return any(_counted(state, use) in state.dispatches.closed for use in run.limits)


def _counted(state: SchedulerState, use: LimitUse) -> LimitUse:
    limit = state.controls.limits.get(use.name)
    return use if limit is None else limit.counted(use)


def next_of_limits(state: SchedulerState, now: Instant) -> Instant | None:
    """At once, if a limit for which lanes wait may have room."""
    return now if any(use in state.dispatches.closed for use in state.slots.freed()) else None
