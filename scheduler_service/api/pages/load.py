"""The page of the load map; the page fetches the panel itself."""

from fastapi import APIRouter, Request, Response

from scheduler_service.api.pages.shell import READER, PageRoute, page

router = APIRouter(include_in_schema=False, dependencies=READER, route_class=PageRoute)


@router.get("/load")
def load_map(request: Request) -> Response:
    """Show when the next 24 hours' runs are due."""
    return page(request, "load.html")
