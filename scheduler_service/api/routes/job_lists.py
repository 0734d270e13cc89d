"""Lists of jobs over HTTP: filtered, sorted, paged. Changes nothing."""

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Response
from starlette.responses import JSONResponse

from itinerary.protocol.instants import format_instant
from scheduler_service.api.context import ApiContext, Context
from scheduler_service.api.http.auth import require
from scheduler_service.api.openapi import answers as shapes
from scheduler_service.api.openapi.documents import answers
from scheduler_service.api.openapi.parameters import order_of, text
from scheduler_service.api.routes.jobs import Counted, Cursor, Limit
from scheduler_service.api.services.list_orders import read_order
from scheduler_service.api.services.previews import next_runs
from scheduler_service.core.contract.fields import read_text
from scheduler_service.core.contract.job_json import optional_instant, shown_body
from scheduler_service.core.model import Job
from scheduler_service.core.run_state import RunState
from scheduler_service.ports.history import Outcome, Total
from scheduler_service.ports.lists import BY_ID, JobFilter, JobSort

router = APIRouter(prefix="/api/v1", tags=["jobs"], dependencies=[Depends(require("viewer"))])


def read_filter(
    tag: Annotated[str | None, text(100, "Jobs with this tag only.")] = None,
    q: Annotated[str | None, text(200, "Found in id, title or task.")] = None,
    paused: Annotated[bool | None, Query(description="Only paused, or only active ones.")] = None,
    source: Annotated[str | None, text(128, "Only what this file owns.")] = None,
    queue: Annotated[str | None, text(128, "Only jobs of this queue.")] = None,
    task: Annotated[str | None, text(255, "Only jobs of this task.")] = None,
    last_state: Annotated[
        list[RunState] | None, Query(description="Of the newest run that was due; may be repeated.")
    ] = None,
) -> JobFilter:
    """Read the filters of a list of jobs; BadValue."""
    for name, value in {"tag": tag, "q": q, "source": source, "queue": queue, "task": task}.items():
        if value is not None:
            read_text(value, name)
    return JobFilter(tag, q, paused, source, queue=queue, task=task, last_states=tuple(last_state or ()))


Filtered = Annotated[JobFilter, Depends(read_filter)]


@router.get("/jobs", responses=answers({200: shapes.JobPage}, 422))
def list_jobs(
    context: Context,
    wanted: Filtered,
    sort: Annotated[str | None, order_of(JobSort, "By this value; with `-` before it the reverse.")] = None,
    limit: Limit = 100,
    cursor: Cursor = None,
    total: Counted = False,
    with_runs: Annotated[bool, Query(description="Each job with its next and its last run.")] = False,
) -> Response:
    """List jobs by id, or sorted by `sort`.

    By `last_run` and `last_state` up to 10,000 matching jobs are sorted, by `next_run` up to 500; more are refused.
    A page reads at most 10,000 jobs for `last_state`: it may have fewer than asked for.
    """
    if cursor is not None:
        read_text(cursor, "cursor")
    page = context.stores.jobs.list(wanted, limit, cursor, read_order(sort, BY_ID))
    counted = total_body(context.stores.history.count_jobs(wanted), len(page.items)) if total else {}
    items = _with_runs(context, page.items) if with_runs else [shown_body(job) for job in page.items]
    return JSONResponse({"items": items, "next_cursor": page.next_cursor, **counted})


def total_body(total: Total, shown: int) -> dict[str, Any]:
    """Return the field that `total=true` adds to a list; at least `shown`, if counting ended early."""
    return {"total": max(total.number, shown), "total_is_exact": not total.more}


def _with_runs(context: ApiContext, jobs: Sequence[Job]) -> list[dict[str, Any]]:
    now = context.clock()
    latest = context.stores.history.latest_of([job.job_id for job in jobs], now, 1)
    return [
        {
            **shown_body(job),
            "next_run_at": next(iter(next_runs(job, now, 1)), None),
            "last_run": _last(latest[job.job_id]),
        }
        for job in jobs
    ]


def _last(newest_first: Sequence[Outcome]) -> dict[str, Any] | None:
    if not newest_first:
        return None
    run = newest_first[0]
    times = {"scheduled_at": format_instant(run.scheduled_at), "finished_at": optional_instant(run.finished_at)}
    return {"run_id": run.run_id, "state": run.state.value, **times}
