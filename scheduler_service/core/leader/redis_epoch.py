"""When Redis may have lost data: nothing starts until everybody has said what runs, then all that is pending goes out.

A generation is a server process with its data; another one is there after a restart, a failover or a wipe, and workers
are told to wait until it is accepted. It is accepted once the inbox is read from its start, that position is committed,
and the workers have spoken, or had the time to. Accepting it sets a floor above every message that was ever sent: what
runs, what is over and what is pending can be started by none of them. Then whatever is pending gets a new message.
A broker with a Redis of its own has its own generation, for which only the last step is due.
"""

from dataclasses import replace
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
from scheduler_service.core.leader.state import SchedulerState, Step
from scheduler_service.core.run_state import RunState

POLL_EVERY: Final = SECOND
# Two heartbeats, and time for a worker to find out that its connection is dead.
GATHER_AT_MOST: Final = (2 * HEARTBEAT_SECONDS + 4) * SECOND
_REPORTED_LATELY: Final = 60 * SECOND


def poll(state: SchedulerState, step: Step) -> None:
    """Look at the generation once a second, and accept a new one as soon as everybody has spoken."""
    present = state.epoch
    if not present.all_reported:
        present.all_reported = state.unreported_for(state.since) >= GATHER_AT_MOST
    if not present.querying and step.now >= present.next_poll_at:
        present.querying = True
        present.next_poll_at = step.now + POLL_EVERY
        step.others.append(QueryEpoch())
    if present.accepting or step.now < present.next_try_at:
        return
    claims = present.gathering if _ready(state) else None
    broker = _broker_to_accept(state)
    if claims is not None or (broker is not None and present.gathering is None):
        present.accepting = True
        present.next_try_at = step.now + POLL_EVERY
        step.others.append(AcceptEpoch(claims, broker, state.next_seq()))


def seen(state: SchedulerState, step: Step, message: EpochSeen) -> None:
    """What the servers hold now; None tells nothing."""
    present = state.epoch
    present.querying = False
    claims, present.broker = message.claims, message.broker
    if claims is not None and claims.accepted:
        present.gathering = None
        _refuse_below(state, step, claims.watermark)
        _ask_deferred(state, step)
    elif claims is not None and claims.name != present.gathering:
        _gather(state, step, claims.name)
    if message.broker is not None and message.broker.accepted:
        _refuse_below(state, step, message.broker.watermark)


def accepted(state: SchedulerState, step: Step, message: EpochAccepted) -> None:
    """The floor is set (or was not: the generation is another one by now, or Redis is away)."""
    present = state.epoch
    present.accepting = False
    if message.broker is not None and present.broker is not None:
        present.broker = replace(present.broker, accepted=True)
    if message.claims is not None or message.broker is not None:
        _refuse_below(state, step, message.watermark)
    if message.claims is None or message.claims != present.gathering:
        return
    present.gathering = None
    _ask_deferred(state, step)
    unwanted = [run for run in state.runs if run.state is RunState.RUNNING and run.cancel_requested]
    if unwanted:
        # Their flags may be lost.
        step.others.append(StopTasks(tuple((run.run_id, run.attempt) for run in unwanted)))


def claims_deferred(state: SchedulerState, message: ClaimsDeferred) -> None:
    """Claims cannot be taken before the generation is accepted: a worker may hold what is not there any more."""
    state.epoch.deferred += message.attempts
    state.epoch.next_poll_at = 0


def inbox_read(state: SchedulerState, step: Step, read: InboxRead) -> None:
    """Move the position, unless it is still that of the generation before."""
    if read.restarted:
        state.epoch.rereading = False
        state.epoch.reread_at = step.now
    if not state.epoch.rereading:
        state.position = read.position
    step.again = read.again


def _gather(state: SchedulerState, step: Step, name: str) -> None:
    present = state.epoch
    present.gathering, present.since = name, step.now
    present.knows_all = present.all_reported and step.now - present.reported_at < _REPORTED_LATELY
    present.committed = False
    present.positions.clear()
    # Until then words are read that another stream held, or none.
    present.rereading, present.reread_at = True, step.now
    step.others.append(RereadInbox())


def _ready(state: SchedulerState) -> bool:
    present = state.epoch
    if present.gathering is None or present.rereading or not present.committed:
        return False
    return _nothing_in_flight(state) or _all_have_spoken(state) or state.unreported_for(present.since) >= GATHER_AT_MOST


def _nothing_in_flight(state: SchedulerState) -> bool:
    states = state.runs.states
    return not (states[RunState.PENDING] or states[RunState.RUNNING] or state.dispatching)


def _all_have_spoken(state: SchedulerState) -> bool:
    present = state.epoch
    known = [view for view in state.workers.values() if not view.left]
    return present.knows_all and bool(known) and all(view.epoch == present.gathering for view in known)


def _broker_to_accept(state: SchedulerState) -> str | None:
    broker: ServerEpoch | None = state.epoch.broker
    return broker.name if broker is not None and not broker.accepted else None


def _refuse_below(state: SchedulerState, step: Step, watermark: int) -> None:
    """Messages below this floor start nothing, or are lost: what is pending by them is sent again."""
    if watermark <= state.epoch.watermark:
        return
    # Where the database is not the one whose messages Redis remembers, numbers go on above those.
    state.seq = max(state.seq, watermark)
    # If we die here, the next leader sees this floor and finds the same runs below it.
    state.epoch.watermark = watermark
    below = [run.run_id for run in state.runs if run.state is RunState.PENDING and run.seq < watermark]
    redispatch(state, step, below, "generation")


def _ask_deferred(state: SchedulerState, step: Step) -> None:
    if state.epoch.deferred:
        step.others.append(TakeClaims(tuple(state.epoch.deferred)))
        state.epoch.deferred.clear()
