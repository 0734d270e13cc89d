"""Limits over HTTP: list, show, define, change, delete.

Promises that when a change has answered, no run is dispatched by an older definition. Never waits for a leader: the
use of a limit, which it alone knows, is null if none answers.
"""

from collections.abc import Callable, Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Response
from starlette.responses import JSONResponse

from itinerary.protocol.errors import NotFound
from itinerary.protocol.limits import LIMIT
from scheduler_service.api.context import ApiContext, Context
from scheduler_service.api.http.auth import Who, require
from scheduler_service.api.http.bodies import JsonObject
from scheduler_service.api.openapi import limit_shapes as shapes
from scheduler_service.api.openapi.documents import answers, body_of
from scheduler_service.api.routes.queues import OPERATOR, Cursor
from scheduler_service.core.audit import Caller
from scheduler_service.core.contract.fields import read_text
from scheduler_service.core.contract.limit_json import changed_limit, limit_body, read_limit
from scheduler_service.core.limits import Limit

router = APIRouter(prefix="/api/v1/limits", tags=["limits"], dependencies=[Depends(require("viewer"))])
Most = Annotated[int, Query(alias="limit", ge=1, le=100, description="Maximum number of items.")]
_UNUSED: Mapping[str, Any] = {"in_flight": 0, "waiting": 0, "waiting_is_exact": True, "busiest_keys": []}


@router.get("", responses=answers({200: shapes.Limits}, 422))
def list_limits(context: Context, limit: Most = 100, cursor: Cursor = None) -> Response:
    """List the limits by name, with their present use."""
    if cursor is not None:
        read_text(cursor, "cursor")
    found, next_cursor = listed(context, limit, cursor)
    return JSONResponse({"items": found, "next_cursor": next_cursor})


def listed(context: ApiContext, limit: int, cursor: str | None) -> tuple[list[dict[str, Any]], str | None]:
    """Return one page of limits as JSON, and the cursor of the next one."""
    page = context.stores.limit_store.list(limit, cursor)
    figures = _figures(context)
    return [_body(limit, figures) for limit in page.items], page.next_cursor


@router.get("/{name}", responses=answers({200: shapes.LimitOut}, 404))
def get_limit(context: Context, name: str) -> Response:
    """Return a limit with its present use."""
    return JSONResponse(seen(context, name))


def seen(context: ApiContext, name: str) -> dict[str, Any]:
    """Return the limit of this name as JSON; NotFound."""
    return _body(context.stores.limit_store.get(_name(name)), _figures(context))


@router.put(
    "/{name}", dependencies=OPERATOR, openapi_extra=body_of(shapes.LimitIn),
    responses=answers({200: shapes.LimitOut}, 400, 409, 413, 422),
)  # fmt: skip
def put_limit(context: Context, who: Who, name: str, body: JsonObject) -> Response:
    """Define a limit, or replace its definition."""
    wanted = read_limit(name, body)
    return _answer(context, edited(context, who, name, lambda _: wanted, "limit.put"))


@router.patch(
    "/{name}", dependencies=OPERATOR, openapi_extra=body_of(shapes.LimitPatch),
    responses=answers({200: shapes.LimitOut}, 400, 404, 409, 413, 422),
)  # fmt: skip
def patch_limit(context: Context, who: Who, name: str, body: JsonObject) -> Response:
    """Change the given fields of a limit; of `overrides` the given keys, of which null removes one."""

    def change(there: Limit | None) -> Limit:
        if there is None:
            raise NotFound(f"no limit {name}")
        return changed_limit(there, body)

    return _answer(context, edited(context, who, _name(name), change, "limit.patch"))


@router.delete("/{name}", status_code=204, dependencies=OPERATOR, responses=answers({}, 404, 409))
def delete_limit(context: Context, who: Who, name: str) -> Response:
    """Delete a limit that no job names; runs that name it wait for it no longer."""
    deleted(context, who, name)
    return Response(status_code=204)


def edited(context: ApiContext, who: Caller, name: str, change: Callable[[Limit | None], Limit], action: str) -> Limit:
    """Change the definition of the limit and tell the leader."""
    found = context.stores.limit_store.edit(name, change, by=who.audited_change(action))
    context.leader.tell("control_changed", {})
    return found


def deleted(context: ApiContext, who: Caller, name: str) -> None:
    """Delete the limit and tell the leader."""
    context.stores.limit_store.delete(_name(name), by=who.audited_change("limit.delete"))
    context.leader.tell("control_changed", {})


def _name(name: str) -> str:
    if not LIMIT.fullmatch(name):
        raise NotFound("no limit with such a name")
    return name


def _answer(context: ApiContext, limit: Limit) -> Response:
    return JSONResponse(_body(limit, _figures(context)))


def _figures(context: ApiContext) -> Mapping[str, Mapping[str, Any]] | None:
    return context.limit_figures.by_name(lambda: context.ask_leader("limits"))


def _body(limit: Limit, figures: Mapping[str, Mapping[str, Any]] | None) -> dict[str, Any]:
    use = dict.fromkeys(_UNUSED) if figures is None else figures.get(limit.name, _UNUSED)
    return {"name": limit.name, **limit_body(limit), **{field: use[field] for field in _UNUSED}}
