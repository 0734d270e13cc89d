"""The state machine of a run: the one transition table.

The database CHECK, the guards of every UPDATE, the manual's diagram and the tests are made from `TRANSITIONS`.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from itinerary.protocol.errors import IllegalTransition


class RunState(StrEnum):
    """Where a run stands. `lost` and `timed_out` are reasons, not states."""

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
    """What can happen to a run."""

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


# Looked up once: in Python 3.11 a member of an enum is slow to read from its class.
PENDING: Final = RunState.PENDING

FINAL: Final = frozenset({RunState.COMPLETED, RunState.FAILED, RunState.CANCELLED, RunState.SKIPPED, RunState.MISSED})
IN_FLIGHT: Final = frozenset({RunState.PENDING, RunState.RUNNING})
WAITING: Final = frozenset({RunState.SCHEDULED, RunState.RETRYING})
ACTIVE: Final = frozenset(RunState) - FINAL


@dataclass(frozen=True, slots=True)
class TransitionRule:
    """From which states an event moves a run, and to where; `spent` is the target when no attempt is left."""

    sources: frozenset[RunState]
    target: RunState
    spent: RunState | None = None


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
}


def next_state(run_id: str, state: RunState, event: Event, *, attempts_left: bool = False) -> RunState:
    """The state that `event` leads to; raises IllegalTransition where the table has no such move."""
    rule = TRANSITIONS[event]
    if state not in rule.sources:
        raise IllegalTransition(run_id, state, event)
    if rule.spent is not None and not attempts_left:
        return rule.spent
    return rule.target


def is_allowed(state: RunState, event: Event) -> bool:
    """Whether the table lets `event` move a run that is in `state`."""
    return state in TRANSITIONS[event].sources
