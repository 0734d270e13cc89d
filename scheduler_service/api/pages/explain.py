"""Why: an entry to the explanations, by a job and an instant or by a run."""

from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Query, Request, Response
from starlette.responses import RedirectResponse

from scheduler_service.api.context import Context
from scheduler_service.api.pages.job import read_time
from scheduler_service.api.pages.shell import READER, PageRoute, page
from scheduler_service.api.routes_explain import why_at
from scheduler_service.api.routes_runs import known_run
from scheduler_service.core.errors import BadValue, NotFound
from scheduler_service.core.explanation import Explanation

router = APIRouter(include_in_schema=False, dependencies=READER, route_class=PageRoute)
Asked = Annotated[str, Query(max_length=300)]


@router.get("/explain")
def explain(request: Request, context: Context, job_id: Asked = "", at: Asked = "", run_id: Asked = "") -> Response:
    """What was decided for a job at an instant; for a run, its own page, which says why."""
    why: Explanation | None = None
    complaint = None
    try:
        if run_id:
            known_run(context, run_id.strip())
            return RedirectResponse(f"/runs/{quote(run_id.strip(), safe='')}#why", 303)
        if job_id and at:
            why = why_at(context, job_id.strip(), read_time(at, "at"))
    except (BadValue, NotFound) as exc:
        complaint = str(exc)
    return page(request, "explain.html", job_id=job_id, at=at, run_id=run_id, why=why, complaint=complaint)
