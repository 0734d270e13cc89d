"""The dashboard: its pages, the API's documentation at `/docs`, and their static files. Only puts them together."""

from fastapi import APIRouter, Depends, FastAPI, Request, Response
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import HTMLResponse, JSONResponse

from itinerary.protocol.errors import BadValue
from scheduler_service.api.http.auth import identify_reader, require_page
from scheduler_service.api.http.problems import Problem, problem_of, problem_response
from scheduler_service.api.pages import (
    audit,
    backfill,
    bulk,
    calendars,
    explain,
    exporting,
    failure_runs,
    failures,
    flower,
    freezes,
    identity,
    job,
    job_form,
    jobs,
    limits,
    load,
    logs,
    manual,
    monitors,
    names,
    outages,
    overview,
    palette,
    plan,
    preferences,
    queue,
    queues,
    run,
    run_again,
    runs,
    saved_views,
    shared,
    sign_in,
    signed_in,
    timeline,
    trends,
    workers,
)
from scheduler_service.api.pages.assets import FOLDER, Assets
from scheduler_service.api.pages.reader_zone import begin
from scheduler_service.api.pages.shell import PageRoute, theme_of, trouble
from scheduler_service.api.pages.strangers import ask_to_sign_in
from scheduler_service.api.pages.templating import DOCS_HEADERS, templates
from scheduler_service.version import VERSION

router = APIRouter(include_in_schema=False, route_class=PageRoute)
for _part in (
    overview,
    jobs,
    job,
    backfill,
    bulk,
    job_form,
    runs,
    run,
    logs,
    timeline,
    run_again,
    plan,
    exporting,
    failures,
    failure_runs,
    outages,
    workers,
    queue,
    queues,
    freezes,
    limits,
    monitors,
    calendars,
    load,
    trends,
    explain,
    audit,
    flower,
    manual,
    sign_in,
    signed_in,
    preferences,
    identity,
    palette,
    names,
    saved_views,
    shared,
):
    router.include_router(_part.router)


@router.get("/docs", dependencies=[Depends(require_page)])
def documentation(request: Request) -> Response:
    """Serve the API's interactive documentation."""
    shown = templates.get_template("docs.html").render(version=VERSION, theme=theme_of(request))
    return HTMLResponse(shown, headers=DOCS_HEADERS)


@router.get("/openapi.json", dependencies=[Depends(require_page)])
def document(request: Request) -> Response:
    """Serve the OpenAPI document."""
    return JSONResponse(request.app.openapi())


def install(app: FastAPI) -> None:
    """Serve the static files, the same for everyone; an unknown address is answered with a page in a browser."""
    # Compressed: scripts and style sheets hold no secret that their size could tell, as pages do.
    app.mount("/static", GZipMiddleware(Assets(directory=FOLDER)), name="static")
    app.add_exception_handler(404, _nowhere)


def _nowhere(request: Request, exc: Exception) -> Response:
    """Answer an unknown address: a page for a browser, a problem document for a program."""
    assert isinstance(exc, HTTPException)
    if request.url.path.startswith("/api/") or "text/html" not in request.headers.get("accept", ""):
        return problem_response(exc)
    try:
        begin(request)
        identify_reader(request)
    except BadValue as refused:
        return trouble(request, problem_of(refused))
    except Problem as refused:
        return ask_to_sign_in(request, refused)
    return trouble(request, Problem(404, f"there is no page {request.url.path}"))
