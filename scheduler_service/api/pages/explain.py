"""The page "why?": finds an explanation by a job and an instant, or by a run."""

from collections.abc import Callable
from typing import Annotated, Final, TypeVar
from urllib.parse import quote

from fastapi import APIRouter, Query, Request, Response
from starlette.responses import RedirectResponse

from itinerary.protocol.errors import BadValue, NotFound
from scheduler_service.api.context import ApiContext, Context
from scheduler_service.api.pages.moments import read_time
from scheduler_service.api.pages.shell import READER, PageRoute, page
from scheduler_service.api.pages.wrong import Reader
from scheduler_service.api.routes.explain import why_at
from scheduler_service.api.routes.runs import known_run
from scheduler_service.core.explain.explanation import Explanation

router = APIRouter(include_in_schema=False, dependencies=READER, route_class=PageRoute)
T = TypeVar("T")
_LABELS: Final = {"job_id": "Job", "at": "At ({zone})", "run_id": "Run"}
Asked = Annotated[str, Query(max_length=300)]


@router.get("/explain")
def explain(request: Request, context: Context, job_id: Asked = "", at: Asked = "", run_id: Asked = "") -> Response:
    """Show the decision about a job at an instant; a run's own page explains it."""
    why: Explanation | None = None
    reader = Reader(_LABELS)
    is_there = reader.tried(lambda: _run_there(context, run_id.strip())) if run_id else None
    if is_there:
        return RedirectResponse(f"/runs/{quote(run_id.strip(), safe='')}#why", 303)
    if not run_id and job_id and at:
        instant = reader.tried(lambda: read_time(at, "at"))
        if instant is not None:
            why = reader.tried(lambda: _there(lambda: why_at(context, job_id.strip(), instant), "job_id"))
    return page(request, "explain.html", wrong=reader.wrong(), job_id=job_id, at=at, run_id=run_id, why=why)


def _there(find: Callable[[], T], field: str) -> T:
    try:
        return find()
    except NotFound as exc:
        raise BadValue(field, None, f"there is {exc}") from exc


def _run_there(context: ApiContext, run_id: str) -> bool:
    return _there(lambda: known_run(context, run_id), "run_id") is not None
