"""Bulk operations over HTTP: plan, begin, follow, stop, undo.

Promises that 202 means stored: an operation continues though this process dies, and does nothing twice. Waits for no
leader, and for one page at most.
"""

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Response
from starlette.responses import JSONResponse

from itinerary.protocol.errors import NotFound
from itinerary.protocol.run_request import KEY_FIELD
from scheduler_service.api.context import ApiContext, Context
from scheduler_service.api.http.auth import Who, require
from scheduler_service.api.http.bodies import JsonObject
from scheduler_service.api.http.preconditions import IdempotencyKey
from scheduler_service.api.openapi import bulk_shapes as shapes
from scheduler_service.api.openapi.documents import answers, body_of
from scheduler_service.api.routes.jobs import OPERATOR, Cursor
from scheduler_service.api.services.bulk import BulkPlan, begin, plan, read_order, undo
from scheduler_service.core.audit import Caller
from scheduler_service.core.bulk import OPERATION_ID, BulkOn, BulkOperation
from scheduler_service.core.contract.bulk_json import operation_body
from scheduler_service.core.contract.fields import read_text
from scheduler_service.core.contract.request_keys import with_key
from scheduler_service.ports.history import Total

router = APIRouter(prefix="/api/v1", tags=["bulk"], dependencies=[Depends(require("viewer"))])
Most = Annotated[int, Query(alias="limit", ge=1, le=100, description="Maximum number of items.")]


@router.post(
    "/runs/bulk", status_code=202, dependencies=OPERATOR, openapi_extra=body_of(shapes.BulkRunsIn),
    responses=answers({200: shapes.BulkPlanOut, 202: shapes.BulkOut}, 400, 409, 413, 422),
)  # fmt: skip
def bulk_runs(context: Context, who: Who, body: JsonObject, key: IdempotencyKey = None) -> Response:
    """Cancel, run again, move or delete every run that the filter finds; `dry_run` says what would happen, with 200.

    Runs enqueued later are not touched. No run is run again twice by bulk operations. A run that was sent to its queue
    is not moved. Deleting needs the role admin, leaves runs of schedules, and cannot be undone.
    """
    return _asked(context, who, BulkOn.RUNS, with_key(body, key))


@router.post(
    "/jobs/bulk", status_code=202, dependencies=OPERATOR, openapi_extra=body_of(shapes.BulkJobsIn),
    responses=answers({200: shapes.BulkPlanOut, 202: shapes.BulkOut}, 400, 409, 413, 422),
)  # fmt: skip
def bulk_jobs(context: Context, who: Who, body: JsonObject, key: IdempotencyKey = None) -> Response:
    """Pause, resume, move or delete every job that the filter finds; `dry_run` says what would happen, with 200.

    Deleting needs the role admin. A job that is paused already keeps its reason.
    """
    return _asked(context, who, BulkOn.JOBS, with_key(body, key))


@router.get("/bulk", responses=answers({200: shapes.BulkPage}, 422))
def list_operations(context: Context, limit: Most = 20, cursor: Cursor = None) -> Response:
    """List bulk operations of the last 30 days, the newest first."""
    if cursor is not None:
        read_text(cursor, "cursor")
    page = context.stores.bulk.list(None, limit, cursor)
    return JSONResponse({"items": [operation_body(one) for one in page.items], "next_cursor": page.next_cursor})


@router.get("/bulk/{operation_id}", responses=answers({200: shapes.BulkOut}, 404))
def get_operation(context: Context, operation_id: str) -> Response:
    """Return a bulk operation: how far it got, and what became of what it has seen."""
    return JSONResponse(operation_body(known_operation(context, operation_id)))


@router.post("/bulk/{operation_id}/stop", dependencies=OPERATOR, responses=answers({200: shapes.BulkOut}, 404))
def stop_operation(context: Context, who: Who, operation_id: str) -> Response:
    """End an operation before its next page; what it did stays."""
    known_operation(context, operation_id)
    return JSONResponse(operation_body(context.stores.bulk.stop(operation_id, who)))


@router.post(
    "/bulk/{operation_id}/undo", status_code=202, dependencies=OPERATOR,
    responses=answers({202: shapes.BulkOut}, 404, 409),
)  # fmt: skip
def undo_operation(context: Context, who: Who, operation_id: str) -> Response:
    """Take back what an operation changed, where nobody changed it since.

    Jobs get the version before; new runs of a retry are cancelled; runs that still wait go back to their
    queue. A cancel of runs and their deletion cannot be undone.
    """
    known_operation(context, operation_id)
    return JSONResponse(operation_body(undo(context, who, operation_id)), 202)


def known_operation(context: ApiContext, operation_id: str) -> BulkOperation:
    """Return the operation of this id; NotFound."""
    if not OPERATION_ID.fullmatch(operation_id):
        raise NotFound("no bulk operation with such an id")
    return context.stores.bulk.get(operation_id)


def _asked(context: ApiContext, who: Caller, on: BulkOn, body: dict[str, Any]) -> Response:
    order = read_order(context, who, on, body)
    if body.get("dry_run"):
        return JSONResponse(plan_body(plan(context, order)))
    return JSONResponse(operation_body(begin(context, who, order, body.get(KEY_FIELD), body)), 202)


def plan_body(found: BulkPlan) -> Mapping[str, Any]:
    """Return the plan as the API shows it."""
    order = found.order
    groups = [
        {"what": one.what, **_count("count", one.total), "outcome": one.outcome, "why": one.why} for one in found.groups
    ]
    return {
        "on": order.on.value, "action": order.action.value, "filter": dict(order.filter),
        **_count("matching", found.matching), **_count("changing", found.changing), "groups": groups,
        "sample": list(found.sample),
    }  # fmt: skip


def _count(name: str, total: Total) -> dict[str, Any]:
    return {name: total.number, f"{name}_is_exact": not total.more}
