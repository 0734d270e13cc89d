"""The page of the load map: the coming day, which the page fetches itself, and a week hour by hour."""

from fastapi import APIRouter, Request, Response

from scheduler_service.api.context import Context
from scheduler_service.api.http.auth import Who
from scheduler_service.api.pages.plan import coming_week, past_week
from scheduler_service.api.pages.shell import READER, PageRoute, page

router = APIRouter(include_in_schema=False, dependencies=READER, route_class=PageRoute)


@router.get("/load")
def load_map(request: Request, context: Context, who: Who) -> Response:
    """Show when the next 24 hours' runs are due, and the heat of the coming and of the past week."""
    coming, past = coming_week(context, who), past_week(context, who)
    return page(request, "load.html", coming=coming, past=past)
