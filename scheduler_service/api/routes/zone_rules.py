"""The zone rules over HTTP: those in force and those of the hosts, and the jobs that other rules would move."""

from fastapi import APIRouter, Depends, Response
from starlette.responses import JSONResponse

from scheduler_service.api.context import Context
from scheduler_service.api.http.auth import require
from scheduler_service.api.http.bodies import OptionalJsonObject
from scheduler_service.api.openapi import zone_shapes as shapes
from scheduler_service.api.openapi.documents import answers, body_of
from scheduler_service.api.services.zone_changes import diff_body, zone_rules_body

router = APIRouter(prefix="/api/v1/zones", tags=["scheduler"], dependencies=[Depends(require("viewer"))])


@router.get("", responses=answers({200: shapes.ZoneRules}))
def zone_rules(context: Context) -> Response:
    """Show the zone rules that the installation adopted, and whether a host has others."""
    return JSONResponse(zone_rules_body(context))


@router.post(
    "/diff", openapi_extra=body_of(shapes.ZoneDiffIn, required=False),
    responses=answers({200: shapes.ZoneDiffOut}, 400, 413, 422),
)  # fmt: skip
def diff(context: Context, body: OptionalJsonObject) -> Response:
    """List the jobs whose coming times change by other zone rules, were they adopted now. Changes nothing."""
    return JSONResponse(diff_body(context, body))
