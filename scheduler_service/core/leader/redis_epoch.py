"""Epochs: block claims until every worker has reported its running attempts, then redispatch everything pending.

An epoch is a Redis server process with its data. A restart, a failover or a wipe begins a new one, in which workers
cannot claim until the leader accepts it. Acceptance needs three things. The inbox was read from its start, that
position is committed, and every worker has reported or had the time to. Accepting sets a low watermark above every
message ever sent, so none of them starts a run again. Then the leader redispatches every pending run. A broker with a
Redis of its own has its own epoch, for which only the redispatch is needed.
"""

from typing import Final

from itinerary.protocol.instants import SECOND
from itinerary.protocol.wire import HEARTBEAT_SECONDS
from scheduler_service.core.leader.commands import (
    AcceptEpoch,
    QueryEpoch,
    RereadInbox,
    StopTasks,
    TakeClaims,
)
from scheduler_service.core.leader.in_flight import redispatch
from scheduler_service.core.leader.results import (
    ClaimsDeferred,
    EpochAccepted,
    EpochSeen,
    InboxRead,
    ServerEpoch,
)
from scheduler_service.core.leader.state import SchedulerState
from scheduler_service.core.leader.step import Step
from scheduler_service.core.run_state import RunState

# Two heartbeats, plus the time in which a worker notices a dead connection.
GATHER_AT_MOST: Final = (2 * HEARTBEAT_SECONDS + 4) * SECOND
_REPORTED_LATELY: Final = 60 * SECOND


def poll(state: SchedulerState, step: Step) -> None:
    """Query the epoch once a second, and accept a new one as soon as every worker has reported."""
    present = state.epoch
    if not present.all_reported and state.unreported_for(state.since) >= GATHER_AT_MOST:
        present.workers_have_reported()
    if present.begin_query(step.now):
        step.others.append(QueryEpoch())
    if not present.may_try(step.now):
        return
    claims = present.gathering if _ready(state) else None
    broker = _broker_to_accept(state)
    if claims is not None or (broker is not None and present.gathering is None):
        present.begin_accept(step.now)
        step.others.append(AcceptEpoch(claims, broker, state.numbers.next()))


def seen(state: SchedulerState, step: Step, message: EpochSeen) -> None:
    """Apply the epochs that the servers report; None is unknown."""
    present = state.epoch
    claims = message.claims
    present.query_answered(message.broker)
    if claims is not None and claims.accepted:
        present.end_gathering()
        _refuse_below(state, step, claims.watermark)
        _ask_deferred(state, step)
    elif claims is not None and claims.name != present.gathering:
        _gather(state, step, claims.name)
    if message.broker is not None and message.broker.accepted:
        _refuse_below(state, step, message.broker.watermark)


def accepted(state: SchedulerState, step: Step, message: EpochAccepted) -> None:
    """Continue after an AcceptEpoch: the watermark is set, or the epoch has changed again, or Redis is unreachable."""
    present = state.epoch
    present.accept_answered(broker=message.broker is not None)
    if message.claims is not None or message.broker is not None:
        _refuse_below(state, step, message.watermark)
    if message.claims is None or message.claims != present.gathering:
        return
    present.end_gathering()
    _ask_deferred(state, step)
    unwanted = [run for run in state.runs if run.state is RunState.RUNNING and run.cancel_requested]
    if unwanted:
        # Redis may have lost their cancel flags.
        step.others.append(StopTasks(tuple((run.run_id, run.attempt) for run in unwanted)))


def claims_deferred(state: SchedulerState, message: ClaimsDeferred) -> None:
    """Keep these claims until the epoch is accepted: a worker may hold a claim that Redis has lost."""
    state.epoch.defer(message.attempts)


def inbox_read(state: SchedulerState, step: Step, read: InboxRead) -> None:
    """Advance the position, unless it still belongs to the previous epoch."""
    if read.restarted:
        state.epoch.reread(step.now)
    if not state.epoch.rereading:
        state.inbox.advance(read.position)
    step.again = read.again


def _gather(state: SchedulerState, step: Step, name: str) -> None:
    knows_all = state.epoch.all_reported and step.now - state.workers.last_seen_at() < _REPORTED_LATELY
    state.epoch.gather(name, step.now, knows_all=knows_all)
    step.others.append(RereadInbox())


def _ready(state: SchedulerState) -> bool:
    present = state.epoch
    if present.gathering is None or present.rereading or not present.committed:
        return False
    return _nothing_in_flight(state) or _all_have_spoken(state) or state.unreported_for(present.since) >= GATHER_AT_MOST


def _nothing_in_flight(state: SchedulerState) -> bool:
    states = state.runs.states
    return not (states[RunState.PENDING] or states[RunState.RUNNING] or state.dispatches.in_progress)


def _all_have_spoken(state: SchedulerState) -> bool:
    present = state.epoch
    known = [view for view in state.workers.by_name.values() if not view.left]
    return present.knows_all and bool(known) and all(view.epoch == present.gathering for view in known)


def _broker_to_accept(state: SchedulerState) -> str | None:
    broker: ServerEpoch | None = state.epoch.broker
    return broker.name if broker is not None and not broker.accepted else None


def _refuse_below(state: SchedulerState, step: Step, watermark: int) -> None:
    """Redispatch pending runs below this watermark: their messages are refused or lost."""
    if watermark <= state.epoch.watermark:
        return
    # If Redis remembers messages of another database, continue above their numbers.
    state.numbers.raise_to(watermark)
    # If we crash here, the next leader sees this watermark and finds the same runs below it.
    state.epoch.raise_watermark(watermark)
    below = [run.run_id for run in state.runs if run.state is RunState.PENDING and run.seq < watermark]
    redispatch(state, step, below, "generation")


def _ask_deferred(state: SchedulerState, step: Step) -> None:
    if state.epoch.deferred:
        step.others.append(TakeClaims(state.epoch.take_deferred()))
