"""The pages: the overview at `/`, the API's documentation at `/docs`. Everything they load is in this package.

Promises: no script or style from elsewhere, none inside the page (strict Content-Security-Policy), and no text of a
user that is not escaped. Only shows; nothing here changes anything.
"""

from pathlib import Path
from typing import Final

from fastapi import APIRouter, Depends, FastAPI, Request, Response
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.responses import HTMLResponse, JSONResponse
from starlette.staticfiles import StaticFiles

from scheduler_service.api.auth import require_page
from scheduler_service.api.context import Context
from scheduler_service.api.views import flower_url, overview
from scheduler_service.version import VERSION

router = APIRouter(include_in_schema=False, dependencies=[Depends(require_page)])

_HERE: Final = Path(__file__).parent
_ONLY_OURS: Final = (
    "default-src 'none'; script-src 'self'; connect-src 'self'; img-src 'self' data:; style-src 'self'{}; "
    "font-src 'self' data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_PAGE_HEADERS: Final = {"Content-Security-Policy": _ONLY_OURS.format("")}
# Swagger UI sets style attributes; its page shows the API's own document only.
_DOCS_HEADERS: Final = {"Content-Security-Policy": _ONLY_OURS.format(" 'unsafe-inline'")}
_templates = Environment(
    loader=FileSystemLoader(_HERE / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


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
    return HTMLResponse(_templates.get_template("docs.html").render(version=VERSION), headers=_DOCS_HEADERS)


@router.get("/openapi.json")
def document(request: Request) -> Response:
    """The OpenAPI document."""
    return JSONResponse(request.app.openapi())


def install_assets(app: FastAPI) -> None:
    """Serve the files beside this module; they are the same for everybody."""
    app.mount("/static", StaticFiles(directory=_HERE / "static"), name="static")


def _page(request: Request, context: Context, template: str) -> Response:
    seen = overview(context)
    text = _templates.get_template(template).render(
        seen=seen, flower=flower_url(context, str(request.url)), version=VERSION
    )
    return HTMLResponse(text, 200, _PAGE_HEADERS)
