"""Freezes over HTTP: list, show, start, end.

Promises that when a freeze that holds has answered, no run in its scope is dispatched until its end, forced runs aside.
The answer says how many runs run on, and how many are not recalled yet. Never waits for a leader.
"""

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Response
from starlette.responses import JSONResponse

from itinerary.protocol.errors import BadValue, BadValues, NotFound
from scheduler_service.api.context import ApiContext, Context
from scheduler_service.api.http.auth import Who, require
from scheduler_service.api.http.bodies import JsonObject
from scheduler_service.api.openapi import freeze_shapes as shapes
from scheduler_service.api.openapi.documents import answers, body_of
from scheduler_service.api.routes.queues import OPERATOR, Cursor
from scheduler_service.core.audit import Caller
from scheduler_service.core.contract.fields import read_text
from scheduler_service.core.contract.freeze_json import FREEZE_ID, freeze_body, read_freeze
from scheduler_service.core.freezes import Freeze, FreezeStatus, status_of

router = APIRouter(prefix="/api/v1/freezes", tags=["freezes"], dependencies=[Depends(require("viewer"))])
Most = Annotated[int, Query(alias="limit", ge=1, le=100, description="Maximum number of items.")]
Status = Annotated[FreezeStatus | None, Query(description="Only those that hold, are to come, or are over.")]


@router.get("", responses=answers({200: shapes.Freezes}, 422))
def list_freezes(context: Context, status: Status = None, limit: Most = 100, cursor: Cursor = None) -> Response:
    """List freezes, the newest first."""
    if cursor is not None:
        read_text(cursor, "cursor")
    found, next_cursor = listed(context, status, limit, cursor)
    return JSONResponse({"items": found, "next_cursor": next_cursor})


def listed(
    context: ApiContext, status: FreezeStatus | None, limit: int, cursor: str | None
) -> tuple[list[dict[str, Any]], str | None]:
    """Return one page of freezes as JSON, and the cursor of the next one."""
    page = context.stores.freeze_store.list(status, limit, cursor)
    return bodies(context, page.items), page.next_cursor


@router.get("/{freeze_id}", responses=answers({200: shapes.FreezeOut}, 404))
def get_freeze(context: Context, freeze_id: str) -> Response:
    """Return a freeze."""
    return _answer(context, context.stores.freeze_store.get(_id(freeze_id)))


@router.post(
    "", status_code=201, dependencies=OPERATOR, openapi_extra=body_of(shapes.FreezeIn),
    responses=answers({201: shapes.FreezeOut}, 400, 409, 413, 422),
)  # fmt: skip
def start_freeze(context: Context, who: Who, body: JsonObject) -> Response:
    """Freeze a scope, from now or from a time on: none of its runs is dispatched, and none is lost.

    `running` of the answer run on; the leader recalls the `pending` ones. The same freeze is not started twice.
    """
    freeze = started(context, who, body)
    return _answer(context, freeze, 201, {"Location": f"/api/v1/freezes/{freeze.freeze_id}"})


@router.post("/{freeze_id}/end", dependencies=OPERATOR, responses=answers({200: shapes.FreezeOut}, 404, 409))
def end_freeze(context: Context, who: Who, freeze_id: str) -> Response:
    """End a freeze, also one that is to come: what waits is dispatched. One that is over stays as it is."""
    return _answer(context, ended(context, who, freeze_id))


def started(context: ApiContext, who: Caller, body: Mapping[str, Any]) -> Freeze:
    """Start the freeze and tell the leader."""
    asked = read_freeze(body, context.clock())
    unknown = [job_id for job_id in sorted(asked.scope.jobs) if _is_no_job(context, job_id)]
    if unknown:
        raise BadValues([BadValue("scope.jobs", job_id, "there is no such job") for job_id in unknown])
    freeze = context.stores.freeze_store.start(asked, by=who.audited_change("freeze.start"))
    context.leader.tell("control_changed", {})
    return freeze


def ended(context: ApiContext, who: Caller, freeze_id: str) -> Freeze:
    """End the freeze and tell the leader."""
    freeze = context.stores.freeze_store.end(_id(freeze_id), by=who.audited_change("freeze.end"))
    context.leader.tell("control_changed", {})
    return freeze


def bodies(context: ApiContext, freezes: list[Freeze] | tuple[Freeze, ...]) -> list[dict[str, Any]]:
    """Return the freezes as JSON, with counts of those that hold."""
    now = context.clock()
    active = [one for one in freezes if status_of(one, now) is FreezeStatus.ACTIVE]
    counted = context.stores.freeze_store.counts(active)
    counts = {one.freeze_id: number for one, number in zip(active, counted, strict=True)}
    return [freeze_body(one, counts.get(one.freeze_id), now) for one in freezes]


def _is_no_job(context: ApiContext, job_id: str) -> bool:
    try:
        return context.stores.jobs.get(job_id).deleted
    except NotFound:
        return True


def _id(text: str) -> int:
    if not FREEZE_ID.fullmatch(text):
        raise NotFound("no freeze with such an id")
    return int(text)


def _answer(
    context: ApiContext, freeze: Freeze, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    return JSONResponse(bodies(context, [freeze])[0], status, headers)
