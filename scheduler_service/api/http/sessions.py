"""The session cookie: how a browser's session begins, is found and ends.

Promises: the secret is random, new at each sign-in, and stored by its SHA-256 alone. A session whose token or rule is
no longer in the settings ends at its next request.
"""

import hashlib
import secrets
from contextlib import suppress
from typing import Final

from fastapi import Request, Response

from itinerary.protocol.errors import NotFound, StoreUnavailable
from itinerary.protocol.instants import MINUTE
from scheduler_service.api.context import ApiContext
from scheduler_service.api.http.grants import Grant
from scheduler_service.core.audit import SYSTEM, Caller
from scheduler_service.core.sessions import Session, SignedIn

_COOKIE: Final = "itinerary_session"
_LONGEST_AGENT: Final = 200
_NOTED_EVERY: Final = MINUTE


def is_https(request: Request) -> bool:
    """Whether this browser comes by HTTPS; behind a proxy the setting PUBLIC_URL says so."""
    context: ApiContext = request.app.state.context
    return request.url.scheme == "https" or context.settings.is_public_https


def presented_session(request: Request) -> str:
    """Return the secret in the request's session cookie; empty without one."""
    return request.cookies.get(cookie_name(request, _COOKIE), "")


def find_session(request: Request) -> tuple[Session, Grant] | None:
    """Return the live session of the request and its rights, and note at most each minute that it is in use."""
    context: ApiContext = request.app.state.context
    secret, now = presented_session(request), context.clock()
    session = context.stores.sessions.find(secret_hash(secret), now) if secret else None
    if session is None or not session.is_live(now, context.settings.session_idle):
        return None
    grant: Grant | None = request.app.state.grants.get(session.who.granted_by)
    if grant is None:
        _end(context, session, SYSTEM)
        return None
    if now - session.seen_at >= min(_NOTED_EVERY, context.settings.session_idle // 10):
        with suppress(StoreUnavailable):  # a page is not refused because this cannot be noted
            context.stores.sessions.seen(session.session_id, now)
    return session, grant


def begin_session(request: Request, response: Response, who: SignedIn, role: str) -> None:
    """Begin a session with a new secret and set its cookie; the one that the browser had ends."""
    context: ApiContext = request.app.state.context
    before = find_session(request)
    if before is not None:
        _end(context, before[0], Caller(who.name, role))
    secret, now = secrets.token_urlsafe(32), context.clock()
    agent = request.headers.get("user-agent", "")[:_LONGEST_AGENT]
    ends_at = now + context.settings.session_lifetime
    by = Caller(who.name, role).audited_change("session.sign-in")
    address = request.client.host if request.client else "unknown"
    context.stores.sessions.begin(who, secret_hash(secret), printable(agent), address, now, ends_at, by=by)
    # Lax: following a link from elsewhere keeps the session; forms of other sites do not send it.
    https = is_https(request)
    response.set_cookie(cookie_name(request, _COOKIE), secret, httponly=True, samesite="lax", secure=https, path="/")


def forget_session(request: Request, response: Response) -> None:
    """Remove the cookie."""
    name, https = cookie_name(request, _COOKIE), is_https(request)
    response.delete_cookie(name, httponly=True, samesite="lax", secure=https, path="/")


def secret_hash(secret: str) -> str:
    """Return what is stored of a secret."""
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


def printable(text: str) -> str:
    """Return the text without characters that cannot be stored or shown."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


def _end(context: ApiContext, session: Session, by: Caller) -> None:
    with suppress(NotFound):  # another request ended it first
        context.stores.sessions.end(session.session_id, context.clock(), by=by.audited_change("session.end"))


def cookie_name(request: Request, name: str) -> str:
    """Return the cookie's name; over HTTPS one by which browsers refuse what other hosts or plain HTTP set."""
    return f"__Host-{name}" if is_https(request) else name
