"""The rates that count a run, and how they count it: when it is dispatched, started, given back, or taken over.

Promises that a start is counted once: in memory when it is reported, and in the database by the write that commits it.
An attempt whose start was never reported counts when it ends. A run is given back only by a row read afterwards. Never
decides whether a run may be dispatched: the dispatch asks `Rates.may_start`.
"""

from collections.abc import Mapping
from typing import Final

from itinerary.protocol.instants import SECOND
from itinerary.protocol.limits import LimitUse
from scheduler_service.core.leader.parts.rates import RatedUse
from scheduler_service.core.leader.parts.slots import uses_of
from scheduler_service.core.leader.past_starts import ClockStepped, PruneStarts, ShiftStarts, StoredStarts
from scheduler_service.core.leader.state import SchedulerState
from scheduler_service.core.leader.step import Step
from scheduler_service.core.limits import Limit, longest_windows
from scheduler_service.core.model import ActiveRun
from scheduler_service.core.run_state import FINAL, PENDING, RUNNING, WAITING

_PRUNE_EVERY: Final = 10 * SECOND


def rates_of(state: SchedulerState, run: ActiveRun) -> tuple[RatedUse, ...]:
    """The uses of limits that have a rate: that of its queue, and those that the run names."""
    limits = state.controls.limits
    if not limits:
        return ()
    found = []
    for use in uses_of(run.queue, run.limits):
        limit = limits.get(use.name)
        rate = None if limit is None else limit.bounds_of(use.key).rate
        if limit is not None and rate is not None:
            found.append(RatedUse(limit.counted(use), rate))
    return tuple(found)


def note_start(state: SchedulerState, run: ActiveRun) -> tuple[LimitUse, ...]:
    """Count a start of the pending run; returns what the write of the start must store."""
    return state.rates.started(run.run_id, rates_of(state, run))


def recalled(state: SchedulerState, run_id: str) -> None:
    """Count the run no longer: its recall is committed; unless it is being dispatched again, or is already."""
    run = state.runs.get(run_id)
    if run is not None and run.state in WAITING and run_id not in state.dispatches.in_progress:
        state.rates.given_back(run_id)


def follow_row(state: SchedulerState, row: ActiveRun) -> None:
    """Count the run as its row says, which was read while no dispatch of it was unanswered."""
    if row.state is PENDING:
        state.rates.dispatched(row.run_id, rates_of(state, row))
    elif not state.rates.is_dispatched(row.run_id):
        return
    elif row.state in WAITING or (row.state in FINAL and row.pending_at is None):
        state.rates.given_back(row.run_id)
    else:
        note_start(state, row)


def follow_edit(state: SchedulerState, before: Mapping[str, Limit]) -> None:
    """Count what is in flight for rates that are new: what runs counts as started, it may have since the edit."""
    new = {name for name, limit in state.controls.limits.items() if _is_new(limit, before.get(name))}
    if not new:
        return
    for run in state.runs:
        if run.state is PENDING or run.run_id in state.dispatches.in_progress:
            state.rates.dispatched(run.run_id, rates_of(state, run))
        elif run.state is RUNNING:
            state.rates.started(run.run_id, [rated for rated in rates_of(state, run) if rated.use.name in new])


def _is_new(limit: Limit, before: Limit | None) -> bool:
    """Whether the limit has a rate that it had not, or counts keys otherwise."""
    if not limit.longest_window():
        return False
    return before is None or not before.longest_window() or limit.per_key != before.per_key


def restore(state: SchedulerState, starts: StoredStarts) -> None:
    """Count what earlier leaders committed."""
    state.rates.prune_in(_PRUNE_EVERY, stored=starts.any)
    for past in sorted(starts.counting, key=lambda one: -one.age):
        limit = state.controls.limits.get(past.use.name)
        rate = None if limit is None else limit.bounds_of(past.use.key).rate
        if limit is not None and rate is not None:
            state.rates.restore(RatedUse(limit.counted(past.use), rate), past.age, past.count)


def clock_stepped(state: SchedulerState, step: Step, stepped: ClockStepped) -> None:
    """Date what is stored anew; memory goes by a steady clock. If we die here, what was stored looks older."""
    if state.rates.stored:
        step.others.append(ShiftStarts(stepped.by))


def tidy(state: SchedulerState, step: Step) -> None:
    """Forget windows that are over, and prune the rows of starts that count no longer."""
    state.rates.forget_empty()
    if state.rates.prune_due(_PRUNE_EVERY):
        kept = longest_windows(state.controls.limits.values())
        step.others.append(PruneStarts(tuple(kept.items()), step.now))
