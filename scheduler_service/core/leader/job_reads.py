"""Reads of jobs: those that changed, and those that use an edited calendar, a page at a time. Values only."""

from dataclasses import dataclass

from itinerary.protocol.instants import Instant
from scheduler_service.core.model import JobHistory


@dataclass(frozen=True, slots=True)
class ReadJobs:
    """Read these jobs: the versions in effect at or after `since`, and from the last planned one on."""

    job_ids: tuple[str, ...]
    since: Instant


@dataclass(frozen=True, slots=True)
class ReadCalendarJobs:
    """Read a page of the current jobs that name the calendar, behind `after`: their versions that hold from `since`."""

    calendar_id: str
    after: str
    since: Instant
    limit: int


@dataclass(frozen=True, slots=True)
class CalendarJobsRead:
    """A page of jobs with their calendars as they are now; `following`: the id to continue behind, None at the end."""

    calendar_id: str
    after: str
    histories: tuple[JobHistory, ...]
    following: str | None
