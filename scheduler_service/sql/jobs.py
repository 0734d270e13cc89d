"""JobStore in SQL: every change of a job is a new version and its history row, in one transaction.

Promises that of two concurrent changes one follows the other or is rejected. A version's effective_from is the
database's time, later than that of the version before. Never plans: the leader finds unplanned versions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from sqlalchemy import Connection, insert, select, update

from itinerary.protocol.errors import Conflict, NotFound, StaleVersion
from itinerary.protocol.instants import MICROSECOND, Instant
from itinerary.protocol.json_text import is_storable
from scheduler_service.core.audit import AuditedChange
from scheduler_service.core.balancing.placements import carry_place
from scheduler_service.core.contract.job_json import definition_of, job_body
from scheduler_service.core.contract.unknown_fields import carried
from scheduler_service.core.model import Job
from scheduler_service.core.versions import as_of
from scheduler_service.ports.lists import BY_ID, JobSort, Order
from scheduler_service.ports.stores import JobFilter, JobStore, Page
from scheduler_service.sql.applied_calendars import closed_now
from scheduler_service.sql.audit import record
from scheduler_service.sql.database import Database, again_when_busy
from scheduler_service.sql.job_calendars import keep_calendars
from scheduler_service.sql.job_limits import keep_limits
from scheduler_service.sql.job_lists import page_of_jobs
from scheduler_service.sql.job_rows import JOB_COLUMNS, job_of, listed_jobs, named_job_of, search_columns
from scheduler_service.sql.jobs_by_next_run import page_by_next_run
from scheduler_service.sql.tables import job_versions, jobs


class _CreatedMeanwhile(Conflict):
    """Another request created the job between our read and our insert; a second read finds it."""


class SqlJobStore(JobStore):
    """JobStore on SQLite and PostgreSQL."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @again_when_busy
    def create(self, job: Job, *, by: AuditedChange | None = None) -> Job:
        with self._database.write() as connection:
            there = self._locked(connection, job.job_id)
            if there is not None and not there.deleted:
                change = f"change it with `itinerary jobs edit {job.job_id}`, or PUT with If-Match"
                raise Conflict(f"job {job.job_id} exists; {change}", "job-exists")
            return self._create(connection, job, there, by)

    @again_when_busy
    def replace(
        self, job: Job, if_version: int | None, *, by: AuditedChange | None = None
    ) -> tuple[Job, Literal["made", "replaced", "unchanged"]]:
        try:
            return self._replace(job, if_version, by)
        except _CreatedMeanwhile:
            return self._replace(job, if_version, by)

    def _replace(
        self, job: Job, if_version: int | None, by: AuditedChange | None
    ) -> tuple[Job, Literal["made", "replaced", "unchanged"]]:
        with self._database.write() as connection:
            there = self._locked(connection, job.job_id)
            _check_version(job.job_id, there, if_version)
            if there is None or there.deleted:
                return self._create(connection, job, there, by), "made"
            job = carried(there, job)
            if definition_of(job) == definition_of(there):
                return there, "unchanged"
            changed = replace(
                job,
                created_at=there.created_at,
                paused=there.paused,
                pause_reason=there.pause_reason,
                paused_until=there.paused_until,
                pause_skips=there.pause_skips,
                source=there.source,
            )
            return self._next_version(connection, changed, there, by), "replaced"

    def get(self, job_id: str) -> Job:
        _check_name(job_id)
        with self._database.read() as connection:
            row = connection.execute(select(*JOB_COLUMNS).where(jobs.c.job_id == job_id)).first()
            if row is None or row.deleted:
                raise NotFound(f"no job {job_id}")
            return self._as_of_now(connection, closed_now(connection, [named_job_of(row)]))[0]

    def list(self, wanted: JobFilter, limit: int, cursor: str | None, order: Order[JobSort] = BY_ID) -> Page[Job]:
        if not is_storable(f"{wanted.tag}{wanted.text}{wanted.source}{wanted.queue}{wanted.task}"):
            return Page([], None)
        with self._database.read() as connection:
            needs_now = bool(wanted.last_states) or wanted.paused is not None or order.by is not JobSort.JOB_ID
            now = self._database.read_clock(connection) if needs_now else 0
            if order.by is JobSort.NEXT_RUN:
                return page_by_next_run(connection, wanted, limit, cursor, order, now)
            page = page_of_jobs(connection, wanted, limit, cursor, order, now)
            found = [*self._as_of_now(connection, closed_now(connection, listed_jobs(page.items)))]
        return Page(found, page.next_cursor)

    @again_when_busy
    def set_paused(
        self,
        job_id: str,
        paused: bool,
        reason: str | None,
        until: Instant | None,
        if_version: int | None = None,
        *,
        skips: bool = False,
        by: AuditedChange | None = None,
    ) -> Job:
        with self._database.write() as connection:
            there = self._there(connection, job_id)
            _check_version(job_id, there, if_version)
            wanted = replace(
                there,
                paused=paused,
                pause_reason=reason if paused else None,
                paused_until=until if paused else None,
                pause_skips=skips and paused,
            )
            return there if wanted == there else self._next_version(connection, wanted, there, by)

    @again_when_busy
    def delete(self, job_id: str, if_version: int | None, *, by: AuditedChange | None = None) -> None:
        with self._database.write() as connection:
            there = self._there(connection, job_id)
            _check_version(job_id, there, if_version)
            self._next_version(connection, replace(there, deleted=True), there, by)

    def _as_of_now(self, connection: Connection, found: Sequence[Job]) -> Sequence[Job]:
        if all(job.paused_until is None for job in found):
            return found
        now = self._database.read_clock(connection)
        return [as_of(job, now) for job in found]

    def _locked(self, connection: Connection, job_id: str) -> Job | None:
        """The job, even if deleted, locked against other changes until the transaction ends."""
        row = connection.execute(select(*JOB_COLUMNS).where(jobs.c.job_id == job_id).with_for_update()).first()
        return None if row is None else named_job_of(row)

    def _there(self, connection: Connection, job_id: str) -> Job:
        _check_name(job_id)
        there = self._locked(connection, job_id)
        if there is None or there.deleted:
            raise NotFound(f"no job {job_id}")
        return there

    def _create(self, connection: Connection, job: Job, deleted: Job | None, by: AuditedChange | None) -> Job:
        now = self._database.read_clock(connection)
        if deleted is not None:
            return self._next_version(connection, replace(job, created_at=now, deleted=False), deleted, by)
        created = _as_kept(replace(job, version=1, created_at=now, effective_from=now, deleted=False))
        row = self._database.dialect.insert(jobs).values(**job_row(created), planned_version=0, updated_at=now)
        inserted = connection.execute(row.on_conflict_do_nothing().returning(jobs.c.version)).first()
        if inserted is None:
            raise _CreatedMeanwhile(f"job {job.job_id} exists", "job-exists")
        keep_named(connection, [("", created, None)])
        keep_version(connection, created, None, now, by)
        return closed_now(connection, [created])[0]

    def _next_version(self, connection: Connection, job: Job, before: Job, by: AuditedChange | None) -> Job:
        now = self._database.read_clock(connection)
        effective_from = max(now, before.effective_from + MICROSECOND)
        created = carry_place(before, replace(job, version=before.version + 1, effective_from=effective_from))
        created = _as_kept(created)
        changed = update(jobs).where(jobs.c.job_id == job.job_id, jobs.c.version == before.version)
        connection.execute(changed.values(**job_row(created), updated_at=now))
        keep_named(connection, [("", created, before)])
        keep_version(connection, created, before, now, by)
        return closed_now(connection, [created])[0]


def keep_named(connection: Connection, saved: Sequence[tuple[str, Job, Job | None]]) -> None:
    """Judge and record what saved jobs name: limits and calendars."""
    keep_limits(connection, saved)
    keep_calendars(connection, saved)


def keep_version(
    connection: Connection, created: Job, before: Job | None, now: Instant, by: AuditedChange | None
) -> None:
    """Write the history row of a new version, and its audit row."""
    actor = None if by is None else by.actor
    connection.execute(insert(job_versions).values(**version_row(created), actor=actor))
    record(connection, now, by, created.job_id, audited(before), audited(created))


def audited(job: Job | None) -> Mapping[str, Any] | None:
    """The fields of a job that the audit log shows; None for a job that does not exist."""
    return None if job is None or job.deleted else job_body(job)


def _check_name(job_id: str) -> None:
    if not is_storable(job_id):
        raise NotFound(f"no job {job_id!r}")


def _check_version(job_id: str, there: Job | None, if_version: int | None) -> None:
    current = None if there is None or there.deleted else there.version
    if if_version is not None and if_version != current:
        raise StaleVersion(f"job {job_id} is not at version {if_version}" + (f" but at {current}" if current else ""))


def _as_kept(job: Job) -> Job:
    """The job as it is read back: its schedule's defaults depend on its creation time."""
    kept = job_of(
        (
            definition_of(job), job.created_at, job.version, job.paused, job.pause_reason, job.paused_until,
            job.effective_from, job.deleted, job.placed_anchor, job.placed_at, job.pause_skips,
        )
    )  # fmt: skip
    return replace(kept, source=job.source)


def version_row(job: Job) -> Mapping[str, Any]:
    """The row of `job_versions`."""
    return {
        "job_id": job.job_id,
        "version": job.version,
        "definition": definition_of(job),
        "paused": job.paused,
        "pause_reason": job.pause_reason,
        "paused_until": job.paused_until,
        "pause_skips": job.pause_skips,
        "effective_from": job.effective_from,
        "created_at": job.created_at,
        "deleted": job.deleted,
        "placed_anchor": job.placed_anchor,
        "placed_at": job.placed_at,
    }


def job_row(job: Job) -> Mapping[str, Any]:
    """The row of `jobs`, without the columns that only the store or the leader writes."""
    return {**version_row(job), **search_columns(job), "source": job.source}
