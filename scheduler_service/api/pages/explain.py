"""The page "why?": finds an explanation by a job and an instant, or by a run."""

from collections.abc import Callable
from typing import Annotated, Final, TypeVar
from urllib.parse import quote

from fastapi import APIRouter, Query, Request, Response
from starlette.responses import RedirectResponse

from itinerary.protocol.errors import BadValue, NotFound
from itinerary.protocol.identity import JOB_ID
from itinerary.protocol.instants import DAY, Instant
from scheduler_service.api.context import ApiContext, Context
from scheduler_service.api.pages.instant_picture import VERDICTS, picture_of
from scheduler_service.api.pages.moments import SHAPES, Moment, RunLine, moment, read_time, run_line
from scheduler_service.api.pages.reader_zone import follow_job_of
from scheduler_service.api.pages.shell import READER, PageRoute, page
from scheduler_service.api.pages.wrong import Reader
from scheduler_service.api.routes.explain import why_at
from scheduler_service.api.routes.runs import known_run
from scheduler_service.core.explain.explanation import Explanation
from scheduler_service.ports.stores import RunFilter

_SUGGESTED: Final = 8

router = APIRouter(include_in_schema=False, dependencies=READER, route_class=PageRoute)
T = TypeVar("T")
_LABELS: Final = {"job_id": "Job", "at": "At ({zone})", "run_id": "Run"}
Asked = Annotated[str, Query(max_length=300)]


@router.get("/explain")
def explain(request: Request, context: Context, job_id: Asked = "", at: Asked = "", run_id: Asked = "") -> Response:
    """Show the decision about a job at an instant, and suggest instants; a run's own page explains it."""
    why: Explanation | None = None
    reader, now, name = Reader(_LABELS), context.clock(), job_id.strip()
    is_there = reader.tried(lambda: _run_there(context, run_id.strip())) if run_id else None
    if is_there:
        return RedirectResponse(f"/runs/{quote(run_id.strip(), safe='')}#why", 303)
    if not run_id and name:
        follow_job_of(context.stores.jobs, name)
    if not run_id and name and at:
        instant = reader.tried(lambda: read_time(at, "at"))
        if instant is not None:
            why = reader.tried(lambda: _there(lambda: why_at(context, name, instant), "job_id"))
    seen = None if why is None or why.at is None else moment(why.at, now)
    return page(
        request, "explain.html", wrong=reader.wrong(), job_id=job_id, at=at, run_id=run_id, why=why, why_at=seen,
        picture=None if why is None else picture_of(why, now), verdicts=VERDICTS,
        instants=_instants(context, name, now), troubles=_troubles(context, now) if not name else [],
    )  # fmt: skip


def _instants(context: ApiContext, job_id: str, now: Instant) -> list[RunLine]:
    if not JOB_ID.fullmatch(job_id):
        return []
    return [run_line(run, now) for run in context.stores.runs.list(RunFilter(job_id=job_id), _SUGGESTED, None).items]


def _troubles(context: ApiContext, now: Instant) -> list[tuple[str, tuple[str, str], Moment]]:
    found = context.stores.history.troubles(now - DAY, _SUGGESTED)
    return [(each.run_id, (each.state.value, SHAPES[each.state]), moment(each.finished_at, now)) for each in found]


def _there(find: Callable[[], T], field: str) -> T:
    try:
        return find()
    except NotFound as exc:
        raise BadValue(field, None, f"there is {exc}") from exc


def _run_there(context: ApiContext, run_id: str) -> bool:
    return _there(lambda: known_run(context, run_id), "run_id") is not None
