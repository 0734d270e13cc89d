"""The part of the client that changes everything that a filter finds.

Promises that each filter is a named argument, and that nothing is changed without one unless `everything` is asked for.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, Concatenate, NamedTuple, ParamSpec
from uuid import uuid4

from itinerary.client.access import Access
from itinerary.client.results import BulkOperation, BulkPage, BulkPlan
from itinerary.client.run_body import Moment, moment_text
from itinerary.client.transport import given, segment

P = ParamSpec("P")


class _Order(NamedTuple):
    """A request for an operation."""

    path: str
    body: dict[str, Any]
    key: str | None


def _planning(
    order_of: Callable[Concatenate[Any, P], _Order], name: str, doc: str
) -> Callable[Concatenate["Bulk", P], BulkPlan]:
    """Return the method that asks what this order would do."""

    @wraps(order_of)
    def plan(self: "Bulk", /, *args: P.args, **kwargs: P.kwargs) -> BulkPlan:
        order = order_of(self, *args, **kwargs)
        return BulkPlan.of(self._api.object("POST", order.path, again=True, json={**order.body, "dry_run": True}))

    plan.__name__, plan.__doc__ = name, doc
    return plan


def _beginning(
    order_of: Callable[Concatenate[Any, P], _Order], name: str, doc: str
) -> Callable[Concatenate["Bulk", P], BulkOperation]:
    """Return the method that begins this order."""

    @wraps(order_of)
    def begin(self: "Bulk", /, *args: P.args, **kwargs: P.kwargs) -> BulkOperation:
        order = order_of(self, *args, **kwargs)
        headers = {"Idempotency-Key": f"client-{uuid4().hex}" if order.key is None else order.key}
        return BulkOperation.of(self._api.object("POST", order.path, again=True, json=order.body, headers=headers))

    begin.__name__, begin.__doc__ = name, doc
    return begin


class Bulk(Access):
    """Bulk operations: they go on in the service, page by page, whatever becomes of this program."""

    def _order_runs(
        self,
        action: str,
        *,
        job_id: str | None = None,
        state: str | Sequence[str] | None = None,
        queue: str | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
        task: str | None = None,
        limit_name: str | None = None,
        limit_key: str | None = None,
        run_ids: Sequence[str] | None = None,
        everything: bool = False,
        to: str | None = None,
        idempotency_key: str | None = None,
    ) -> _Order:
        times = {"since": moment_text(since, "since"), "until": moment_text(until, "until")}
        states = [state] if isinstance(state, str) else state
        wanted = given(
            job_id=job_id, state=states, queue=queue, run_ids=run_ids, **times, task=task, limit_name=limit_name,
            limit_key=limit_key,
        )  # fmt: skip
        return _order("/runs/bulk", action, wanted, everything, given(queue=to), idempotency_key)

    def _order_jobs(
        self,
        action: str,
        *,
        tag: str | None = None,
        q: str | None = None,
        paused: bool | None = None,
        source: str | None = None,
        in_queue: str | None = None,
        task: str | None = None,
        last_state: str | Sequence[str] | None = None,
        job_ids: Sequence[str] | None = None,
        everything: bool = False,
        queue: str | None = None,
        reason: str | None = None,
        until: Moment | None = None,
        idempotency_key: str | None = None,
    ) -> _Order:
        states = [last_state] if isinstance(last_state, str) else last_state
        wanted = given(
            tag=tag, q=q, paused=paused, source=source, queue=in_queue, task=task, last_state=states, job_ids=job_ids
        )
        options = given(queue=queue, reason=reason, until=moment_text(until, "until"))
        return _order("/jobs/bulk", action, wanted, everything, options, idempotency_key)

    plan_bulk_runs = _planning(_order_runs, "plan_bulk_runs", "The plan of `bulk_runs`; changes nothing.")
    bulk_runs = _beginning(
        _order_runs, "bulk_runs",
        """Begin to "cancel", "retry", "move" (to queue `to`) or "delete" every run that the filters of `runs` find.

        `retry` and `delete` need the states, or `run_ids`.
        """,
    )  # fmt: skip
    plan_bulk_jobs = _planning(_order_jobs, "plan_bulk_jobs", "The plan of `bulk_jobs`; changes nothing.")
    bulk_jobs = _beginning(
        _order_jobs, "bulk_jobs",
        """Begin to "pause", "resume", "move" (to `queue`) or "delete" every job that the filters of `jobs` find.

        `in_queue` is the filter by queue.
        """,
    )  # fmt: skip

    def bulk_operation(self, operation_id: str) -> BulkOperation:
        """One operation, and how far it got."""
        return BulkOperation.of(self._api.object("GET", f"/bulk/{segment(operation_id)}"))

    def bulk_operations(self, *, limit: int | None = None, cursor: str | None = None) -> BulkPage:
        """One page of operations, the newest first."""
        return BulkPage.of(self._api.object("GET", "/bulk", params=given(limit=limit, cursor=cursor)))

    def stop_bulk(self, operation_id: str) -> BulkOperation:
        """End an operation before its next page; what it did stays."""
        return BulkOperation.of(self._api.object("POST", f"/bulk/{segment(operation_id)}/stop", again=True))

    def undo_bulk(self, operation_id: str) -> BulkOperation:
        """Begin to take back what an operation changed; ApiError 409 where that is not possible."""
        return BulkOperation.of(self._api.object("POST", f"/bulk/{segment(operation_id)}/undo"))


def _order(
    path: str, action: str, wanted: Mapping[str, Any], everything: bool, options: Mapping[str, Any], key: str | None
) -> _Order:
    everything_asked = {"all": True} if everything else {}
    return _Order(path, {"action": action, "filter": dict(wanted), **everything_asked, **options}, key)
