"""Every route of an API, however it was put together, with an address that it answers at."""

from collections.abc import Iterator

from fastapi import FastAPI
from fastapi.routing import APIRoute, iter_route_contexts

NAMES = {
    "session_id": "17",
    "job_id": "a.job",
    "run_id": "a.job_2026-12-01T01:00:00Z",
    "queue": "mails",
    "name": "api",
    "calendar_id": "de",
    "monitor_id": "backup",
    "view": "failures",
    "operation_id": "01a222dd-ef98-74a3-a8cc-5dd25b5fc61c",
}


def routes_of(app: FastAPI) -> Iterator[tuple[str, str, APIRoute]]:
    """Method, path and route of everything but static files; one of its methods is enough of each."""
    for context in iter_route_contexts(app.routes):
        route = context.original_route
        if isinstance(route, APIRoute):
            yield sorted(route.methods)[0], str(context.path), route


def address_of(path: str) -> str:
    """The path with names in it that something could have."""
    for name, value in NAMES.items():
        path = path.replace(f"{{{name}}}", value)
    return path
