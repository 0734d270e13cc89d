"""The audit log over HTTP. Only reads; the stores write each entry with its change."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Response
from starlette.responses import JSONResponse

from itinerary.protocol.instants import parse_instant
from scheduler_service.api.context import Context
from scheduler_service.api.http.auth import require
from scheduler_service.api.openapi.documents import answers
from scheduler_service.api.openapi.parameters import AS_TIME, text
from scheduler_service.api.openapi.record_shapes import AuditPage
from scheduler_service.api.routes.jobs import Cursor, Limit
from scheduler_service.core.audit import audit_body
from scheduler_service.core.contract.fields import read_text
from scheduler_service.ports.records import AuditFilter

router = APIRouter(prefix="/api/v1", tags=["audit"], dependencies=[Depends(require("operator"))])
Time = Annotated[str | None, Query(description="An RFC 3339 time.", json_schema_extra=AS_TIME)]


@router.get("/audit", responses=answers({200: AuditPage}, 422))
def list_audit(
    context: Context,
    subject: Annotated[str | None, text(300, "A job's or a run's id.")] = None,
    actor: Annotated[str | None, text(300, "The name of a token.")] = None,
    action: Annotated[str | None, text(300, "Such as job.pause.")] = None,
    since: Time = None,
    until: Time = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Response:
    """Changes, newest first."""
    for name, value in (("subject", subject), ("actor", actor), ("action", action), ("cursor", cursor)):
        if value is not None:
            read_text(value, name)
    wanted = AuditFilter(
        subject, actor, action,
        None if since is None else parse_instant(since, "since"),
        None if until is None else parse_instant(until, "until"),
    )  # fmt: skip
    page = context.stores.audit.list(wanted, limit, cursor)
    return JSONResponse({"items": [audit_body(entry) for entry in page.items], "next_cursor": page.next_cursor})
