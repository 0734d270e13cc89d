"""Named calendars as the API answers them. Values only."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from itinerary.client.results.record import Record


@dataclass(frozen=True, eq=False)
class Calendar(Record):
    """A calendar with its newest version, which holds from `effective_from` on for jobs that use it."""

    calendar_id: str
    timezone: str
    rules: list[dict[str, Any]]
    description: str
    version: int
    effective_from: datetime
    known_until: str | None
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, eq=False)
class CalendarDay(Record):
    """A day of a calendar; `whole`: all of it."""

    date: str
    whole: bool
    names: list[str]


@dataclass(frozen=True, eq=False)
class MovedJob(Record):
    """The next times of a job, as they are and as they would be."""

    job_id: str
    before: list[datetime]
    after: list[datetime]


@dataclass(frozen=True, eq=False)
class CalendarPreview(Record):
    """The jobs that an edit would move, of the first `checked` that name the calendar; `more`: others name it too."""

    jobs: list[MovedJob]
    checked: int
    more: bool


@dataclass(frozen=True, eq=False)
class CalendarVersion(Record):
    """A version of a calendar, and who made it."""

    version: int
    timezone: str
    rules: list[dict[str, Any]]
    description: str
    effective_from: datetime
    known_until: str | None
    created_at: datetime
    actor: str
