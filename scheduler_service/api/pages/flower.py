"""The link from the dashboard into Flower: a ticket with the name and role of the caller's token.

Promises: the password is in no page and no address; a ticket lasts a minute and is valid once; it carries the role.
"""

from typing import Annotated
from urllib.parse import quote, urlsplit

from fastapi import APIRouter, Query, Request, Response
from starlette.responses import RedirectResponse

from scheduler_service.api.context import Context
from scheduler_service.api.http.auth import Who
from scheduler_service.api.http.problems import Problem
from scheduler_service.api.pages.shell import READER, PageRoute
from scheduler_service.api.services.limited import out_of_scope
from scheduler_service.config.settings import Settings
from scheduler_service.flower_server.tickets import LOGIN_PATH, is_local_path, new_ticket, sealed

router = APIRouter(include_in_schema=False, dependencies=READER, route_class=PageRoute)


@router.get("/flower")
def open_flower(
    request: Request, context: Context, who: Who, to: Annotated[str, Query(description="A page of Flower.")] = "/"
) -> Response:
    """Redirect to a page of Flower with a ticket; if this API has no password, the browser asks for it there."""
    if not who.limits.none:
        raise out_of_scope("Flower, which shows every task,")
    if not is_local_path(to):
        raise Problem(422, "`to` must be a path of Flower, such as /tasks")
    if not who.limits.none:
        raise Problem(403, "Flower shows and does everything: a token that is limited does not open it")
    address = flower_url(context.settings, str(request.url))
    password = context.settings.flower_password
    if not password:
        return RedirectResponse(f"{address}{to}", 303)
    session = getattr(request.state, "session", None)
    until = None if session is None else session.ends_at
    ticket = sealed(new_ticket(who.name, who.role, to, context.clock(), "ticket", until=until), password, "ticket")
    return RedirectResponse(f"{address}{LOGIN_PATH}?ticket={quote(ticket)}", 303)


def flower_url(settings: Settings, own_url: str) -> str:
    """Return Flower's address by its setting, else its port on the host that the browser used for `own_url`."""
    if settings.flower_url:
        return settings.flower_url.rstrip("/")
    host = urlsplit(own_url).hostname or "127.0.0.1"
    return f"http://{f'[{host}]' if ':' in host else host}:{settings.flower_port}"
