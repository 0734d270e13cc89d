"""Monitors over HTTP: list, show, define, delete, and the ping itself, which presents the monitor's own token.

Promises that a token is shown once, where it is created, and stored as a digest. Never waits for a leader: a ping is
committed when it answers.
"""

import hashlib
import secrets
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Header, Query, Request, Response
from starlette.responses import JSONResponse

from itinerary.protocol.errors import NotFound
from itinerary.protocol.field_types import Choice, Span
from itinerary.protocol.instants import DAY, Instant
from scheduler_service.api.context import ApiContext, Context
from scheduler_service.api.http.auth import Who, admit_all, require
from scheduler_service.api.http.bodies import JsonObject
from scheduler_service.api.http.preconditions import check_conditions
from scheduler_service.api.http.problems import Problem
from scheduler_service.api.openapi import monitor_shapes as shapes
from scheduler_service.api.openapi.documents import answers, body_of
from scheduler_service.api.openapi.parameters import AS_DURATION, text
from scheduler_service.api.routes.queues import OPERATOR, Cursor
from scheduler_service.core.audit import Caller
from scheduler_service.core.contract.fields import read_text
from scheduler_service.core.contract.monitor_json import MONITOR_ID, monitor_body, ping_body, pinged_body, read_monitor
from scheduler_service.core.monitors.model import Monitor, MonitorContent, PingOutcome
from scheduler_service.ports.monitors import PINGS_KEPT
from scheduler_service.ports.stores import Page

router = APIRouter(prefix="/api/v1/monitors", tags=["monitors"])
READER: Final = [Depends(require("viewer"))]
PINGER: Final = [Depends(admit_all), Depends(check_conditions)]
Most = Annotated[int, Query(alias="limit", ge=1, le=100, description="Maximum number of items.")]
_OUTCOME: Final = Choice(PingOutcome)
_RAN: Final = "How long it ran; else counted from its start."
_DURATION: Final = Span(0, 365 * DAY)


@router.get("", dependencies=READER, responses=answers({200: shapes.Monitors}, 422))
def list_monitors(context: Context, limit: Most = 100, cursor: Cursor = None) -> Response:
    """List the monitors by id."""
    if cursor is not None:
        read_text(cursor, "cursor")
    page, now = context.stores.monitor_store.list(limit, cursor), context.clock()
    return JSONResponse({"items": readable(page, now), "next_cursor": page.next_cursor})


def readable(page: Page[Monitor], now: Instant) -> list[dict[str, Any]]:
    """Return the monitors as JSON without those that cannot be read: one hides no other."""
    return [monitor_body(monitor, now) for monitor in page.items if monitor.content is not None]


@router.get("/{monitor_id}", dependencies=READER, responses=answers({200: shapes.MonitorOut}, 404, 409))
def get_monitor(context: Context, monitor_id: str) -> Response:
    """Return a monitor with its last pings, the newest first."""
    return JSONResponse(seen(context, monitor_id))


def seen(context: ApiContext, monitor_id: str) -> dict[str, Any]:
    """Return the monitor of this id as JSON; NotFound."""
    store = context.stores.monitor_store
    monitor = store.get(_id(monitor_id))
    pings = [ping_body(ping) for ping in store.pings(monitor_id, PINGS_KEPT)]
    return {**monitor_body(monitor, context.clock()), "pings": pings}


@router.put(
    "/{monitor_id}", dependencies=OPERATOR, openapi_extra=body_of(shapes.MonitorIn),
    responses=answers({200: shapes.MonitorSaved, 201: shapes.MonitorSaved}, 400, 409, 413, 422),
)  # fmt: skip
def put_monitor(context: Context, who: Who, monitor_id: str, body: JsonObject) -> Response:
    """Define or replace a monitor; a new one is answered with its token, which is never shown again."""
    monitor, token = saved(context, who, monitor_id, read_monitor(monitor_id, body, context.clock()))
    shown = {**monitor_body(monitor, context.clock()), "token": token}
    return JSONResponse(shown, 200 if token is None else 201)


def saved(context: ApiContext, who: Caller, monitor_id: str, content: MonitorContent) -> tuple[Monitor, str | None]:
    """Store the definition; with the token if the monitor is new."""
    token = new_token()
    by = who.audited_change("monitor.put")
    monitor, is_new = context.stores.monitor_store.put(monitor_id, content, digest_of(token), by=by)
    return monitor, token if is_new else None


@router.post(
    "/{monitor_id}/token", dependencies=OPERATOR, responses=answers({200: shapes.MonitorToken}, 404, 409)
)  # fmt: skip
def renew_token(context: Context, who: Who, monitor_id: str) -> Response:
    """Replace the token of a monitor; the one before is worth nothing at once."""
    return JSONResponse({"token": renewed(context, who, monitor_id)})


def renewed(context: ApiContext, who: Caller, monitor_id: str) -> str:
    """Replace the token, and return the new one."""
    token = new_token()
    by = who.audited_change("monitor.token")
    context.stores.monitor_store.renew_token(_id(monitor_id), digest_of(token), by=by)
    return token


@router.delete("/{monitor_id}", status_code=204, dependencies=OPERATOR, responses=answers({}, 404, 409))
def delete_monitor(context: Context, who: Who, monitor_id: str) -> Response:
    """Delete a monitor with its pings."""
    deleted(context, who, monitor_id)
    return Response(status_code=204)


def deleted(context: ApiContext, who: Caller, monitor_id: str) -> None:
    """Delete the monitor."""
    context.stores.monitor_store.delete(_id(monitor_id), by=who.audited_change("monitor.delete"))


@router.post(
    "/{monitor_id}/ping", dependencies=PINGER, responses=answers({200: shapes.PingAnswer}, 404)
)  # fmt: skip
def ping_monitor(
    request: Request,
    context: Context,
    monitor_id: str,
    outcome: Annotated[str, Query(json_schema_extra={"enum": [outcome.value for outcome in PingOutcome]})] = "success",
    duration: Annotated[str | None, text(40, _RAN, AS_DURATION)] = None,
    token: Annotated[str | None, text(200, "The monitor's token, if no header has it.")] = None,
    authorization: Annotated[str | None, Header(description="Bearer and the monitor's token.")] = None,
) -> Response:
    """Take a ping: what the monitor watches started, succeeded or failed."""
    event: Any = _OUTCOME.read(outcome, "outcome")
    ran = None if duration is None else _DURATION.read(duration, "duration")
    bearer = (authorization or "").removeprefix("Bearer ").strip()
    monitor = None
    if MONITOR_ID.fullmatch(monitor_id) and (token or bearer):
        monitor = context.stores.monitor_store.ping(monitor_id, digest_of(token or bearer), event, ran)
    if monitor is None:
        context.logins.add(request.client.host if request.client else "unknown")
        challenge = {"WWW-Authenticate": 'Bearer realm="itinerary"'}
        raise Problem(401, "send the token of this monitor: Authorization: Bearer ..., or ?token=", headers=challenge)
    return JSONResponse(pinged_body(monitor, context.clock()))


def new_token() -> str:
    """Return a token of 256 random bits."""
    return f"mon_{secrets.token_urlsafe(32)}"


def digest_of(token: str) -> str:
    """Return what is stored of a token."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


def _id(monitor_id: str) -> str:
    if not MONITOR_ID.fullmatch(monitor_id):
        raise NotFound("no monitor with such an id")
    return monitor_id
