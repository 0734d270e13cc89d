"""Backfill over HTTP: runs a job's occurrences of a past window with their own times, in one transaction.

Promises the same runs for the same key. Never runs an occurrence that completed, is in flight or waits for its turn.
"""

from typing import Any

from fastapi import APIRouter, Depends, Response
from starlette.responses import JSONResponse
from uuid_utils.compat import uuid7

from itinerary.protocol.run_request import KEY_FIELD, read_key, request_hash
from scheduler_service.api.context import ApiContext, Context
from scheduler_service.api.http.auth import Who, require
from scheduler_service.api.http.bodies import JsonObject
from scheduler_service.api.http.preconditions import IdempotencyKey, IfMatch, expected_version
from scheduler_service.api.openapi import answers as shapes
from scheduler_service.api.openapi import schemas
from scheduler_service.api.openapi.documents import answers, body_of
from scheduler_service.api.routes.jobs import OPERATOR, known_job
from scheduler_service.api.services.held_jobs import freezes_of
from scheduler_service.core.audit import AuditedChange, Caller
from scheduler_service.core.contract.backfill import (
    backfill_body,
    backfill_runs,
    occurrences_of,
    plan_backfill,
    read_window,
)
from scheduler_service.core.contract.request_keys import with_key

router = APIRouter(prefix="/api/v1", tags=["jobs"], dependencies=[Depends(require("viewer"))])


@router.post(
    "/jobs/{job_id}/backfill", dependencies=OPERATOR, openapi_extra=body_of(schemas.BackfillIn),
    responses=answers({200: shapes.BackfillOut, 202: shapes.BackfillOut}, 400, 404, 409, 412, 413, 422),
)  # fmt: skip
def backfill_job(
    context: Context, who: Who, job_id: str, body: JsonObject, if_match: IfMatch = None, key: IdempotencyKey = None
) -> Response:
    """Run the job's occurrences of a past window that did not complete, each with its own time, paused or not.

    202 if runs were created; 200 if none were: a dry run, or nothing is left to run. The same key names the runs that
    were created for it.
    """
    answer = backfilled(context, who, job_id, with_key(body, key), if_match)
    return JSONResponse(answer, 202 if answer["run_ids"] else 200)


def backfilled(
    context: ApiContext, who: Caller, job_id: str, body: dict[str, Any], if_match: str | None = None
) -> dict[str, Any]:
    """Create the runs of the window in `body`, or plan them for a dry run."""
    job = known_job(context, job_id)
    expected_version(if_match, job)
    window = read_window(body, context.clock())
    times = occurrences_of(job, window)
    plan = plan_backfill(job, window, times, context.stores.evidence.of_occurrences(job_id, times))
    freezes = freezes_of(context, job)
    if window.dry_run:
        return backfill_body(plan, (), freezes)
    change = _audited_change(who, body)
    known = None if change.key is None else context.stores.audit.of_key(change, job_id)
    if known is not None:
        return {**backfill_body(plan, (), freezes), "runs": len(known), "run_ids": list(known)}
    if not plan.wanted:
        return backfill_body(plan, (), freezes)
    new = backfill_runs(plan, [str(uuid7()) for _ in plan.wanted])
    enqueued = context.stores.runs.enqueue(new, by=change)
    created = [run.run_id for run, is_new in enqueued if is_new]
    if created:
        context.leader.tell("run_enqueued", {"run_ids": created})
    return backfill_body(plan, created, freezes)


def _audited_change(who: Caller, body: dict[str, Any]) -> AuditedChange:
    key = body.get(KEY_FIELD)
    if key is None:
        return who.audited_change("job.backfill")
    return who.keyed("job.backfill", read_key(key), request_hash(body))
