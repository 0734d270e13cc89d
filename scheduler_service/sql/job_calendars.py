"""The calendars that jobs name, judged and recorded in the transaction that saves a job.

Promises that a job is not saved by a calendar that is deleted or edited meanwhile. Saving holds the calendar's row
shared; an edit holds it alone. A job that names no calendar costs no statement.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

from sqlalchemy import Connection, select

from scheduler_service.core.calendars.model import Compiled
from scheduler_service.core.contract.calendar_uses import calendars_named, counts_days, refuse_calendars, refuse_closed
from scheduler_service.core.model import Job
from scheduler_service.sql.calendar_rows import versions_of
from scheduler_service.sql.column_types import LAST_INSTANT
from scheduler_service.sql.control_tables import calendars
from scheduler_service.sql.named_by_jobs import CALENDARS_NAMED


def keep_calendars(connection: Connection, saved: Sequence[tuple[str, Job, Job | None]]) -> None:
    """Judge and record the calendars of jobs that are saved, each with its place in errors and its version before.

    BadValues names those that do not exist, or have not what the job needs of them.
    """
    judged = [(place, job) for place, job, _ in saved if calendars_named(job) is not None]
    if judged:
        _judge(connection, saved, judged, hold=True)
    changed = {job.job_id: job for _, job, before in saved if calendars_named(job) != calendars_named(before)}
    if changed:
        CALENDARS_NAMED.write(
            connection,
            {job_id: _ids([job]) for job_id, job in changed.items()},
            lambda job_id, name: {"by_days": _counts_days(changed[job_id], name)},
        )


def judge_calendars(connection: Connection, planned: Sequence[tuple[str, Job, Job | None]]) -> None:
    """As `keep_calendars`, for jobs that are only planned: nothing is held or written."""
    judged = [(place, job) for place, job, _ in planned if calendars_named(job) is not None]
    if judged:
        _judge(connection, planned, judged, hold=False)


def _judge(
    connection: Connection, saved: Sequence[tuple[str, Job, Job | None]], judged: list[tuple[str, Job]], *, hold: bool
) -> None:
    known = present(connection, _ids(job for _, job in judged), hold=hold)
    refuse_calendars(judged, known)
    refuse_closed([one for one in saved if calendars_named(one[1]) is not None], known)


def _ids(jobs: Iterable[Job]) -> set[str]:
    return {one for job in jobs if (named := calendars_named(job)) is not None for one in named.ids}


def _counts_days(job: Job, calendar_id: str) -> bool:
    named = calendars_named(job)
    return named is not None and counts_days(named, calendar_id)


def present(connection: Connection, ids: Collection[str], *, hold: bool) -> Mapping[str, Compiled]:
    """Return the newest sets of those that exist; with `hold` none of them is edited or deleted until the end."""
    there = select(calendars.c.calendar_id).where(calendars.c.calendar_id.in_(sorted(ids)))
    there = there.order_by(calendars.c.calendar_id)
    names = connection.execute(there.with_for_update(read=True) if hold else there).scalars().all()
    found = versions_of(connection, names, LAST_INSTANT)  # the newest one, which may be to come
    return {calendar_id: versions[-1].compiled for calendar_id, versions in found.items()}
