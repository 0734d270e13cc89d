"""Downloads of the lists of pages: what their filters find, with times as typed. Changes nothing."""

from typing import Annotated

from fastapi import APIRouter, Query, Response

from itinerary.protocol.errors import BadValues
from scheduler_service.api.context import Context
from scheduler_service.api.pages.run_filters import JOB_LABELS, RUN_LABELS, JobsFilter, RunsFilter
from scheduler_service.api.pages.shell import READER, PageRoute
from scheduler_service.api.pages.wrong import Reader
from scheduler_service.api.services.exports import ExportFormat, export_jobs, export_runs

router = APIRouter(include_in_schema=False, dependencies=READER, route_class=PageRoute)
Form = Annotated[ExportFormat, Query(alias="format")]


@router.get("/download/runs")
def download_runs(context: Context, asked: RunsFilter, form: Form = ExportFormat.CSV) -> Response:
    """Stream the runs of the list."""
    reader = Reader(RUN_LABELS)
    wanted = asked.read(reader, context.clock())
    _refuse(reader)
    return export_runs(context, wanted, form)


@router.get("/download/jobs")
def download_jobs(context: Context, asked: JobsFilter, form: Form = ExportFormat.CSV) -> Response:
    """Stream the jobs of the list."""
    reader = Reader(JOB_LABELS)
    wanted = asked.read(reader)
    _refuse(reader)
    return export_jobs(context, wanted, form)


def _refuse(reader: Reader) -> None:
    if reader.errors:
        raise BadValues(reader.errors)
