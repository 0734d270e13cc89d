"""The page of saved views, the line of views above a list, and saving and deleting them by forms."""

from collections.abc import Sequence
from typing import Annotated, Final

from fastapi import APIRouter, Depends, Query, Request, Response

from itinerary.protocol.errors import BadValue, Conflict
from scheduler_service.api.context import ApiContext, Context
from scheduler_service.api.http.auth import Who, may
from scheduler_service.api.pages.csrf import FormBody, require_csrf
from scheduler_service.api.pages.moments import moment
from scheduler_service.api.pages.shell import READER, PageRoute, go, page
from scheduler_service.api.pages.wrong import NOTHING_WRONG, Wrong, wrong_of
from scheduler_service.api.services.saved_views import delete_view, has_own, save_view, views_of
from scheduler_service.core.audit import Caller

_LABELS: Final = {"name": "Name", "address": "Address"}
_SAVER: Final = [Depends(require_csrf)]

router = APIRouter(include_in_schema=False, dependencies=READER, route_class=PageRoute)
Address = Annotated[str, Query(max_length=3000, description="The address to save.")]


@router.get("/views")
def list_views(request: Request, context: Context, who: Who, address: Address = "") -> Response:
    """List the views, and offer to save an address."""
    return _page(request, context, who, address=address)


@router.post("/views", dependencies=_SAVER)
def save(request: Request, context: Context, who: Who, form: FormBody) -> Response:
    """Save an address under a name, and lead there."""
    name, address = form.one("name"), form.one("address")
    personal = form.one("for") == "me"
    try:
        found = save_view(context, who, name, address, personal=personal)
    except (BadValue, Conflict) as exc:
        return _page(request, context, who, wrong_of(exc, _LABELS), name=name, address=address, personal=personal)
    return go(found.address, "view-saved")


@router.post("/views/delete", dependencies=_SAVER)
def delete(context: Context, who: Who, form: FormBody) -> Response:
    """Delete a view."""
    delete_view(context, who, form.one("name"), personal=form.one("for") == "me")
    return go("/views", "view-deleted")


def _page(
    request: Request, context: ApiContext, who: Caller, wrong: Wrong = NOTHING_WRONG, *, name: str = "",
    address: str = "", personal: bool = False,
) -> Response:  # fmt: skip
    now = context.clock()
    lines: Sequence[object] = [(view, moment(view.updated_at, now)) for view in views_of(context, who)]
    return page(
        request, "views.html", wrong=wrong, views=lines, name=name, wanted=address, personal=personal,
        own=has_own(who), for_all=may(who, "operator"),
    )  # fmt: skip
