"""The page of sessions: an admin sees who is signed in and ends sessions; everybody else sees and ends their own.

Promises that nobody sees or ends a session beyond their rights: a limited admin knows those of its own token or rule.
"""

from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from fastapi import APIRouter, Depends, Request, Response

from itinerary.protocol.errors import NotFound
from scheduler_service.api.context import ApiContext, Context
from scheduler_service.api.http.auth import Who, may, require_page
from scheduler_service.api.pages.csrf import FormBody, require_csrf
from scheduler_service.api.pages.moments import Moment, moment
from scheduler_service.api.pages.shell import READER, PageRoute, go, page
from scheduler_service.core.audit import Caller
from scheduler_service.core.sessions import Session, SignedIn

MOST: Final = 1_000
_OWN: Final = [Depends(require_page), Depends(require_csrf)]

router = APIRouter(include_in_schema=False, route_class=PageRoute)


@dataclass(frozen=True, slots=True)
class Line:
    """One session as the page shows it; `others` counts those of the same person or token on the page."""

    session_id: int
    name: str
    agent: str
    address: str | None
    since: Moment
    seen: Moment
    until: Moment
    is_this: bool
    others: int


@router.get("/sessions", dependencies=READER)
def show_sessions(request: Request, context: Context, who: Who) -> Response:
    """Show them, those in use last first."""
    found, now = visible_sessions(context, who, _own(request)), context.clock()
    this: Session | None = getattr(request.state, "session", None)
    lines = [
        Line(
            one.session_id, one.who.name, one.agent, one.address, moment(one.started_at, now),
            moment(one.seen_at, now), moment(one.ends_at, now), this is not None and one.session_id == this.session_id,
            sum(_is_same(one, other) for other in found) - 1,
        )
        for one in found
    ]  # fmt: skip
    return page(
        request, "sessions.html", sessions=lines, all_of_them=may(who, "admin"), asks=context.settings.asks_who,
        most=MOST if len(found) == MOST else None,
    )  # fmt: skip


@router.post("/sessions/{session_id}/end", dependencies=_OWN)
def end_session(request: Request, context: Context, who: Who, session_id: int, form: FormBody) -> Response:
    """End a session, or every session of the same person or token; one's own leads to the sign-in page."""
    there = {one.session_id: one for one in visible_sessions(context, who, _own(request))}
    session = there.get(session_id)
    if session is None:
        raise NotFound(f"no session {session_id}")
    by, now = who.audited_change("session.end"), context.clock()
    if not form.one("everywhere"):
        context.stores.sessions.end(session_id, now, by=by)
        return go("/sessions", "session-ended")
    if who.limits.none:
        context.stores.sessions.end_all(session.who.subject, session.who.issuer, now, by=by)
    else:
        for each in there.values():
            if _is_same(each, session):
                with suppress(NotFound):  # it ended meanwhile
                    context.stores.sessions.end(each.session_id, now, by=by)
    return go("/sessions", "sessions-ended")


def visible_sessions(context: ApiContext, who: Caller, own: SignedIn | None = None) -> list[Session]:
    """Return the sessions that the caller may see and end: all, those of its own token or rule, or those of `own`."""
    of = None if may(who, "admin") else own or SignedIn(who.granted_by or "", who.name, who.name)
    found = context.stores.sessions.list(context.clock(), context.settings.session_idle, MOST, of)
    return [each for each in found if of is not None or who.limits.none or each.who.granted_by == who.granted_by]


def _own(request: Request) -> SignedIn | None:
    session: Session | None = getattr(request.state, "session", None)
    return None if session is None else session.who


def _is_same(one: Session, other: Session) -> bool:
    return (one.who.subject, one.who.issuer) == (other.who.subject, other.who.issuer)
