"""The sign-in page: a token typed once becomes a session of this browser; and signing out.

Promises: the token is in no address and no page; nothing but a path of this site is gone to afterwards.
"""

from typing import TYPE_CHECKING, Annotated, Final

from fastapi import APIRouter, Depends, Query, Request, Response
from starlette.responses import RedirectResponse

from scheduler_service.api.context import ApiContext
from scheduler_service.api.http.auth import admit_all, may, token_of
from scheduler_service.api.http.grants import name_of_token
from scheduler_service.api.http.sessions import begin_session, find_session, forget_session
from scheduler_service.api.pages.csrf import FormBody, require_csrf
from scheduler_service.api.pages.shell import PageRoute, go, page
from scheduler_service.api.pages.strangers import SIGN_IN, local_path
from scheduler_service.core.audit import Caller
from scheduler_service.core.sessions import Session, SignedIn

if TYPE_CHECKING:
    from scheduler_service.api.services.identity_provider import IdentityProvider

router = APIRouter(include_in_schema=False, route_class=PageRoute, dependencies=[Depends(admit_all)])
Next = Annotated[str, Query(alias="next", description="The page to go to.")]
_UNKNOWN: Final = "This token is not known: type one that ITINERARY_API_TOKENS has, not its SHA-256."
_ENQUEUER: Final = "This token only enqueues: pages need the role viewer or more."
_TOO_MANY: Final = "Too many unknown tokens from your address: try again in {} seconds."


@router.get(SIGN_IN)
def sign_in_page(request: Request, wanted: Next = "/") -> Response:
    """Show the form, unless nobody is asked to sign in."""
    context: ApiContext = request.app.state.context
    return sign_in(request, wanted) if context.settings.asks_who else RedirectResponse("/", 303)


@router.post(SIGN_IN, dependencies=[Depends(require_csrf)])
def sign_in_by_token(request: Request, form: FormBody) -> Response:
    """Begin a session for the token that was typed."""
    context: ApiContext = request.app.state.context
    wanted, address = form.one("next"), request.client.host if request.client else "unknown"
    wait = context.logins.wait(address)
    if wait:
        context.logins.locked(address, request.headers.get("x-forwarded-for", ""))
        return sign_in(request, wanted, 429, _TOO_MANY.format(wait), {"Retry-After": str(wait)})
    token = token_of(context.settings.api_tokens, form.one("token"))
    if token is None:
        context.logins.add_signing_in(address)
        return sign_in(request, wanted, 403, _UNKNOWN)
    if not may(Caller(token.name, token.role), "viewer"):
        return sign_in(request, wanted, 403, _ENQUEUER)
    answer = RedirectResponse(local_path(wanted), 303)
    begin_session(request, answer, SignedIn(name_of_token(token), token.name, token.name), token.role)
    return answer


@router.post("/sign-out", dependencies=[Depends(require_csrf)])
def sign_out(request: Request, form: FormBody) -> Response:
    """End this browser's session, or every session of the same person or token."""
    context: ApiContext = request.app.state.context
    found, answer = find_session(request), go(SIGN_IN, "signed-out")
    if found is not None:
        session, grant = found
        by = Caller(session.who.name, grant.role).audited_change("session.sign-out")
        if form.one("everywhere"):
            context.stores.sessions.end_all(session.who.subject, session.who.issuer, context.clock(), by=by)
        else:
            context.stores.sessions.end(session.session_id, context.clock(), by=by)
        answer = _signed_out_of_provider(request, session) or answer
    forget_session(request, answer)
    return answer


def _signed_out_of_provider(request: Request, session: Session) -> Response | None:
    """Continue at the provider by a page: a redirect of a form to another site is refused by the page's own policy."""
    context: ApiContext = request.app.state.context
    provider: IdentityProvider | None = request.app.state.provider
    if provider is None or session.who.issuer is None:
        return None
    back = f"{(context.settings.public_url or '').rstrip('/')}{SIGN_IN}?done=signed-out"
    address = provider.sign_out_address(session.who.id_token, back)
    if address is None:
        return None
    return page(request, "signed_out.html", frame="_bare.html", address=address, host=provider.host)


def sign_in(
    request: Request, wanted: str, status: int = 200, trouble: str = "", headers: dict[str, str] | None = None
) -> Response:
    """Show the sign-in page."""
    return page(
        request, "sign_in.html", status=status, headers=headers,
        frame="_bare.html", wanted=local_path(wanted), trouble=trouble,
        provider=request.app.state.provider, by_token=bool(request.app.state.context.settings.api_tokens),
    )  # fmt: skip
