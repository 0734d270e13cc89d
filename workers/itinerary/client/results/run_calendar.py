"""The calendar of runs: what is planned and what ended, by days or hours of a zone."""

from dataclasses import dataclass
from datetime import datetime

from itinerary.client.results.record import Answer, Record


@dataclass(frozen=True, eq=False)
class BusyJob(Record):
    """A job, and how often it is planned in a cell."""

    job_id: str
    runs: int


@dataclass(frozen=True, eq=False)
class RunCalendarCell(Record):
    """A day or an hour; a number is None where it was not counted."""

    date: str
    since: datetime
    until: datetime
    planned: int | None
    planned_jobs: int | None
    busiest: list[BusyJob]
    completed: int | None
    failed: int | None
    missed: int | None
    closed_by: list[str]
    freezes: list[int]


@dataclass(frozen=True, eq=False)
class RunCalendar(Answer):
    """The cells; `planned_is_complete` is None while what is planned is being counted."""

    timezone: str
    unit: str
    planned_is_complete: bool | None
    cells: list[RunCalendarCell]
