"""The shapes of the calendar of runs, for the OpenAPI document."""

from typing import Any, Final, Literal

from pydantic import BaseModel, Field

from scheduler_service.api.openapi.patterns import Time

MOST_DAYS: Final = 42
MOST_DAYS_BY_HOUR: Final = 7


class BusyJob(BaseModel):
    """A job, and how often it is planned in a cell."""

    job_id: str
    runs: int


class RunCalendarCell(BaseModel):
    """A day, or an hour, of the zone: what is planned in it from now on, and what ended in it.

    `planned` and `planned_jobs` are null where they are not counted, the three numbers of what ended with a tag.
    """

    date: str = Field(description="The day in the zone, such as 2026-12-01")
    since: Time
    until: Time
    planned: int | None
    planned_jobs: int | None
    busiest: list[BusyJob] = Field(description="The jobs that are planned most often in it")
    completed: int | None
    failed: int | None
    missed: int | None
    closed_by: list[str] = Field(description="The calendars that name the whole day, each with what it is called")
    freezes: list[int] = Field(description="The freezes that hold in a part of it")


class RunCalendarOut(BaseModel):
    """The cells from the first day on.

    `planned_is_complete` is null while it is being counted: ask again. False: there is too much to count in time.
    """

    timezone: str
    unit: Literal["day", "hour"]
    planned_is_complete: bool | None
    cells: list[RunCalendarCell]


RUN_CALENDAR: Final[dict[str, Any]] = {
    "timezone": "Europe/Berlin", "unit": "day", "planned_is_complete": True,
    "cells": [
        {
            "date": "2026-12-01", "since": "2026-11-30T23:00:00Z", "until": "2026-12-01T23:00:00Z", "planned": 1,
            "planned_jobs": 1, "busiest": [{"job_id": "billing.close", "runs": 1}], "completed": 12, "failed": 1,
            "missed": 0, "closed_by": ["plant, Inventory"], "freezes": [12],
        }
    ],
}  # fmt: skip
