"""The frame of every page: navigation, the caller, the CSRF token, the last action's result, errors as a page.

Promises: one address serves a whole page to a browser and only its changing part to the script that refreshes it. An
error page says what to do.
"""

from collections.abc import Callable, Coroutine
from typing import Any, Final
from urllib.parse import unquote

from fastapi import Depends, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse

from itinerary.protocol.errors import ItineraryError
from scheduler_service.api.context import ApiContext
from scheduler_service.api.http.auth import may, require_operator_page, require_page
from scheduler_service.api.http.problems import Problem, messages_of, problem_of
from scheduler_service.api.http.sessions import is_https
from scheduler_service.api.http.shares import shared_view
from scheduler_service.api.pages.csrf import COOKIE, csrf_of, fresh_seed, require_csrf
from scheduler_service.api.pages.moments import moment
from scheduler_service.api.pages.reader_zone import PARAMETER, begin, reader_zone, without_zone
from scheduler_service.api.pages.strangers import ask_to_sign_in
from scheduler_service.api.pages.templating import part
from scheduler_service.api.pages.wrong import NOTHING_WRONG, Wrong
from scheduler_service.api.services.saved_views import has_own, has_views, kept_address, views_of
from scheduler_service.core.audit import Caller
from scheduler_service.core.saved_views import SavedView
from scheduler_service.flower_server.tickets import is_local_path
from scheduler_service.version import VERSION

READER: Final = [Depends(require_page)]
CHANGER: Final = [Depends(require_operator_page), Depends(require_csrf)]
NAVIGATION: Final = (
    ("Now", (("/", "Overview"), ("/failures", "Failures"), ("/workers", "Workers"), ("/queues", "Queues"))),
    (
        "Work",
        (("/jobs", "Jobs"), ("/runs", "Runs"), ("/timeline", "Timeline"), ("/calendar", "Calendar"), ("/load", "Load")),
    ),
    ("Control", (("/limits", "Limits"), ("/freezes", "Freezes"), ("/calendars", "Calendars"))),
    (
        "Records",
        (
            ("/bulk", "Bulk"),
            ("/views", "Saved views"),
            ("/explain", "Explain"),
            ("/monitors", "Monitors"),
            ("/audit", "Audit"),
        ),
    ),
    ("Help", (("/manual", "Manual"), ("/docs", "API"), ("/flower", "Flower"))),
)
"""The groups of the navigation; a page adds a line to its group."""
_NEVER_SHARED: Final = ("/audit", "/manual", "/docs", "/flower", "/views")
_SHARED_FIRST: Final = {path for _, pages in NAVIGATION for path, _ in pages if path not in _NEVER_SHARED}
THEME: Final = "itinerary_theme"
THEMES: Final = ("light", "dark")
_DONE: Final = {
    "made": "The job is saved.",
    "unchanged": "Nothing was changed: the job was like this already.",
    "paused": "Paused.",
    "queue-paused": "Paused: nothing of the queue is dispatched. What no worker has started is recalled.",
    "queue-resumed": "Resumed: what waited is dispatched.",
    "queue-saved": "Saved: the queue is dispatched by these bounds from now on.",
    "freeze-started": "Nothing of it is dispatched while it holds. What no worker has started is recalled.",
    "freeze-ended": "Ended: what waited is dispatched, unless something else holds it.",
    "limit-saved": "Saved: no run is dispatched by the older bounds any more.",
    "monitor-saved": "Saved: its next ping is expected from now on.",
    "monitor-deleted": "Deleted: its token is worth nothing any more.",
    "limit-deleted": "Deleted: runs that name it wait for it no longer.",
    "calendar-saved": "Saved: jobs that use it follow 30 seconds later.",
    "calendar-deleted": "Deleted. Its versions stay as history.",
    "view-saved": "Saved as a view.",
    "view-deleted": "Deleted.",
    "bulk-begun": "Begun.",
    "bulk-stopped": "Stopped: what it did stays.",
    "skipped": "The next run is skipped; the one after it runs as planned.",
    "resumed": "The job is resumed from now on.",
    "deleted": "Deleted. Its history stays.",
    "triggered": "This run was requested just now.",
    "backfilled": "The runs are created and dispatched now, each with its own time.",
    "none-backfilled": "There was nothing left to run.",
    "retried": "This run is the earlier one again.",
    "again": "This run is the earlier one again, with your changes.",
    "cancelled": "Cancellation is requested.",
    "all-retried": "Run again: {}. Left in the group, not run again from here: {}.",
    "all-backfilled": "Runs created: {}, of so many jobs: {}. They are dispatched now, each with its own time.",
    "signed-out": "You are signed out.",
    "session-ended": "Ended: that browser signs in again.",
    "sessions-ended": "Ended: they sign in again in every browser.",
    "link-revoked": "Revoked: the link shows nothing any more.",
    "none-retried": "There was nothing left to run again.",
}


class PageRoute(APIRoute):
    """A route whose errors are pages; a missing login leads to the sign-in page."""

    parameters_of_all = ("done", PARAMETER)
    """Query parameters that the frame reads, so known to every page."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Wrap FastAPI's own handler to catch its errors."""
        handler = super().get_route_handler()

        async def handled(request: Request) -> Response:
            try:
                begin(request)
                absolute = None if request.headers.get("hx-request") else without_zone(request)
                return await handler(request) if absolute is None else RedirectResponse(absolute, 303)
            except ItineraryError as exc:
                return trouble(request, problem_of(exc))
            except RequestValidationError as exc:
                return trouble(request, Problem(422, "; ".join(map(messages_of, exc.errors()))))
            except HTTPException as exc:
                return ask_to_sign_in(request, exc) if exc.status_code == 401 else trouble(request, exc)

        return handled


def trouble(request: Request, problem: HTTPException) -> Response:
    """Show an error that no page of its own can show; for a missing object it names what was requested."""
    code, headers = problem.status_code, dict(problem.headers or {})
    message = "; ".join(error["msg"] for error in getattr(problem, "errors", ())) or str(problem.detail)
    is_name = code == 404 and message.startswith("no ")
    title = f"There is {message}" if is_name else "There is no such page" if code == 404 else "That did not work"
    kept = "It may have been deleted or pruned; check the spelling of its name."
    lists = [("/", "overview"), ("/jobs", "jobs"), ("/runs", "runs")]
    shown = kept if is_name else message
    return page(request, "trouble.html", status=code, headers=headers, title=title, message=shown, lists=lists)


def page(
    request: Request,
    template: str,
    *,
    status: int = 200,
    headers: dict[str, str] | None = None,
    wrong: Wrong = NOTHING_WRONG,
    **values: Any,
) -> Response:
    """Render a whole page, or its changing part if the script asks; `wrong`: typed values were refused."""
    context: ApiContext = request.app.state.context
    caller = getattr(request.state, "caller", None)
    seed = request.cookies.get(COOKIE) or fresh_seed()
    view, address = shared_view(request), address_of(request)
    may_operate = caller is not None and may(caller, "operator")
    whole = "_page.html" if view is None else "_shared.html"
    shown = {
        "frame": "_part.html" if request.headers.get("hx-request") else whole,
        "address": address,
        "shared_until": None if view is None else moment(view.link.ends_at, context.clock()),
        "shares": may_operate and context.settings.share_links,
        "shareable": shareable(address),
        "path": request.url.path,
        "navigation": NAVIGATION,
        "csrf": csrf_of(request, seed),
        "may_operate": may_operate,
        "may_delete": caller is not None and may(caller, "admin"),
        "caller": caller,
        "views_here": None if request.headers.get("hx-request") or view else _views_here(context, caller, request),
        "view_here": kept_address(request.url.path, request.url.query),
        "may_save_view": may_operate or (caller is not None and has_own(caller)),
        "signed_in": getattr(request.state, "session", None),
        "done": done_text(request.query_params.get("done", "")),
        "version": VERSION,
        "now": moment(context.clock(), context.clock()),
        "reader_zone": reader_zone(),
        "theme": theme_of(request),
    }
    own = {} if view is None else {"address": view.path}
    answer = part(template, **{**shown, "wrong": wrong, **values, **own})
    answer.status_code = status if wrong is NOTHING_WRONG else wrong.status
    answer.headers.update(headers or {})
    if COOKIE not in request.cookies:
        answer.set_cookie(COOKIE, seed, httponly=True, samesite="strict", secure=is_https(request), path="/")
    return answer


def _views_here(context: ApiContext, caller: Caller | None, request: Request) -> list[SavedView] | None:
    """Return the saved views of this list; None where none can be saved."""
    path = request.url.path
    if caller is None or not caller.limits.none or not has_views(path):
        return None
    return [view for view in views_of(context, caller) if view.address.partition("?")[0] == path]


def theme_of(request: Request) -> str:
    """Return the theme that the reader chose; empty to follow the system."""
    chosen = request.cookies.get(THEME, "")
    return chosen if chosen in THEMES else ""


def address_of(request: Request) -> str:
    """Return the path and the query of the request."""
    return request.url.path + (f"?{request.url.query}" if request.url.query else "")


def shareable(address: str) -> bool:
    """Whether the page at this path and query is one that a link may show."""
    path = unquote(address.partition("?")[0])
    first, below = path.split("/")[1:2], path.split("/")[2:]
    return is_local_path(address) and f"/{first[0]}" in _SHARED_FIRST and not {".", ".."} & set(below)


def go(path: str, done: str, *figures: int) -> Response:
    """Redirect to the page that shows the result; by GET, so that a reload does not repeat the action."""
    message = ".".join([done, *map(str, figures)])
    return RedirectResponse(f"{path}{'&' if '?' in path else '?'}done={message}", 303)


def done_text(message: str) -> str | None:
    """Return the sentence for a result; figures follow its name, each after a dot. None for an unknown name."""
    name, *figures = message[:60].split(".")
    sentence = _DONE.get(name)
    if sentence is None or sentence.count("{}") != len(figures) or not all(n.isdecimal() for n in figures):
        return None
    return sentence.format(*(f"{int(n):,}" for n in figures))
