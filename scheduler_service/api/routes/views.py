"""Saved views over HTTP: list, show, save, delete.

Promises that an address leads to a list of the dashboard and nowhere else. Everybody has views of its own; those of all
are saved by operators.
"""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Response
from starlette.responses import JSONResponse

from itinerary.protocol.errors import BadValue, BadValues
from itinerary.protocol.field_types import Flag
from itinerary.protocol.instants import format_instant
from itinerary.protocol.run_request import read_field, refuse_unknown
from scheduler_service.api.context import Context
from scheduler_service.api.http.auth import Who, require
from scheduler_service.api.http.bodies import JsonObject
from scheduler_service.api.openapi import access_shapes as shapes
from scheduler_service.api.openapi.documents import answers, body_of
from scheduler_service.api.services.saved_views import delete_view, save_view, view_of, views_of
from scheduler_service.core.contract.fields import read_text
from scheduler_service.core.saved_views import SavedView

router = APIRouter(prefix="/api/v1/views", tags=["views"], dependencies=[Depends(require("viewer"))])
Personal = Annotated[bool, Query(description="The caller's own view of this name, not that of all.")]


@router.get("", responses=answers({200: shapes.Views}))
def list_views(context: Context, who: Who) -> Response:
    """List the views of all and the caller's own, by name."""
    return JSONResponse({"items": [_body(view) for view in views_of(context, who)]})


@router.get("/{view}", responses=answers({200: shapes.ViewOut}, 404))
def get_view(context: Context, who: Who, view: str) -> Response:
    """Return the caller's own view of this name, else that of all."""
    return JSONResponse(_body(view_of(context, who, view)))


@router.put(
    "/{view}", openapi_extra=body_of(shapes.ViewIn), responses=answers({200: shapes.ViewOut}, 400, 409, 413, 422)
)
def put_view(context: Context, who: Who, view: str, body: JsonObject) -> Response:
    """Save the address of a list under this name, in place of what it named before; for all by operators."""
    errors: list[BadValue] = []
    refuse_unknown(body, {"address", "personal"}, errors)
    address = read_field(body, "address", read_text, "", errors)
    personal = read_field(body, "personal", Flag().read, False, errors)
    if errors:
        raise BadValues(errors)
    return JSONResponse(_body(save_view(context, who, view, address, personal=personal)))


@router.delete("/{view}", status_code=204, responses=answers({}, 404))
def remove_view(context: Context, who: Who, view: str, personal: Personal = False) -> Response:
    """Delete a view: of all by operators, or the caller's own."""
    delete_view(context, who, view, personal=personal)
    return Response(status_code=204)


def _body(view: SavedView) -> dict[str, Any]:
    return {
        "name": view.name, "address": view.address, "personal": view.is_personal, "saved_by": view.saved_by,
        "updated_at": format_instant(view.updated_at),
    }  # fmt: skip
