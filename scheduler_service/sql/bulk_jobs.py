"""The pages of bulk operations on jobs: pause, resume, move to a queue, delete.

Promises that each changed job has a new version and its own audit entry, as if changed alone. The version is kept with
the page: an undo takes back only jobs that nobody changed since.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from sqlalchemy import Connection, select

from itinerary.protocol.instants import Instant, parse_instant
from scheduler_service.core.audit import AuditedChange
from scheduler_service.core.bulk import OUTCOMES, BulkAction, BulkOperation, BulkOrder
from scheduler_service.core.model import Job
from scheduler_service.ports.bulk import jobs_of
from scheduler_service.ports.lists import BY_ID
from scheduler_service.sql.audit import record_all
from scheduler_service.sql.bulk_page import Done
from scheduler_service.sql.job_lists import page_of_jobs
from scheduler_service.sql.job_rows import JOB_COLUMNS, listed_job_of
from scheduler_service.sql.job_versions import next_version, update_jobs, write_versions
from scheduler_service.sql.jobs import audited, keep_named
from scheduler_service.sql.tables import jobs

JOBS_AT_ONCE: Final = 200


def jobs_page(
    connection: Connection, operation: BulkOperation, place: str | None, now: Instant, by: AuditedChange
) -> Done:
    """Carry out the page that begins behind the id `place`."""
    order = operation.order
    # The ids first, without a lock: a lock and a bound together would lock in no certain order.
    before = jobs.c.created_at <= operation.created_at
    page = page_of_jobs(connection, jobs_of(order), JOBS_AT_ONCE, place, BY_ID, now, before)
    ids = [row.job_id for row in page.items]
    found = [job for job in locked_jobs(connection, ids) if not job.deleted and operation.limits.has_job(job)]
    changes = [(job, after) for job in found if (after := _changed(order, job, now)) != job]
    written = write_changes(connection, changes, now, by)
    counts = Counter({OUTCOMES[order.action]: len(written), "unchanged": len(found) - len(written)})
    changed = [(job.job_id, job.version) for job in written]
    return Done(page.next_cursor, len(found), +counts, changed, jobs=[job.job_id for job in written])


def locked_jobs(connection: Connection, job_ids: Sequence[str]) -> list[Job]:
    """The jobs as they are now, deleted ones too, locked in the order of their ids; without those of newer programs."""
    named = select(*JOB_COLUMNS).where(jobs.c.job_id.in_(job_ids)).order_by(jobs.c.job_id).with_for_update()
    return [job for row in connection.execute(named) if (job := listed_job_of(row)) is not None]


def write_changes(
    connection: Connection, changes: Sequence[tuple[Job, Job]], now: Instant, by: AuditedChange
) -> list[Job]:
    """Write each job's next version, with its audit entry."""
    written = [next_version(after, before, now) for before, after in changes]
    update_jobs(connection, written, now)
    pairs = [(before, after) for (before, _), after in zip(changes, written, strict=True)]
    keep_named(connection, [("", after, before) for before, after in pairs])
    write_versions(connection, written, by)
    record_all(connection, now, by, [(after.job_id, audited(before), audited(after)) for before, after in pairs])
    return written


def _changed(order: BulkOrder, job: Job, now: Instant) -> Job:
    """The job as the action leaves it; one that is paused keeps its reason."""
    match order.action:
        case BulkAction.PAUSE if job.paused and (job.paused_until is None or job.paused_until > now):
            return job
        case BulkAction.PAUSE:
            until = order.options.get("until")
            ends = None if until is None else parse_instant(until)
            return replace(
                job, paused=True, pause_reason=order.options.get("reason"), paused_until=ends, pause_skips=False
            )
        case BulkAction.RESUME:
            return replace(job, paused=False, pause_reason=None, paused_until=None, pause_skips=False)
        case BulkAction.MOVE:
            return replace(job, queue=order.options["queue"])
        case BulkAction.DELETE:
            return replace(job, deleted=True)
        case _:
            raise AssertionError(order.action)
