"""Answers to a request without a login: a browser gets the sign-in page, a tool the problem document."""

from typing import Final
from urllib.parse import quote, urlsplit

from fastapi import Request, Response
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse

from scheduler_service.api.http.problems import problem_response
from scheduler_service.api.http.shares import shared_from
from scheduler_service.flower_server.tickets import is_local_path

SIGN_IN: Final = "/sign-in"
PROVIDER: Final = "/sign-in/provider"
CALLBACK: Final = "/sign-in/callback"
BACK_CHANNEL: Final = "/sign-in/back-channel-logout"


def ask_to_sign_in(request: Request, refused: HTTPException) -> Response:
    """Lead a browser to the sign-in page and from there back to the page that it asked for."""
    place = f"{SIGN_IN}?next={quote(_page_asked(request), safe='/')}"
    if request.headers.get("hx-request"):
        answer = problem_response(refused)
        del answer.headers["www-authenticate"]  # a browser would open a window of its own for it
        if not shared_from(request):
            answer.headers["HX-Redirect"] = place
        return answer
    is_browser = "text/html" in request.headers.get("accept", "") and "authorization" not in request.headers
    return RedirectResponse(place, 303) if is_browser else problem_response(refused)


def local_path(path: str) -> str:
    """Return the path if it is one of this site and no part of signing in, else the start page."""
    return path if is_local_path(path) and not path.startswith(("/sign-", "/api/")) else "/"


def _page_asked(request: Request) -> str:
    """Return the address of the page; for a form or a refresh, that of the page which sent it."""
    if request.method == "GET" and not request.headers.get("hx-request"):
        return local_path(f"{request.url.path}?{request.url.query}".rstrip("?"))
    try:
        shown = urlsplit(request.headers.get("hx-current-url") or request.headers.get("referer") or "/")
    except ValueError:
        return "/"
    return local_path(f"{shown.path}?{shown.query}".rstrip("?"))
