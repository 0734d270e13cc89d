"""The part of the client that changes everything that a filter finds.

Promises that each filter is a named argument, and that nothing is changed without one unless `everything` is asked for.
"""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import uuid4

from itinerary.client.access import Access
from itinerary.client.results import BulkOperation, BulkPage, BulkPlan
from itinerary.client.run_body import Moment, moment_text
from itinerary.client.transport import given, segment


class Bulk(Access):
    """Bulk operations: they go on in the service, page by page, whatever becomes of this program."""

    def plan_bulk_runs(
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
    ) -> BulkPlan:
        """The plan of `bulk_runs`; changes nothing."""
        judged = given(task=task, limit_name=limit_name, limit_key=limit_key)
        wanted = {**_of_runs(job_id, state, queue, since, until, run_ids), **judged}
        return self._plan("/runs/bulk", action, wanted, everything)

    def bulk_runs(
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
        idempotency_key: str | None = None,
    ) -> BulkOperation:
        """Begin to "cancel" or "retry" every run that the filters of `runs` find; `retry` needs the states."""
        judged = given(task=task, limit_name=limit_name, limit_key=limit_key)
        wanted = {**_of_runs(job_id, state, queue, since, until, run_ids), **judged}
        return self._begin("/runs/bulk", action, wanted, everything, idempotency_key)

    def plan_bulk_jobs(
        self,
        action: str,
        *,
        tag: str | None = None,
        q: str | None = None,
        paused: bool | None = None,
        source: str | None = None,
        job_ids: Sequence[str] | None = None,
        everything: bool = False,
        queue: str | None = None,
        reason: str | None = None,
        until: Moment | None = None,
    ) -> BulkPlan:
        """The plan of `bulk_jobs`; changes nothing."""
        wanted = given(tag=tag, q=q, paused=paused, source=source, job_ids=job_ids)
        options = given(queue=queue, reason=reason, until=moment_text(until, "until"))
        return self._plan("/jobs/bulk", action, wanted, everything, options)

    def bulk_jobs(
        self,
        action: str,
        *,
        tag: str | None = None,
        q: str | None = None,
        paused: bool | None = None,
        source: str | None = None,
        job_ids: Sequence[str] | None = None,
        everything: bool = False,
        queue: str | None = None,
        reason: str | None = None,
        until: Moment | None = None,
        idempotency_key: str | None = None,
    ) -> BulkOperation:
        """Begin to "pause", "resume", "move" (to `queue`) or "delete" every job that the filters of `jobs` find."""
        wanted = given(tag=tag, q=q, paused=paused, source=source, job_ids=job_ids)
        options = given(queue=queue, reason=reason, until=moment_text(until, "until"))
        return self._begin("/jobs/bulk", action, wanted, everything, idempotency_key, options)

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

    def _plan(
        self, path: str, action: str, wanted: Mapping[str, Any], everything: bool, options: Mapping[str, Any] = {}
    ) -> BulkPlan:
        body = {**_body(action, wanted, everything, options), "dry_run": True}
        return BulkPlan.of(self._api.object("POST", path, again=True, json=body))

    def _begin(
        self, path: str, action: str, wanted: Mapping[str, Any], everything: bool, key: str | None,
        options: Mapping[str, Any] = {},
    ) -> BulkOperation:  # fmt: skip
        headers = {"Idempotency-Key": f"client-{uuid4().hex}" if key is None else key}
        body = _body(action, wanted, everything, options)
        return BulkOperation.of(self._api.object("POST", path, again=True, json=body, headers=headers))


def _body(action: str, wanted: Mapping[str, Any], everything: bool, options: Mapping[str, Any]) -> dict[str, Any]:
    return {"action": action, "filter": dict(wanted), **({"all": True} if everything else {}), **options}


def _of_runs(
    job_id: str | None, state: str | Sequence[str] | None, queue: str | None, since: Moment | None,
    until: Moment | None, run_ids: Sequence[str] | None,
) -> dict[str, Any]:  # fmt: skip
    times = {"since": moment_text(since, "since"), "until": moment_text(until, "until")}
    states = [state] if isinstance(state, str) else state
    return given(job_id=job_id, state=states, queue=queue, run_ids=run_ids, **times)
