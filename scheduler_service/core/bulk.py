"""Bulk operations: one action on everything that a filter finds, and how far it got. Values only."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from itinerary.protocol.instants import Instant
from scheduler_service.core.run_state import ACTIVE, FINAL, WAITING, RunState
from scheduler_service.core.token_limits import NO_LIMITS, Limits

OPERATION_ID: Final = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)
MOST_NAMED: Final = 1_000
"""How many ids a filter may name."""


class BulkOn(StrEnum):
    """The kind of thing that the operation changes."""

    RUNS = "runs"
    JOBS = "jobs"


class BulkAction(StrEnum):
    """The change of each."""

    CANCEL = "cancel"
    RETRY = "retry"
    PAUSE = "pause"
    RESUME = "resume"
    MOVE = "move"
    DELETE = "delete"


class BulkState(StrEnum):
    """Whether the operation continues."""

    RUNNING = "running"
    DONE = "done"
    STOPPED = "stopped"
    FAILED = "failed"


ACTIONS: Final[Mapping[BulkOn, tuple[BulkAction, ...]]] = {
    BulkOn.RUNS: (BulkAction.CANCEL, BulkAction.RETRY, BulkAction.MOVE, BulkAction.DELETE),
    BulkOn.JOBS: (BulkAction.PAUSE, BulkAction.RESUME, BulkAction.MOVE, BulkAction.DELETE),
}
CHANGEABLE: Final[Mapping[BulkAction, frozenset[RunState]]] = {
    BulkAction.CANCEL: ACTIVE, BulkAction.RETRY: FINAL, BulkAction.MOVE: WAITING, BulkAction.DELETE: FINAL,
}  # fmt: skip
"""The states in which an action changes a run."""

OUTCOMES: Final[Mapping[BulkAction, str]] = {
    BulkAction.PAUSE: "paused",
    BulkAction.RESUME: "resumed",
    BulkAction.MOVE: "moved",
    BulkAction.DELETE: "deleted",
}
"""What becomes of each."""


@dataclass(frozen=True, slots=True)
class BulkOrder:
    """The request: `filter` as JSON, by the names of the list's own filters; `options` of the action.

    `undo_of`: the operation whose changes this one takes back; it has that operation's filter.
    """

    on: BulkOn
    action: BulkAction
    filter: Mapping[str, Any]
    options: Mapping[str, Any] = field(default_factory=dict)
    undo_of: str | None = None

    @property
    def is_reversible(self) -> bool:
        """Whether what it changes can be taken back: cancelled runs stay cancelled, deleted ones are gone."""
        return self.action is not BulkAction.CANCEL and (self.on, self.action) != (BulkOn.RUNS, BulkAction.DELETE)


@dataclass(frozen=True, slots=True)
class BulkProgress:
    """How far an operation got: what it has seen, and what became of it by outcome."""

    state: BulkState = BulkState.RUNNING
    seen: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)
    error: str | None = None


@dataclass(frozen=True, slots=True)
class BulkOperation:
    """A stored operation; `total` was counted when it began, `total_more`: at least so many."""

    operation_id: str
    order: BulkOrder
    progress: BulkProgress
    total: int
    total_more: bool
    actor: str
    role: str
    created_at: Instant
    updated_at: Instant
    finished_at: Instant | None = None
    limits: Limits = NO_LIMITS
    undone_by: str | None = None

    @property
    def can_be_undone(self) -> bool:
        """Whether an undo is possible: it is over, was not undone, and is not an undo itself."""
        over = self.finished_at is not None and self.undone_by is None and self.order.undo_of is None
        return over and self.order.is_reversible
