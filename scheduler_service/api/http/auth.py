"""Who calls, and what the caller may do: tokens with roles, sessions of browsers, this machine without either.

Promises: tokens are compared in constant time, by digest; without tokens and sign-in the API serves this machine alone.
The REST API takes tokens only, so that no page of another site can use a browser's session there.
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable
from typing import Annotated, Final

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from itinerary.protocol.errors import BadValue, BadValues
from scheduler_service.api.http.grants import name_of_token
from scheduler_service.api.http.preconditions import check_conditions
from scheduler_service.api.http.problems import Problem
from scheduler_service.api.http.queries import check_query
from scheduler_service.api.http.sessions import find_session
from scheduler_service.api.http.shares import shared_view
from scheduler_service.config.settings import ApiToken, Role, Settings
from scheduler_service.core.audit import THIS_MACHINE, Caller
from scheduler_service.runtime.addresses import is_loopback

_RANK: Final[dict[str, int]] = {"enqueuer": -1, "viewer": 0, "operator": 1, "admin": 2}
_SIGN_IN: Final = "sign in at /sign-in, or send a valid token: Authorization: Bearer ..."
_bearer = HTTPBearer(auto_error=False, description="A token of ITINERARY_API_TOKENS; none is needed where none is set.")


def check_exposure(settings: Settings) -> None:
    """Refuse to listen beyond this machine without a token."""
    if not settings.asks_who and not is_loopback(settings.api_host):
        allowed = "without ITINERARY_API_TOKENS the API listens on 127.0.0.1, ::1 or localhost only"
        raise BadValues([BadValue("ITINERARY_API_HOST", settings.api_host, allowed)])


def token_of(tokens: tuple[ApiToken, ...], presented: str) -> ApiToken | None:
    """Return the token that was presented; compares every known token, so that timing reveals nothing."""
    digest = hashlib.sha256(presented.encode("utf-8", "surrogateescape")).hexdigest()
    found = None
    for token in tokens:
        if hmac.compare_digest(token.sha256, digest):
            found = token
    return found


def require(role: Role, also: Role | None = None) -> Callable[..., None]:
    """Return a dependency: the caller's bearer token has `role` or more, or the role `also`."""

    def check(request: Request, credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]) -> None:
        request.state.caller = THIS_MACHINE
        if request.app.state.context.settings.asks_who:
            token = _authorise(request, credentials.credentials if credentials else None, role, "Bearer", also)
            request.state.caller = caller_of(token)
        check_query(request)
        check_conditions(request)

    return check


def admit_all(request: Request) -> None:
    """Return a dependency for routes that need no token."""
    check_query(request)


def _caller(request: Request) -> Caller:
    caller: Caller = request.state.caller
    return caller


Who = Annotated[Caller, Depends(_caller)]
"""Who asks, in a route that requires a role."""


def demand(who: Caller, role: Role, what: str) -> None:
    """Raise Problem 403 if the caller's role does not allow `what`, which only the request's body reveals."""
    if not may(who, role):
        raise Problem(403, f"{what} needs the role {role}; the token has {who.role}", kind="role-too-small")


def require_page(request: Request) -> None:
    """Return a dependency for pages: a session, a bearer token, or a token as the password of HTTP's own login."""
    identify_reader(request)
    check_query(request)


def identify_reader(request: Request) -> None:
    """Record who reads a page; Problem 401 or 403."""
    request.state.caller = _page_caller(request, "viewer")


def require_operator_page(request: Request) -> None:
    """Like `identify_reader`, for changes made on a page."""
    request.state.caller = _page_caller(request, "operator")
    check_query(request)


def may(who: Caller, role: Role) -> bool:
    """Whether the caller's role is `role` or more."""
    return _RANK[who.role] >= _RANK[role]


def caller_of(token: ApiToken) -> Caller:
    """Return the caller that presents this token."""
    return Caller(token.name, token.role, token.limits, name_of_token(token))


def _page_caller(request: Request, role: Role) -> Caller:
    if not request.app.state.context.settings.asks_who:
        return THIS_MACHINE
    view = shared_view(request)
    if view is not None:
        _check_role(role, "viewer")
        return view.caller
    header = request.headers.get("authorization")
    if header is not None:
        return caller_of(_authorise(request, presented_token(header), role, "Basic"))
    found = find_session(request)
    if found is None:
        raise Problem(401, _SIGN_IN, headers={"WWW-Authenticate": 'Basic realm="itinerary"'})
    session, grant = found
    _check_role(role, grant.role)
    request.state.session = session
    return Caller(session.who.name, grant.role, grant.limits, session.who.granted_by)


def _check_role(role: Role, has: Role, also: Role | None = None) -> None:
    if _RANK[has] < _RANK[role] and has != also:
        raise Problem(403, f"this needs the role {role}; the token has {has}", kind="role-too-small")


def _authorise(request: Request, presented: str | None, role: Role, scheme: str, also: Role | None = None) -> ApiToken:
    context = request.app.state.context
    token = token_of(context.settings.api_tokens, presented) if presented else None
    if token is None:
        if presented:
            context.logins.add(request.client.host if request.client else "unknown")
        challenge = {"WWW-Authenticate": f'{scheme} realm="itinerary"'}
        raise Problem(401, "send a valid token: Authorization: Bearer ...", headers=challenge)
    _check_role(role, token.role, also)
    return token


def presented_token(header: str) -> str | None:
    """Return the token in an Authorization header, given as a bearer token or as the password of a login."""
    scheme, _, value = header.partition(" ")
    if scheme.lower() == "bearer":
        return value.strip()
    if scheme.lower() != "basic":
        return None
    try:
        return base64.b64decode(value.strip(), validate=True).decode("utf-8").partition(":")[2]
    except (binascii.Error, UnicodeDecodeError):
        return None
