"""The load map on a page of its own; the panel itself is fetched by the page."""

from fastapi import APIRouter, Request, Response

from scheduler_service.api.pages.shell import READER, PageRoute, page

router = APIRouter(include_in_schema=False, dependencies=READER, route_class=PageRoute)


@router.get("/load")
def load_map(request: Request) -> Response:
    """When the coming day's runs fall due."""
    return page(request, "load.html")
