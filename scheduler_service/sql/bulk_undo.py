"""The pages of an undo: each takes back one page of the operation, as the audit log has it.

Promises that a job gets back the version before the operation's only if that one is still the newest. A run that was
run again is cancelled, unless it is over. A run that was moved goes back if it still waits where it was moved to.
"""

from collections import Counter
from dataclasses import replace
from typing import Any, Final

from sqlalchemy import Connection, select

from itinerary.protocol.errors import BadValues, Conflict
from itinerary.protocol.instants import Instant
from scheduler_service.core.audit import AuditedChange
from scheduler_service.core.bulk import BulkAction, BulkOn, BulkOperation
from scheduler_service.core.model import Job
from scheduler_service.sql.bulk_jobs import locked_jobs, write_changes
from scheduler_service.sql.bulk_moves import move_runs
from scheduler_service.sql.bulk_page import END_ACTION, PAGE_ACTION, Done
from scheduler_service.sql.bulk_runs import cancel_runs
from scheduler_service.sql.database import Database, savepoint
from scheduler_service.sql.job_rows import VERSION_COLUMNS, version_of
from scheduler_service.sql.paging import read_cursor, write_cursor
from scheduler_service.sql.record_tables import audit_log
from scheduler_service.sql.tables import job_versions

_A: Final = audit_log.c
_MOVED_BACK: Final = {"moved": "restored", "unchanged": "changed_since"}


def undo_page(
    database: Database, connection: Connection, undo: BulkOperation, place: str | None, now: Instant, by: AuditedChange
) -> Done:
    """Take back the operation's next page behind `place`; Conflict if pages were pruned meanwhile."""
    require_pages(connection, str(undo.order.undo_of))
    after = 0 if place is None else read_cursor(place, int)[0]
    pages = select(_A.id, _A.action, _A.after).where(_A.subject == undo.order.undo_of, _A.id > after)
    entry = connection.execute(pages.where(_A.action == PAGE_ACTION).order_by(_A.id).limit(1)).first()
    if entry is None:
        return Done(None, 0, {})
    changed = entry.after["changed"]
    following = write_cursor([entry.id])
    if undo.order.on is BulkOn.RUNS and undo.order.action is BulkAction.MOVE:
        counts, moved = move_runs(database, connection, dict(changed), source=undo.order.options["queue"])
        counts = Counter({_MOVED_BACK.get(outcome, outcome): number for outcome, number in counts.items()})
        return Done(following, len(changed), counts, moved, moved=[run_id for run_id, _ in moved])
    if undo.order.on is BulkOn.RUNS:
        new = [run_id for _, run_id in changed]
        counts, ids, stopping = cancel_runs(database, connection, new, now)
        return Done(following, len(new), counts, ids, stopping=stopping)
    return _jobs_back(connection, undo, changed, following, now, by)


def require_pages(connection: Connection, operation_id: str) -> None:
    """Refuse an operation whose pages may be gone: its beginning is older than they are, and pruned before them."""
    first = select(_A.action).where(_A.subject == operation_id).order_by(_A.id).limit(1)
    if connection.execute(first).scalar() in (None, PAGE_ACTION, END_ACTION):
        raise Conflict(
            f"what operation {operation_id} changed is no longer in the audit log; change it back by another operation",
            "not-undoable",
        )


def _jobs_back(
    connection: Connection, undo: BulkOperation, changed: list[Any], following: str, now: Instant, by: AuditedChange
) -> Done:
    versions = {job_id: int(version) for job_id, version in changed}
    there = [job for job in locked_jobs(connection, list(versions)) if undo.limits.has_job(job)]
    counts, written = Counter[str](), list[Job]()
    for job in there:
        before = _version(connection, job.job_id, versions[job.job_id] - 1)
        if job.version != versions[job.job_id] or before is None:
            counts["changed_since"] += 1
            continue
        try:
            with savepoint(connection):
                written += write_changes(connection, [(job, replace(before, source=job.source))], now, by)
        except BadValues:  # a limit or calendar that it names is gone
            counts["refused"] += 1
    counts["restored"] = len(written)
    counts["changed_since"] += len(versions) - len(there)
    pairs = [(job.job_id, job.version) for job in written]
    return Done(following, len(versions), +counts, pairs, jobs=[job_id for job_id, _ in pairs])


def _version(connection: Connection, job_id: str, number: int) -> Job | None:
    asked = select(*VERSION_COLUMNS, job_versions.c.actor)
    row = connection.execute(asked.where(job_versions.c.job_id == job_id, job_versions.c.version == number)).first()
    found = None if row is None else version_of(job_id, row)
    return None if found is None else found.job
