"""Downloads over HTTP: all that the filters of a list find, as CSV or JSON. Changes nothing."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Response

from scheduler_service.api.context import Context
from scheduler_service.api.http.auth import require
from scheduler_service.api.openapi.documents import answers
from scheduler_service.api.openapi.parameters import text
from scheduler_service.api.routes.job_lists import InQueue, LastState, OfTask, Paused, Source, Tag, Words
from scheduler_service.api.routes.job_lists import read_filter as jobs_filter
from scheduler_service.api.routes.runs import Time, read_filter
from scheduler_service.api.services.exports import ExportFormat, export_jobs, export_runs
from scheduler_service.core.run_state import RunState

router = APIRouter(prefix="/api/v1/exports", tags=["exports"], dependencies=[Depends(require("viewer"))])
Form = Annotated[ExportFormat, Query(alias="format", description="A table, or an array of whole runs or jobs.")]


@router.get("/runs", response_class=Response, responses=answers({}, 422))
def export(
    context: Context,
    job_id: Annotated[str | None, text(128, "Only runs of this job.")] = None,
    state: Annotated[list[RunState] | None, Query(description="May be repeated.")] = None,
    queue: Annotated[str | None, text(128, "Only runs of this queue.")] = None,
    since: Time = None,
    until: Time = None,
    task: Annotated[str | None, text(255, "Only runs of this task.")] = None,
    limit_name: Annotated[str | None, text(128, "Only runs that count for this limit.")] = None,
    limit_key: Annotated[str | None, text(256, "Only runs with this key of a limit.")] = None,
    form: Form = ExportFormat.CSV,
) -> Response:
    """Stream every run that matches, newest first, without its attempts; hidden values are masked."""
    wanted = read_filter(job_id, state, queue, since, until, task, limit_name, limit_key)
    return export_runs(context, wanted, form)


@router.get("/jobs", response_class=Response, responses=answers({}, 422))
def export_list(
    context: Context,
    tag: Tag = None,
    q: Words = None,
    paused: Paused = None,
    source: Source = None,
    queue: InQueue = None,
    task: OfTask = None,
    last_state: LastState = None,
    form: Form = ExportFormat.CSV,
) -> Response:
    """Stream every job that matches, by id; hidden values are masked."""
    return export_jobs(context, jobs_filter(tag, q, paused, source, queue, task, last_state), form)
