"""Who asks by a link that shares a page: the page itself, or a part that the shared page loads.

Promises: a link gives a viewer's rights, by GET, for its page and the parts of it alone. It ends with its time, when it
is revoked, and with the token or rule behind it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl, urlsplit

from fastapi import Request

from scheduler_service.api.context import ApiContext
from scheduler_service.api.http.grants import Grant
from scheduler_service.api.http.sessions import secret_hash
from scheduler_service.core.audit import Caller
from scheduler_service.core.share_links import ShareLink

SHARED: Final = "/shared/"
_PARTS: Final[Mapping[str, Mapping[str, Mapping[str, str]]]] = {
    "/": {"/parts/distribution": {}, "/parts/trends": {"window": "6h"}}
}
"""The parts that a page loads by addresses of their own, by its path: what the page's query chooses, with defaults."""
_OF_READER: Final = "tz"


@dataclass(frozen=True, slots=True)
class SharedView:
    """The rights of a request by a link: the link's own path, and the caller that it stands for."""

    path: str
    link: ShareLink
    caller: Caller


def view_of(request: Request, secret: str) -> SharedView | None:
    """Return what a link with this secret gives; None if it gives nothing, or no longer."""
    context: ApiContext = request.app.state.context
    if not context.settings.share_links:
        return None
    link = context.stores.share_links.find(secret_hash(secret), context.clock())
    grant: Grant | None = None if link is None else request.app.state.grants.get(link.granted_by)
    if link is None or grant is None:
        return None
    return SharedView(f"{SHARED}{secret}", link, Caller(f"link {link.link_id}", "viewer", grant.limits))


def shared_view(request: Request) -> SharedView | None:
    """Return the view of a shared page's own request, or of a part that one loads."""
    given: SharedView | None = getattr(request.state, "shared", None)
    if given is not None:
        return given
    secret = shared_from(request)
    view = view_of(request, secret) if secret and request.method == "GET" else None
    return view if view is not None and _is_part(request, view.link.address) else None


def _is_part(request: Request, page: str) -> bool:
    """Whether the page loads just that: nothing is chosen that it does not show."""
    address = urlsplit(page)
    usual = _PARTS.get(address.path, {}).get(request.url.path)
    if usual is None:
        return False
    shown = dict(usual) | {name: value for name, value in parse_qsl(address.query) if name in usual}
    asked = [(name, value) for name, value in request.query_params.multi_items() if name != _OF_READER]
    return all(shown.get(name) == value for name, value in asked)


def shared_from(request: Request) -> str:
    """Return the secret of the shared page whose script asks; empty if none does."""
    if not request.headers.get("hx-request"):
        return ""
    try:
        path = urlsplit(request.headers.get("hx-current-url", "")).path
    except ValueError:
        return ""
    return path.removeprefix(SHARED) if path.startswith(SHARED) else ""
