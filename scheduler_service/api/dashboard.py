"""The pages: the overview at `/`, the API's documentation at `/docs`. Everything they load is in this package.

Only shows; nothing here changes anything.
"""

from fastapi import APIRouter, Depends, FastAPI, Request, Response
from starlette.responses import HTMLResponse, JSONResponse
from starlette.staticfiles import StaticFiles

from scheduler_service.api.auth import require_page
from scheduler_service.api.context import Context
from scheduler_service.api.templating import DOCS_HEADERS, HERE, part, templates
from scheduler_service.api.views import flower_url, overview
from scheduler_service.version import VERSION

router = APIRouter(include_in_schema=False, dependencies=[Depends(require_page)])


@router.get("/")
def first_page(request: Request, context: Context) -> Response:
    """Who leads, what runs, what comes next."""
    return _page(request, context, "overview.html")


@router.get("/parts/overview")
def overview_part(request: Request, context: Context) -> Response:
    """The part of the first page that is fetched again every few seconds."""
    return _page(request, context, "_overview.html")


@router.get("/docs")
def documentation() -> Response:
    """The API to read and to try out."""
    return HTMLResponse(templates.get_template("docs.html").render(version=VERSION), headers=DOCS_HEADERS)


@router.get("/openapi.json")
def document(request: Request) -> Response:
    """The OpenAPI document."""
    return JSONResponse(request.app.openapi())


def install_assets(app: FastAPI) -> None:
    """Serve the files beside this module; they are the same for everybody."""
    app.mount("/static", StaticFiles(directory=HERE / "static"), name="static")


def _page(request: Request, context: Context, template: str) -> Response:
    seen = overview(context)
    return part(template, seen=seen, flower=flower_url(context, str(request.url)), version=VERSION)
