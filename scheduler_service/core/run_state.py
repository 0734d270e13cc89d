"""The state machine of a run: the one transition table.

The database CHECK, the guards of every UPDATE, the manual's diagram and the tests derive from `TRANSITIONS`. Promises
that no event leads out of a final state. It never says when an event happens: the leader's rules do.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from itinerary.protocol.errors import IllegalTransition


class RunState(StrEnum):
    """The state of a run. `lost` and `timed_out` are reasons, not states."""

    SCHEDULED = "scheduled"
    PENDING = "pending"
    RUNNING = "running"
    RETRYING = "retrying"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"
    MISSED = "missed"


class Event(StrEnum):
    """An event in the life of a run."""

    DISPATCH = "release"
    START = "start"
    SUCCEED = "succeed"
    FAIL = "fail"
    RETRY = "retry"
    LOSE = "lose"
    TIME_OUT = "time_out"
    CANCEL = "cancel"
    SKIP = "skip"
    MISS = "miss"
    EXPIRE = "expire"
    RECALL = "recall"


# Read once: in Python 3.11 reading a member from its enum class is slow.
PENDING: Final = RunState.PENDING
RUNNING: Final = RunState.RUNNING

FINAL: Final = frozenset({RunState.COMPLETED, RunState.FAILED, RunState.CANCELLED, RunState.SKIPPED, RunState.MISSED})
IN_FLIGHT: Final = frozenset({RunState.PENDING, RunState.RUNNING})
WAITING: Final = frozenset({RunState.SCHEDULED, RunState.RETRYING})
ACTIVE: Final = frozenset(RunState) - FINAL


@dataclass(frozen=True, slots=True)
class TransitionRule:
    """The states from which an event leads to `target`, to `spent` when no attempt is left, or to `later`.

    `later` is for attempts after the first.
    """

    sources: frozenset[RunState]
    target: RunState
    spent: RunState | None = None
    later: RunState | None = None


TRANSITIONS: Final[dict[Event, TransitionRule]] = {
    Event.DISPATCH: TransitionRule(WAITING, RunState.PENDING),
    Event.START: TransitionRule(frozenset({RunState.PENDING}), RunState.RUNNING),
    Event.SUCCEED: TransitionRule(IN_FLIGHT, RunState.COMPLETED),
    Event.FAIL: TransitionRule(IN_FLIGHT, RunState.RETRYING, spent=RunState.FAILED),
    Event.RETRY: TransitionRule(IN_FLIGHT, RunState.RETRYING),
    Event.LOSE: TransitionRule(frozenset({RunState.RUNNING}), RunState.RETRYING, spent=RunState.FAILED),
    Event.TIME_OUT: TransitionRule(frozenset({RunState.RUNNING}), RunState.RETRYING, spent=RunState.FAILED),
    Event.CANCEL: TransitionRule(ACTIVE, RunState.CANCELLED),
    Event.SKIP: TransitionRule(frozenset({RunState.SCHEDULED}), RunState.SKIPPED),
    Event.MISS: TransitionRule(frozenset({RunState.SCHEDULED}), RunState.MISSED),
    Event.EXPIRE: TransitionRule(frozenset({RunState.SCHEDULED, RunState.PENDING}), RunState.MISSED),
    Event.RECALL: TransitionRule(frozenset({RunState.PENDING}), RunState.SCHEDULED, later=RunState.RETRYING),
}


def next_state(
    run_id: str, state: RunState, event: Event, *, attempts_left: bool = False, attempt: int = 1
) -> RunState:
    """The state that `event` leads to; raises IllegalTransition if the table has no such transition."""
    rule = TRANSITIONS[event]
    if state not in rule.sources:
        raise IllegalTransition(run_id, state, event)
    if rule.spent is not None and not attempts_left:
        return rule.spent
    return rule.later if rule.later is not None and attempt > 1 else rule.target


def is_allowed(state: RunState, event: Event) -> bool:
    """Whether the table allows `event` for a run in `state`."""
    return state in TRANSITIONS[event].sources
