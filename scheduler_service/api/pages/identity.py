"""Signing in at the identity provider: sending the browser there, taking it back, and hearing that it is signed out.

Promises: an answer counts once, only in the browser that was sent, and only while it is fresh. Whatever goes wrong is
said on the sign-in page, with what to do.
"""

import secrets
from typing import TYPE_CHECKING, Annotated, Final

import structlog
from fastapi import APIRouter, Depends, Query, Request, Response
from starlette.responses import JSONResponse, RedirectResponse

from itinerary.protocol.instants import SECOND
from scheduler_service.api.context import ApiContext
from scheduler_service.api.http.auth import admit_all
from scheduler_service.api.http.problems import Problem
from scheduler_service.api.http.sessions import begin_session, cookie_name, is_https, secret_hash
from scheduler_service.api.pages.csrf import FormBody
from scheduler_service.api.pages.shell import PageRoute
from scheduler_service.api.pages.sign_in import sign_in
from scheduler_service.api.pages.strangers import BACK_CHANNEL, CALLBACK, PROVIDER, local_path
from scheduler_service.config.settings import Settings
from scheduler_service.core.audit import SYSTEM, Caller
from scheduler_service.core.sign_ins import LASTS, SignIn

if TYPE_CHECKING:
    from scheduler_service.api.services.identity_provider import IdentityProvider

log = structlog.get_logger(__name__)
router = APIRouter(include_in_schema=False, route_class=PageRoute)
_BROWSER: Final = "itinerary_signing_in"
_OLD: Final = "This sign-in was begun in another browser, took more than ten minutes, or was used before: begin again."


@router.get(PROVIDER, dependencies=[Depends(admit_all)])
def go_to_provider(request: Request, wanted: Annotated[str, Query(alias="next")] = "/") -> Response:
    """Send the browser to the provider."""
    from scheduler_service.api.services.identity_provider import ProviderDown

    context: ApiContext = request.app.state.context
    provider, go_to = _provider(request), local_path(wanted)
    state, flow = secrets.token_urlsafe(32), SignIn(secrets.token_urlsafe(32), secrets.token_urlsafe(48), go_to)
    # Kept where it is there already: two tabs that sign in are one browser.
    browser = request.cookies.get(cookie_name(request, _BROWSER)) or secrets.token_urlsafe(32)
    try:
        address = provider.sign_in_address(state, flow)
    except ProviderDown as exc:
        return sign_in(request, go_to, 503, _down(str(exc)), {"Retry-After": "30"})
    context.stores.sign_ins.begin(secret_hash(state), secret_hash(browser), flow, context.clock())
    answer = RedirectResponse(address, 303)
    answer.set_cookie(
        cookie_name(request, _BROWSER), browser, max_age=LASTS // SECOND,
        httponly=True, samesite="lax", secure=is_https(request), path="/",
    )  # fmt: skip
    return answer


@router.get(CALLBACK)
def come_back(request: Request) -> Response:
    """Take the provider's answer and begin a session; parameters that are not known are ignored, as its rules say."""
    from scheduler_service.api.services.identities import NoGroup, signed_in
    from scheduler_service.api.services.identity_provider import IdentityRefused, ProviderDown

    context: ApiContext = request.app.state.context
    provider, given = _provider(request), dict(request.query_params)
    browser = request.cookies.get(cookie_name(request, _BROWSER), "")
    now = context.clock()
    # If we die here, the browser begins again: its sign-in was taken, and no session exists.
    flow = context.stores.sign_ins.take(secret_hash(given.get("state", "")), secret_hash(browser), now)
    if flow is None:
        return sign_in(request, "/", 403, _OLD)
    try:
        id_token, claims = provider.identity(given, flow, now // SECOND)
        who, rule = signed_in(context.settings, claims, id_token)
    except ProviderDown as exc:
        return sign_in(request, flow.go_to, 503, _down(str(exc)), {"Retry-After": "30"})
    except (IdentityRefused, NoGroup) as exc:
        return sign_in(request, flow.go_to, 403, f"{exc}")
    answer = RedirectResponse(flow.go_to, 303)
    begin_session(request, answer, who, rule.role)
    return answer


@router.post(BACK_CHANNEL, dependencies=[Depends(admit_all)])
def signed_out_there(request: Request, form: FormBody) -> Response:
    """End the sessions that the provider says are over; it calls this itself, without a browser."""
    from scheduler_service.api.services.identity_provider import IdentityRefused, ProviderDown
    from scheduler_service.api.services.logout_tokens import read_logout_token

    context: ApiContext = request.app.state.context
    provider, now = _provider(request), context.clock()
    try:
        said = read_logout_token(provider, form.one("logout_token"), now // SECOND)
    except ProviderDown as exc:
        return JSONResponse(
            {"error": "temporarily_unavailable", "error_description": str(exc)}, 503, {"Retry-After": "30"}
        )
    except IdentityRefused as exc:
        return _refused(str(exc))
    by = Caller(provider.host, SYSTEM.role).audited_change("session.provider-sign-out")
    ended = context.stores.sessions.sign_out(said, now, by=by)
    if ended is None:
        return _refused("the logout token is not accepted: it was used before")
    log.info("sessions ended by the identity provider", count=ended)
    return Response(status_code=200)


def _refused(reason: str) -> Response:
    log.warning("logout token refused", reason=reason)
    return JSONResponse({"error": "invalid_request", "error_description": reason}, 400)


def provider_of(settings: Settings) -> "IdentityProvider":
    """Return the identity provider of the settings; BadValue if the client's secret cannot be read."""
    from scheduler_service.api.services.identity_provider import Client, IdentityProvider

    redirect_uri = f"{str(settings.public_url).rstrip('/')}{CALLBACK}"
    client = Client(
        str(settings.oidc_issuer), str(settings.oidc_client_id), settings.read_oidc_secret(), settings.oidc_scopes,
        redirect_uri,
    )  # fmt: skip
    return IdentityProvider(client)


def _provider(request: Request) -> "IdentityProvider":
    provider: IdentityProvider | None = request.app.state.provider
    if provider is None:
        raise Problem(404, f"there is no page {request.url.path}")
    return provider


def _down(reason: str) -> str:
    return f"{reason}. Try again later; those who are signed in stay so until the session ends."
