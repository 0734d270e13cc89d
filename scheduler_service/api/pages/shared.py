"""Shared pages: sharing one, the list of links, and what somebody with a link sees.

Promises: the secret is shown once and stored by its digest. No search engine keeps a shared page, no other site learns
its address.
"""

import secrets
from typing import Annotated, Final
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from fastapi import APIRouter, Depends, Query, Request, Response
from starlette.datastructures import MutableHeaders
from starlette.types import Message, Receive, Scope, Send

from itinerary.protocol.errors import BadValue, NotFound
from itinerary.protocol.instants import format_duration, parse_duration
from scheduler_service.api.context import ApiContext
from scheduler_service.api.http.auth import Who, admit_all, require_operator_page
from scheduler_service.api.http.problems import Problem
from scheduler_service.api.http.sessions import secret_hash
from scheduler_service.api.http.shares import SHARED, SharedView, view_of
from scheduler_service.api.pages.csrf import FormBody
from scheduler_service.api.pages.moments import moment
from scheduler_service.api.pages.shell import CHANGER, PageRoute, go, page, shareable
from scheduler_service.core.audit import Caller
from scheduler_service.core.share_links import LONGEST, SHORTEST, USUAL, ShareLink

_OPERATOR: Final = [Depends(require_operator_page)]
_HEADERS: Final = {"X-Robots-Tag": "noindex, nofollow", "Referrer-Policy": "no-referrer"}
_OF_THE_OUTER: Final = ("path_params", "route", "endpoint", "fastapi_inner_astack", "fastapi_function_astack")
_GONE: Final = "This link was revoked, is too old, or never was one. Ask for a new one, or sign in."
router = APIRouter(include_in_schema=False, route_class=PageRoute)
PageAddress = Annotated[str, Query(alias="page", max_length=2000, description="The page to share.")]


@router.get("/shared/{secret}", dependencies=[Depends(admit_all)])
def shared(request: Request, secret: str) -> Response:
    """Show the page that was shared, under the link's own address."""
    view = view_of(request, secret)
    if view is None:
        return page(request, "unshared.html", status=404, headers=_HEADERS, frame="_bare.html", message=_GONE)
    return _Shown(request, view)


@router.get("/links", dependencies=_OPERATOR)
def links(request: Request, who: Who) -> Response:
    """Show every link that lasts; to a limited caller those of its own token or rule."""
    context = _context(request)
    now = context.clock()
    rows = [_row(link, now) for link in visible_links(context, who)]
    return page(request, "links.html", links=rows)


@router.get("/links/new", dependencies=_OPERATOR)
def ask_to_share(request: Request, wanted: PageAddress = "/") -> Response:
    """Show what is to be shared, and ask for how long."""
    _context(request)
    return page(request, "share.html", wanted=address_to_share(wanted), usual=format_duration(USUAL), link=None)


@router.post("/links", dependencies=CHANGER)
def share(request: Request, form: FormBody, who: Who) -> Response:
    """Create a link and show it, once."""
    context, address = _context(request), address_to_share(form.one("page"))
    url, link = create_link(context, who, address, form.one("for") or format_duration(USUAL))
    base = (context.settings.public_url or str(request.base_url)).rstrip("/")
    until = moment(link.ends_at, context.clock())
    return page(request, "share.html", wanted=address, usual="", link=f"{base}{url}", until=until)


@router.post("/links/{link_id}/revoke", dependencies=CHANGER)
def revoke(request: Request, link_id: int, who: Who) -> Response:
    """End a link."""
    revoke_link(_context(request), who, link_id)
    return go("/links", "link-revoked")


def visible_links(context: ApiContext, who: Caller) -> list[ShareLink]:
    """Return the links that last, of which a limited caller knows those of its own token or rule."""
    lasting = context.stores.share_links.list(context.clock())
    return [link for link in lasting if who.limits.none or link.granted_by == who.granted_by]


def revoke_link(context: ApiContext, who: Caller, link_id: int) -> None:
    """End a link; NotFound if the caller knows none of this id."""
    if link_id not in {link.link_id for link in visible_links(context, who)}:
        raise NotFound(f"no link {link_id}")
    context.stores.share_links.revoke(link_id, context.clock(), by=who.audited_change("share.revoke"))


def create_link(context: ApiContext, who: Caller, address: str, wanted: str) -> tuple[str, ShareLink]:
    """Create a link; return its path with the secret, which nobody can read again."""
    lasts = parse_duration(wanted, "for")
    if not SHORTEST <= lasts <= LONGEST:
        raise BadValue("for", wanted, f"give {format_duration(SHORTEST)} to {format_duration(LONGEST)}")
    if who.granted_by is None:
        raise Problem(403, "a page is shared by a token or by somebody who is signed in")
    secret, now = secrets.token_urlsafe(32), context.clock()
    link = context.stores.share_links.create(
        address, who.granted_by, secret_hash(secret), now, now + lasts, by=who.audited_change("share.create")
    )
    return f"{SHARED}{secret}", link


class _Shown(Response):
    """Answers with the shared page: the same request, as if it had been for that page."""

    def __init__(self, request: Request, view: SharedView) -> None:
        super().__init__()
        self._router = request.app.router
        self._view = view

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        parts = urlsplit(self._view.link.address)
        outer = {name: value for name, value in scope.items() if name not in _OF_THE_OUTER}
        inner = {
            **outer, "path": unquote(parts.path), "raw_path": parts.path.encode(), "query_string": parts.query.encode(),
            "state": {"shared": self._view},
        }  # fmt: skip

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        await self._router(inner, receive, with_headers)


def _context(request: Request) -> ApiContext:
    context: ApiContext = request.app.state.context
    if not context.settings.share_links:
        raise Problem(404, "pages are not shared here: ITINERARY_SHARE_LINKS is off")
    return context


def address_to_share(wanted: str) -> str:
    """Return the address to share, without what was said once."""
    parts = urlsplit(wanted)
    if not shareable(wanted):
        raise BadValue("page", wanted, "give the path of a page of the navigation that can be shared, such as /jobs")
    query = urlencode([(name, value) for name, value in parse_qsl(parts.query) if name != "done"])
    path = quote(unquote(parts.path), safe="/:@!$&'()*+,;=-._~")
    return f"{path}?{query}" if query else path


def _row(link: ShareLink, now: int) -> dict[str, object]:
    return {
        "id": link.link_id, "address": link.address, "by": link.created_by,
        "since": moment(link.created_at, now), "until": moment(link.ends_at, now),
    }  # fmt: skip
