"""The calendar of runs over HTTP: what is planned and what ended, by days or hours of a zone. Changes nothing."""

from itertools import pairwise
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Response
from starlette.responses import JSONResponse

from itinerary.protocol.errors import BadValue
from itinerary.protocol.instants import format_instant
from scheduler_service.api.context import Context
from scheduler_service.api.http.auth import Who, require
from scheduler_service.api.openapi.documents import answers
from scheduler_service.api.openapi.parameters import text
from scheduler_service.api.openapi.run_calendar_shapes import MOST_DAYS, MOST_DAYS_BY_HOUR, RunCalendarOut
from scheduler_service.api.pages.plan_days import day_edges, days_from, hour_edges, read_day
from scheduler_service.api.pages.plan_grid import Found, holds
from scheduler_service.api.pages.time_axis import local
from scheduler_service.api.services.calendar_cells import find_cells
from scheduler_service.api.services.plans import PATIENCE_OF_PROGRAMS, PlanFilter
from scheduler_service.core.contract.fields import read_text
from scheduler_service.core.schedules.zones import zone

router = APIRouter(prefix="/api/v1", tags=["runs"], dependencies=[Depends(require("viewer"))])


@router.get("/runs/calendar", responses=answers({200: RunCalendarOut}, 404, 422))
def run_calendar(
    context: Context,
    who: Who,
    date: Annotated[str | None, text(10, "The first day, such as 2026-12-01; today if not given.")] = None,
    days: Annotated[int, Query(ge=1, le=MOST_DAYS, description="By hour at most seven.")] = 7,
    unit: Annotated[Literal["day", "hour"], Query(description="What a cell is.")] = "day",
    timezone: Annotated[str, text(64, "The IANA zone whose days and hours these are.")] = "UTC",
    job_id: Annotated[str | None, text(128, "Only this job.")] = None,
    tag: Annotated[str | None, text(128, "Only jobs with this tag; what ended is not counted then.")] = None,
    queue: Annotated[str | None, text(128, "Only this queue.")] = None,
) -> Response:
    """Show what is planned and what ended in each day or hour.

    Of a job, what ended is counted from its newest 25,000 runs; else from what leaders wrote down, for 30 days.
    """
    now, shown_in = context.clock(), zone(timezone)
    if unit == "hour" and days > MOST_DAYS_BY_HOUR:
        raise BadValue("days", days, f"give at most {MOST_DAYS_BY_HOUR} days by hour")
    given = {name: read_text(one, name) for name, one in (("job_id", job_id), ("tag", tag), ("queue", queue)) if one}
    shown = days_from(local(now, shown_in).date() if date is None else read_day(date), days)
    edges = hour_edges(shown, shown_in) if unit == "hour" else day_edges(shown, shown_in)
    plan, found = find_cells(context, who, PlanFilter(**given), shown, edges, now, PATIENCE_OF_PROGRAMS)
    over = edges[-1] <= now
    return JSONResponse({
        "timezone": timezone, "unit": unit, "planned_is_complete": over or (plan and plan.complete),
        "cells": [
            {"date": local(begin, shown_in).date().isoformat(), "since": format_instant(begin),
             "until": format_instant(end), **_planned(found, place, over=end <= now), **_ended(found, place, tag),
             "closed_by": list(found.closed.get(local(begin, shown_in).date(), ())),
             "freezes": [one.freeze_id for one in found.freezes if holds(one, begin, end)]}
            for place, (begin, end) in enumerate(pairwise(edges))
        ],
    })  # fmt: skip


def _planned(found: Found, place: int, *, over: bool) -> dict[str, Any]:
    if over or place >= len(found.cells):
        nothing = 0 if over else None
        return {"planned": nothing, "planned_jobs": nothing, "busiest": []}
    cell = found.cells[place]
    busiest = [{"job_id": job_id, "runs": runs} for job_id, runs in cell.busiest]
    return {"planned": cell.runs, "planned_jobs": cell.jobs, "busiest": busiest}


def _ended(found: Found, place: int, tag: str | None) -> dict[str, int | None]:
    return {name: None if tag else number for name, number in found.ends[place]._asdict().items()}
