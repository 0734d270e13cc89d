"""The dashboard: its pages, the API's documentation at `/docs`, and the files that they load. Puts together only."""

from fastapi import APIRouter, Depends, FastAPI, Request, Response
from starlette.responses import HTMLResponse, JSONResponse
from starlette.staticfiles import StaticFiles

from scheduler_service.api.auth import require_page
from scheduler_service.api.pages import (
    audit,
    explain,
    failures,
    job,
    job_form,
    jobs,
    load,
    overview,
    run,
    runs,
    workers,
)
from scheduler_service.api.templating import DOCS_HEADERS, HERE, templates
from scheduler_service.version import VERSION

router = APIRouter(include_in_schema=False)
for _part in (overview, jobs, job, job_form, runs, run, failures, workers, load, explain, audit):
    router.include_router(_part.router)


@router.get("/docs", dependencies=[Depends(require_page)])
def documentation() -> Response:
    """The API to read and to try out."""
    return HTMLResponse(templates.get_template("docs.html").render(version=VERSION), headers=DOCS_HEADERS)


@router.get("/openapi.json", dependencies=[Depends(require_page)])
def document(request: Request) -> Response:
    """The OpenAPI document."""
    return JSONResponse(request.app.openapi())


def install_assets(app: FastAPI) -> None:
    """Serve the files beside this module; they are the same for everybody."""
    app.mount("/static", StaticFiles(directory=HERE / "static"), name="static")
