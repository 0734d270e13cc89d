"""The port to bulk operations: stored with their progress, carried out page by page.

Promises: a page's changes and the progress behind it are one transaction, so that nothing is done twice and nothing is
left out. Any number of processes may carry on at once. An operation changes nothing that was created after it began.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from itinerary.protocol.instants import parse_instant
from scheduler_service.core.audit import Caller
from scheduler_service.core.bulk import BulkOperation, BulkOrder
from scheduler_service.core.run_state import RunState
from scheduler_service.ports.history import Total
from scheduler_service.ports.stores import JobFilter, Page, RunFilter


@dataclass(frozen=True, slots=True)
class Stepped:
    """An operation after one of its pages, and what the leader may be told of: ids of what was changed."""

    operation: BulkOperation
    stopping: Sequence[str] = ()
    created: Sequence[str] = ()
    moved: Sequence[str] = ()
    jobs: Sequence[str] = ()


class BulkStore(Protocol):
    """Bulk operations of all callers."""

    def begin(
        self, order: BulkOrder, total: Total, who: Caller, key: str | None = None, request_hash: str | None = None
    ) -> tuple[BulkOperation, bool]:
        """Store the operation; return it, and whether this call did. The same key and hash return the one there is.

        Conflict for another request with the key, or for an undo of what cannot be undone.
        """

    def step(self, operation_id: str | None = None) -> Stepped | None:
        """Carry out the next page of this operation, or of the one that waits longest for it; None if none is free."""

    def get(self, operation_id: str) -> BulkOperation:
        """The operation; NotFound."""

    def list(self, actor: str | None, limit: int, cursor: str | None) -> Page[BulkOperation]:
        """Operations, of one caller or of all, the newest first."""

    def stop(self, operation_id: str, who: Caller) -> BulkOperation:
        """End the operation before its next page; one that is over stays as it is. NotFound."""


def runs_of(order: BulkOrder) -> RunFilter:
    """The runs that the order's filter finds."""
    given = order.filter
    since, until = (None if given.get(name) is None else parse_instant(given[name]) for name in ("since", "until"))
    states = tuple(map(RunState, given.get("state", ())))
    return RunFilter(
        given.get("job_id"), states, given.get("queue"), since, until, run_ids=tuple(given.get("run_ids", ())),
        task=given.get("task"), limit_name=given.get("limit_name"), limit_key=given.get("limit_key"),
    )  # fmt: skip


def jobs_of(order: BulkOrder) -> JobFilter:
    """The jobs that the order's filter finds."""
    given = order.filter
    return JobFilter(
        given.get("tag"), given.get("q"), given.get("paused"), given.get("source"),
        job_ids=tuple(given.get("job_ids", ())), queue=given.get("queue"), task=given.get("task"),
        last_states=tuple(map(RunState, given.get("last_state", ()))),
    )  # fmt: skip
