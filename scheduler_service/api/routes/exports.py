"""Downloads over HTTP: all that the filters of a list find, as CSV or JSON. Changes nothing."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Response

from scheduler_service.api.context import Context
from scheduler_service.api.http.auth import require
from scheduler_service.api.openapi.documents import answers
from scheduler_service.api.routes import job_lists, runs
from scheduler_service.api.services.exports import ExportFormat, export_jobs, export_runs

router = APIRouter(prefix="/api/v1/exports", tags=["exports"], dependencies=[Depends(require("viewer"))])
Form = Annotated[ExportFormat, Query(alias="format", description="A table, or an array of whole runs or jobs.")]


@router.get("/runs", response_class=Response, responses=answers({}, 422))
def export(context: Context, wanted: runs.Filtered, form: Form = ExportFormat.CSV) -> Response:
    """Stream every run that matches, newest first, without its attempts; hidden values are masked."""
    return export_runs(context, wanted, form)


@router.get("/jobs", response_class=Response, responses=answers({}, 422))
def export_list(context: Context, wanted: job_lists.Filtered, form: Form = ExportFormat.CSV) -> Response:
    """Stream every job that matches, by id; hidden values are masked."""
    return export_jobs(context, wanted, form)
