"""Calendars applied to jobs where they are read: each history comes cut at the versions of the calendars it names.

Promises that one read plans every job by the same versions. A calendar of which nothing is stored any more closes
nothing. Jobs without calendars cost nothing.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Final

from sqlalchemy import Connection, select

from itinerary.protocol.instants import Instant
from scheduler_service.core.calendars.applying import CalendarApplier
from scheduler_service.core.calendars.carrying import REACH
from scheduler_service.core.calendars.model import CalendarVersion, Compiled
from scheduler_service.core.model import Job, JobHistory
from scheduler_service.core.schedules.schedule import Schedule
from scheduler_service.sql.calendar_rows import versions_of
from scheduler_service.sql.column_types import LAST_INSTANT
from scheduler_service.sql.control_tables import calendars

_ALIKE: Final = attrgetter("alike")
_FORGOTTEN: Final = Compiled("UTC")


class AppliedCalendars:
    """The calendars of one read, for windows from `since` on; None: from ever on."""

    def __init__(self, connection: Connection, since: Instant | None) -> None:
        self._connection = connection
        self._since = since
        self._versions: dict[str, tuple[CalendarVersion, ...]] = {}
        self._applier = CalendarApplier({})

    def read_all(self) -> None:
        """Read every calendar at once, for a read of every job: equal schedules stay one object then."""
        self._read(self._connection.execute(select(calendars.c.calendar_id)).scalars().all())

    def applied(self, histories: Sequence[JobHistory]) -> list[JobHistory]:
        """Return the histories as their calendars leave them, in their order."""
        named = {one for jobs in distinct(histories) for one in _named(jobs)}
        if fresh := named - self._versions.keys():
            self._read(fresh)
        return [self._applier.applied(history) for history in histories] if named else [*histories]

    def _read(self, ids: Iterable[str]) -> None:
        # What versions move over `since` is known from those before it.
        since = None if self._since is None else self._since - REACH
        found = versions_of(self._connection, [*ids], since)
        nothing = {one: (CalendarVersion(one, 0, 0, _FORGOTTEN),) for one in ids if one not in found}
        self._versions |= {**found, **nothing}
        self._applier = _applier(self._versions, self._since)


def closed_now(connection: Connection, jobs: Sequence[Job]) -> list[Job]:
    """Return current jobs with the schedules that the newest versions of their calendars leave them."""
    return closed_at(connection, jobs, LAST_INSTANT)


def closed_at(connection: Connection, jobs: Sequence[Job], at: Instant) -> list[Job]:
    """Return the jobs with the schedules that the calendars in force at `at` leave them."""
    if all(job.calendars is None for job in jobs):
        return [*jobs]
    by_calendars = AppliedCalendars(connection, at)
    # Each as if it had held for ever: what it was before is not asked.
    ever = [replace(job, effective_from=job.created_at) for job in jobs]
    applied = by_calendars.applied([JobHistory((job,), job.version) for job in ever])
    return [replace(job, schedule=_in_force(one, at)) for job, one in zip(jobs, applied, strict=True)]


def _in_force(history: JobHistory, at: Instant) -> Schedule:
    begun = [job for job in history.versions if job.effective_from <= at]
    return (begun or history.versions[:1])[-1].schedule


def _applier(versions: dict[str, tuple[CalendarVersion, ...]], since: Instant | None) -> CalendarApplier:
    return CalendarApplier(versions) if since is None else CalendarApplier(versions, since)


def distinct(histories: Iterable[JobHistory]) -> Iterable[Sequence[Job]]:
    """Return the jobs that the histories are like, once where many share them."""
    return {id(jobs): jobs for jobs in map(_ALIKE, histories)}.values()


def _named(jobs: Iterable[Job]) -> Iterable[str]:
    return (one for job in jobs if job.calendars is not None for one in job.calendars.ids)
