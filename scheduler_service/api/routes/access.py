"""Sessions and share links over HTTP: who is signed in, which pages are shared; end both.

Promises that an ended session or link is refused from the next request on. A limited token knows its own alone.
"""

from typing import Any, Final

from fastapi import APIRouter, Depends, Response
from starlette.responses import JSONResponse

from itinerary.protocol.errors import BadValue, BadValues, NotFound
from itinerary.protocol.instants import format_duration, format_instant
from scheduler_service.api.context import ApiContext, Context
from scheduler_service.api.http.auth import Who, require
from scheduler_service.api.http.bodies import JsonObject
from scheduler_service.api.http.problems import Problem
from scheduler_service.api.openapi import access_shapes as shapes
from scheduler_service.api.openapi.documents import answers, body_of
from scheduler_service.api.pages.shared import address_to_share, create_link, revoke_link, visible_links
from scheduler_service.api.pages.signed_in import visible_sessions
from scheduler_service.core.contract.fields import read_text
from scheduler_service.core.contract.freeze_json import FREEZE_ID
from scheduler_service.core.sessions import Session
from scheduler_service.core.share_links import USUAL, ShareLink

router = APIRouter(prefix="/api/v1", tags=["access"])
_ADMIN: Final = [Depends(require("admin"))]
_OPERATOR: Final = [Depends(require("operator"))]
_FIELDS: Final = ("page", "for")


@router.get("/sessions", dependencies=_ADMIN, responses=answers({200: shapes.Sessions}))
def list_sessions(context: Context, who: Who) -> Response:
    """List the browsers that are signed in, a thousand at most, those in use last first."""
    return JSONResponse({"items": [_session_body(session) for session in visible_sessions(context, who)]})


@router.delete("/sessions/{session_id}", status_code=204, dependencies=_ADMIN, responses=answers({}, 404))
def end_session(context: Context, who: Who, session_id: str) -> Response:
    """End a session: its browser signs in again."""
    number = _id(session_id, "session")
    if not who.limits.none and number not in {each.session_id for each in visible_sessions(context, who)}:
        raise NotFound(f"no session {number}")
    context.stores.sessions.end(number, context.clock(), by=who.audited_change("session.end"))
    return Response(status_code=204)


@router.get("/share-links", dependencies=_OPERATOR, responses=answers({200: shapes.ShareLinks}, 404))
def list_share_links(context: Context, who: Who) -> Response:
    """List the links that last, the newest first."""
    _require_sharing(context)
    return JSONResponse({"items": [_link_body(link) for link in visible_links(context, who)]})


@router.post(
    "/share-links", status_code=201, dependencies=_OPERATOR, openapi_extra=body_of(shapes.ShareLinkIn),
    responses=answers({201: shapes.CreatedShareLink}, 400, 404, 409, 413, 422),
)  # fmt: skip
def share_page(context: Context, who: Who, body: JsonObject) -> Response:
    """Create a link that shows one page, to read, to somebody without a login; its secret is in this answer alone."""
    _require_sharing(context)
    unknown = [BadValue(name, body[name], "there is no such field") for name in sorted(set(body) - set(_FIELDS))]
    if unknown:
        raise BadValues(unknown)
    lasts = read_text(body.get("for", format_duration(USUAL)), "for")
    path, link = create_link(context, who, address_to_share(read_text(body.get("page"), "page")), lasts)
    return JSONResponse({**_link_body(link), "path": path}, 201)


@router.delete("/share-links/{link_id}", status_code=204, dependencies=_OPERATOR, responses=answers({}, 404))
def revoke_share_link(context: Context, who: Who, link_id: str) -> Response:
    """Revoke a link: it shows nothing any more."""
    _require_sharing(context)
    revoke_link(context, who, _id(link_id, "link"))
    return Response(status_code=204)


def _require_sharing(context: ApiContext) -> None:
    if not context.settings.share_links:
        raise Problem(404, "pages are not shared here: ITINERARY_SHARE_LINKS is off")


def _id(text: str, what: str) -> int:
    if not FREEZE_ID.fullmatch(text):
        raise NotFound(f"no {what} with such an id")
    return int(text)


def _session_body(session: Session) -> dict[str, Any]:
    return {
        "session_id": session.session_id, "name": session.who.name, "issuer": session.who.issuer,
        "browser": session.agent, "address": session.address, "started_at": format_instant(session.started_at),
        "seen_at": format_instant(session.seen_at), "ends_at": format_instant(session.ends_at),
    }  # fmt: skip


def _link_body(link: ShareLink) -> dict[str, Any]:
    return {
        "link_id": link.link_id, "page": link.address, "created_by": link.created_by,
        "created_at": format_instant(link.created_at), "ends_at": format_instant(link.ends_at),
    }  # fmt: skip
