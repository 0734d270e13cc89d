"""Preferences of a reader for every page: the zone of the times and the theme. Cookies keep them, not the server."""

from typing import Final
from urllib.parse import parse_qsl, urlencode, urlsplit

from fastapi import APIRouter, Depends, Request, Response
from starlette.responses import RedirectResponse

from itinerary.protocol.errors import BadValue
from scheduler_service.api.http.sessions import is_https
from scheduler_service.api.pages.csrf import FormBody, require_csrf
from scheduler_service.api.pages.reader_zone import CHOICES, CHOSEN, PARAMETER
from scheduler_service.api.pages.shell import READER, THEME, THEMES, PageRoute
from scheduler_service.flower_server.tickets import is_local_path

_YEAR: Final = 365 * 24 * 3600
_COOKIES: Final = {PARAMETER: (CHOSEN, CHOICES), "theme": (THEME, ("auto", *THEMES))}

router = APIRouter(include_in_schema=False, dependencies=READER, route_class=PageRoute)


@router.post("/preferences", dependencies=[Depends(require_csrf)])
def prefer(request: Request, form: FormBody) -> Response:
    """Keep the choice that the form names, and go back to the page."""
    answer = RedirectResponse(_back(form.one("back")), 303)
    for field, (cookie, allowed) in _COOKIES.items():
        chosen = form.one(field)
        if chosen and chosen not in allowed:
            raise BadValue(field, chosen, f"choose one of {', '.join(allowed)}")
        if chosen:
            answer.set_cookie(cookie, chosen, _YEAR, httponly=True, samesite="lax", secure=is_https(request), path="/")
    return answer


def _back(address: str) -> str:
    """Return the address of the page without a zone of its own; the overview for one that is not ours."""
    if not is_local_path(address):
        return "/"
    parts = urlsplit(address)
    query = [(name, text) for name, text in parse_qsl(parts.query) if name not in (PARAMETER, "done")]
    return parts.path + (f"?{urlencode(query)}" if query else "")
