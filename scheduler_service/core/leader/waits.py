"""Answers about a due run that waits, as JSON from memory: limits without room, free slots, and the runs before it.

Promises that an answer costs a bounded number of steps, however many runs wait. Reads only, and decides nothing.
"""

from itertools import islice
from typing import Any, Final

from itinerary.protocol.identity import split_task_id
from itinerary.protocol.instants import Instant, format_duration, format_instant
from itinerary.protocol.limits import LimitUse
from scheduler_service.core.leader.lanes import Lane
from scheduler_service.core.leader.limiting import slots_taken
from scheduler_service.core.leader.parts.rates import RatedUse
from scheduler_service.core.leader.parts.slots import uses_of
from scheduler_service.core.leader.publish_windows import free_slots
from scheduler_service.core.leader.state import SchedulerState
from scheduler_service.core.run_state import WAITING

MOST_BEFORE: Final = 1_000
_MOST_HOLDERS: Final = 3


def waiting(state: SchedulerState, run_id: str, now: Instant) -> dict[str, Any] | None:
    """The limits without room, the free slots and the runs before this one; None if it does not wait in memory."""
    run = state.runs.get(run_id)
    if run is None or run.state not in WAITING:
        return None
    # Chosen, or refused and not read again: it waits for no slot, since it holds them.
    has_slots = bool(state.slots.uses(run_id))
    lane = state.dispatches.closed_lane(run)
    full = () if has_slots else (full_limit_of(state, use, now, lane) for use in uses_of(run.queue, run.limits))
    before = state.dispatches.before(run, MOST_BEFORE + 1)
    return {
        "limits": [one for one in full if one is not None],
        "free_slots": free_slots(state, run.queue),
        "pending": state.runs.pending.get(run.queue, 0),
        "is_being_dispatched": has_slots,
        "is_kept_for": lane is not None and lane is state.slots.reserver,
        "before": min(before, MOST_BEFORE),
        "before_is_exact": before <= MOST_BEFORE,
    }


def named_limit(state: SchedulerState, named: str, now: Instant) -> dict[str, Any] | None:
    """A limit by name, or by name and key as `tenant/acme`, if it has no room."""
    name, slash, key = named.partition("/")
    return full_limit_of(state, LimitUse(name, key if slash else None), now, None)


def full_limit_of(state: SchedulerState, use: LimitUse, now: Instant, lane: Lane | None) -> dict[str, Any] | None:
    """The limit, with what fills it and since when; None if it has room for a run of the lane, or is not defined.

    `kept_for`: the run that was passed over for long, and for which the rest is kept.
    """
    limit = state.controls.limits.get(use.name)
    if limit is None:
        return None
    use = limit.counted(use)
    bounds, taken = limit.bounds_of(use.key), slots_taken(state, limit, use)
    asks = lane or Lane("")
    kept = state.slots.reserved_start(use, asks)
    by_slots = bounds.concurrency is not None and taken + state.slots.reserved(use, asks) >= bounds.concurrency
    rated = None if bounds.rate is None else RatedUse(use, bounds.rate)
    room = 1 if rated is None else state.rates.room(rated)
    by_rate = None if rated is None or room > kept else rated.rate
    if not by_slots and by_rate is None:
        return None
    free_in = None if rated is None or room > 0 else state.rates.room_in(rated)
    reserver = state.slots.reserver if kept else None
    return {
        "name": use.name,
        "key": use.key,
        "concurrency": bounds.concurrency if by_slots else None,
        "in_flight": taken,
        "held_by": _holders(state, use) if by_slots else [],
        "rate": None if by_rate is None else {"count": by_rate.count, "per": format_duration(by_rate.per)},
        "started": None if by_rate is None else by_rate.count - room,
        "free_at": None if by_rate is None or free_in is None else format_instant(now + free_in),
        "kept_for": reserver.runs[0][2] if reserver is not None and reserver.runs else None,
        "lanes": len(state.dispatches.closed.get(use, ())),
    }


def _holders(state: SchedulerState, use: LimitUse) -> list[dict[str, Any]]:
    """The first holders. Of two between which a slot is handed over only the one that ends: it counts once."""
    holders = (one for one in state.slots.holders(use) if not state.hand_overs.is_paired(one, use))
    return [_holder(state, one) for one in islice(holders, _MOST_HOLDERS)]


def _holder(state: SchedulerState, holder: str) -> dict[str, Any]:
    """A run that holds a slot, and since when it is dispatched; `attempt`: only this one does, which was given up.

    An edit of its job may have dropped a run from memory whose dispatch is under way.
    """
    if state.slots.is_given_up(holder):
        run_id, attempt = split_task_id(holder)
        return {"run_id": run_id, "attempt": attempt, "since": None}
    run = state.runs.get(holder)
    if run is None or run.state in WAITING:
        return {"run_id": holder, "attempt": None, "since": None, "is_being_dispatched": True}
    since = None if run.pending_at is None else format_instant(run.pending_at)
    return {"run_id": holder, "attempt": None, "since": since}
