"""Bulk operations: what one would do, and how far one got."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from itinerary.client.results.record import Answer, Record


@dataclass(frozen=True, eq=False)
class BulkGroup(Record):
    """A part of what matches; `outcome`: what becomes of it, None for nothing; `why`: why of all or some nothing."""

    what: str
    count: int
    count_is_exact: bool
    outcome: str | None
    why: str | None


@dataclass(frozen=True, eq=False)
class BulkPlan(Record):
    """The plan of an operation; `sample` has the ids of the first that match."""

    on: str
    action: str
    filter: dict[str, Any]
    matching: int
    matching_is_exact: bool
    changing: int
    changing_is_exact: bool
    groups: list[BulkGroup]
    sample: list[str]


@dataclass(frozen=True, eq=False)
class BulkOperation(Record):
    """An operation: `seen` of about `total`, and `counts` by what became of them."""

    operation_id: str
    on: str
    action: str
    filter: dict[str, Any]
    queue: str | None
    reason: str | None
    until: datetime | None
    undo_of: str | None
    state: str
    total: int
    total_is_exact: bool
    seen: int
    counts: dict[str, int]
    error: str | None
    actor: str
    created_at: datetime
    updated_at: datetime
    finished_at: datetime | None
    undone_by: str | None
    can_be_undone: bool


@dataclass(frozen=True, eq=False)
class BulkPage(Answer):
    """A page of operations, the newest first."""

    items: list[BulkOperation]
    next_cursor: str | None
