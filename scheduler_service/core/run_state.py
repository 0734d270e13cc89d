"""The state machine of a run: the one transition table.

The database CHECK, the guards of every UPDATE, the manual's diagram and the tests are made from `MOVES`.
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

    RELEASE = "release"
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
OUT: Final = frozenset({RunState.PENDING, RunState.RUNNING})
WAITING: Final = frozenset({RunState.SCHEDULED, RunState.RETRYING})
ACTIVE: Final = frozenset(RunState) - FINAL


@dataclass(frozen=True, slots=True)
class Move:
    """From which states an event moves a run, and to where; `spent` is the target when no attempt is left."""

    sources: frozenset[RunState]
    target: RunState
    spent: RunState | None = None


MOVES: Final[dict[Event, Move]] = {
    Event.RELEASE: Move(WAITING, RunState.PENDING),
    Event.START: Move(frozenset({RunState.PENDING}), RunState.RUNNING),
    Event.SUCCEED: Move(OUT, RunState.COMPLETED),
    Event.FAIL: Move(OUT, RunState.RETRYING, spent=RunState.FAILED),
    Event.RETRY: Move(OUT, RunState.RETRYING),
    Event.LOSE: Move(frozenset({RunState.RUNNING}), RunState.RETRYING, spent=RunState.FAILED),
    Event.TIME_OUT: Move(frozenset({RunState.RUNNING}), RunState.RETRYING, spent=RunState.FAILED),
    Event.CANCEL: Move(ACTIVE, RunState.CANCELLED),
    Event.SKIP: Move(frozenset({RunState.SCHEDULED}), RunState.SKIPPED),
    Event.MISS: Move(frozenset({RunState.SCHEDULED}), RunState.MISSED),
    Event.EXPIRE: Move(frozenset({RunState.SCHEDULED, RunState.PENDING}), RunState.MISSED),
}


def next_state(run_id: str, state: RunState, event: Event, *, attempts_left: bool = False) -> RunState:
    """The state that `event` leads to; raises IllegalTransition where the table has no such move."""
    move = MOVES[event]
    if state not in move.sources:
        raise IllegalTransition(run_id, state, event)
    if move.spent is not None and not attempts_left:
        return move.spent
    return move.target


def can_move(state: RunState, event: Event) -> bool:
    """Whether the table lets `event` move a run that is in `state`."""
    return state in MOVES[event].sources
