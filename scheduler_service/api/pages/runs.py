"""The list of runs, newest first: filtered by deep links, paged by key."""

from typing import Annotated, Final
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request, Response

from scheduler_service.api.context import Context
from scheduler_service.api.pages.job import read_time
from scheduler_service.api.pages.moments import SHAPES, run_line
from scheduler_service.api.pages.shell import READER, PageRoute, page
from scheduler_service.api.routes_jobs import Cursor
from scheduler_service.core.errors import BadValue
from scheduler_service.core.fields import read_text
from scheduler_service.core.run_state import RunState
from scheduler_service.ports.stores import RunFilter

_RUNS: Final = 50

router = APIRouter(include_in_schema=False, dependencies=READER, route_class=PageRoute)


@router.get("/runs")
def list_runs(
    request: Request,
    context: Context,
    job_id: Annotated[str, Query(max_length=128)] = "",
    state: Annotated[list[str] | None, Query()] = None,
    queue: Annotated[str, Query(max_length=128)] = "",
    since: Annotated[str, Query(max_length=40)] = "",
    until: Annotated[str, Query(max_length=40)] = "",
    cursor: Cursor = None,
) -> Response:
    """Runs by their scheduled time."""
    for name, text in (("job_id", job_id), ("queue", queue), ("cursor", cursor or "")):
        read_text(text, name)
    states = tuple(_state(name) for name in state or () if name)
    wanted = RunFilter(
        job_id or None, states, queue or None,
        read_time(since, "since") if since else None, read_time(until, "until") if until else None,
    )  # fmt: skip
    found = context.stores.runs.list(wanted, _RUNS, cursor)
    pairs = (
        ("job_id", job_id),
        *(("state", s.value) for s in states),
        ("queue", queue),
        ("since", since),
        ("until", until),
    )
    asked = [(name, value) for name, value in pairs if value]
    now = context.clock()
    return page(
        request, "runs.html", runs=[run_line(run, now) for run in found.items], job_id=job_id, queue=queue,
        since=since, until=until, states=[(s.value, SHAPES[s], s in states) for s in RunState],
        filtered=bool(asked), first=urlencode(asked) if cursor else None,
        following=urlencode([*asked, ("cursor", found.next_cursor)]) if found.next_cursor else None,
    )  # fmt: skip


def _state(name: str) -> RunState:
    try:
        return RunState(name)
    except ValueError:
        raise BadValue("state", name, f"known are {', '.join(state.value for state in RunState)}") from None
