"""JobSets in SQL: all jobs and monitors of one source, planned and applied in one transaction.

Promises that an apply executes a plan of exactly the rows that are there then, and stores all of it or nothing. Applies
never overlap. core's job_plan decides the changes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Select, Text, bindparam, func, or_, select, update

from itinerary.protocol.errors import Conflict
from itinerary.protocol.instants import Instant
from scheduler_service.core.audit import AuditedChange
from scheduler_service.core.contract.job_plan import JobChange, JobSet, JobSets, JobsPlan, plan_jobs
from scheduler_service.core.contract.monitor_plan import state_line
from scheduler_service.core.model import Job
from scheduler_service.core.monitors.model import Monitor
from scheduler_service.sql import monitor_sets
from scheduler_service.sql.audit import record_all
from scheduler_service.sql.batch import Batch
from scheduler_service.sql.database import Database, again_when_busy
from scheduler_service.sql.dialect import Dialect
from scheduler_service.sql.job_calendars import judge_calendars
from scheduler_service.sql.job_limits import judge_limits
from scheduler_service.sql.job_rows import JOB_COLUMNS, named_job_of
from scheduler_service.sql.job_versions import next_version, update_jobs, write_versions
from scheduler_service.sql.jobs import audited, job_row, keep_named
from scheduler_service.sql.monitor_sets import read_monitors
from scheduler_service.sql.tables import jobs

_ADVISORY_LOCK: Final = 0x17_1EAA_2E
_IDS: Final = Batch(job_id=Text)
_TRIES: Final = 5
_STATE: Final = (jobs.c.job_id, jobs.c.version, jobs.c.source, jobs.c.placed_anchor, jobs.c.placed_at)


@dataclass(frozen=True, slots=True)
class _Stored:
    """The rows that an apply reads, deleted ones included: an id created again continues its version numbers."""

    rows: Mapping[str, Job]
    monitors: tuple[Monitor, ...] = ()

    @property
    def present(self) -> list[Job]:
        return [job for job in self.rows.values() if not job.deleted]

    @property
    def states(self) -> set[tuple[Any, ...]]:
        """The values that change with every change of a row; a new place is not a new version."""
        return {(job.job_id, job.version, job.source, job.placed_anchor, job.placed_at) for job in self.rows.values()}

    def has_monitors_as(self, locked: Sequence[Monitor]) -> bool:
        """Whether these rows have the same definitions; a ping changes none."""
        return list(map(state_line, locked)) == list(map(state_line, self.monitors))


class SqlJobSets(JobSets):
    """JobSets on SQLite and PostgreSQL."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def plan(self, wanted: JobSet) -> JobsPlan:
        stored = self._read(wanted)
        plan = plan_jobs(stored.present, wanted, stored.monitors)
        with self._database.read() as connection:
            judge_limits(connection, _saved(plan, wanted))
            judge_calendars(connection, _saved(plan, wanted))
            monitor_sets.judge_calendars(connection, plan.monitors, self._database.read_clock(connection))
        return plan

    @again_when_busy
    def apply(self, wanted: JobSet, plan_version: str | None, *, by: AuditedChange | None = None) -> JobsPlan:
        """Planning thousands of jobs takes long, so the rows are locked only while they are written."""
        for _ in range(_TRIES):
            stored = self._read(wanted)
            plan = plan_jobs(stored.present, wanted, stored.monitors)
            if plan_version is not None and plan_version != plan.version:
                raise Conflict("the stored jobs changed since this was planned; plan again", "plan-outdated")
            if plan.is_empty:
                return plan
            with self._database.write() as connection:
                if not self._is_still(connection, wanted, stored):
                    continue
                locked = read_monitors(connection, wanted, self._database.dialect, locked=True)
                if stored.has_monitors_as(locked):
                    now = self._database.read_clock(connection)
                    self._carry_out(connection, plan, wanted, stored, by, now)
                    monitor_sets.carry_out(connection, plan.monitors, plan.source, locked, by, now)
                    return plan
        raise Conflict("too many concurrent edits of these jobs; try again", "edited-by-others")

    def _read(self, wanted: JobSet) -> _Stored:
        with self._database.read() as connection:
            rows = connection.execute(self._asked(wanted, *JOB_COLUMNS), _ids_of(wanted))
            found = {job.job_id: job for job in map(named_job_of, rows)}
            return _Stored(found, read_monitors(connection, wanted, self._database.dialect))

    def _is_still(self, connection: Connection, wanted: JobSet, stored: _Stored) -> bool:
        """Whether the rows are as they were read; locks them until the transaction ends."""
        if self._database.dialect is Dialect.POSTGRESQL:
            connection.execute(select(func.pg_advisory_xact_lock(_ADVISORY_LOCK)))
        asked = self._asked(wanted, *_STATE)
        locked = connection.execute(asked.with_for_update(), _ids_of(wanted))
        return {tuple(row) for row in locked} == stored.states

    def _asked(self, wanted: JobSet, *columns: ColumnElement[Any]) -> Select[Any]:
        """Select the named or owned jobs by id, so that two transactions that lock several do not deadlock."""
        named = jobs.c.job_id.in_(select(_IDS.rows(self._database.dialect).c.job_id))
        found_by = named if wanted.source is None else or_(named, jobs.c.source == wanted.source)
        return select(*columns).where(found_by).order_by(jobs.c.job_id)

    def _carry_out(
        self, connection: Connection, plan: JobsPlan, wanted: JobSet, stored: _Stored, by: AuditedChange | None,
        now: Instant,
    ) -> None:  # fmt: skip
        known, source = stored.rows, plan.source
        edited = [change for change in plan.changed if change.of_definition]
        fresh = [_first(job, source, now) for job in plan.added if job.job_id not in known]
        later = [_again(job, known[job.job_id], source, now) for job in plan.added if job.job_id in known]
        later += [next_version(_edited(change, source), change.there, now) for change in edited]
        later += [next_version(replace(job, deleted=True), job, now) for job in plan.removed]
        self._insert(connection, fresh, now)
        update_jobs(connection, later, now)
        keep_named(connection, _saved(plan, wanted))
        written = [*fresh, *later]
        write_versions(connection, written, by)
        taken = [change.there for change in plan.changed if not change.of_definition]
        _own(connection, taken, source)
        became = [*written, *(replace(job, source=source) for job in taken)]
        record_all(connection, now, by, [(job.job_id, audited(known.get(job.job_id)), audited(job)) for job in became])

    def _insert(self, connection: Connection, written: Sequence[Job], now: Instant) -> None:
        if not written:
            return
        rows = [{**job_row(job), "planned_version": 0, "updated_at": now} for job in written]
        wanted = self._database.dialect.insert(jobs).on_conflict_do_nothing().returning(jobs.c.job_id)
        if len(connection.execute(wanted, rows).all()) != len(rows):
            raise Conflict("another request created one of these jobs; plan again", "plan-outdated")


def _saved(plan: JobsPlan, wanted: JobSet) -> list[tuple[str, Job, Job | None]]:
    """The jobs that are created, changed or deleted, each with its place in the request and the stored job."""
    places = {job.job_id: f"jobs.{number}" for number, job in enumerate(wanted.jobs)}
    saved: list[tuple[Job, Job | None]] = [(job, None) for job in plan.added]
    saved += [(change.wanted, change.there) for change in plan.changed]
    saved += [(replace(job, deleted=True), job) for job in plan.removed]
    return [(places.get(job.job_id, ""), job, before) for job, before in saved]


def _ids_of(wanted: JobSet) -> dict[str, str]:
    # The statement needs its parameter even if no job is named.
    (ids,) = _IDS.chunks([(job.job_id,) for job in wanted.jobs] or [("",)])
    return ids


def _first(job: Job, source: str | None, now: Instant) -> Job:
    return replace(job, version=1, created_at=now, effective_from=now, source=source)


def _again(job: Job, deleted: Job, source: str | None, now: Instant) -> Job:
    return next_version(replace(job, created_at=now, source=source), deleted, now)


def _edited(change: JobChange, source: str | None) -> Job:
    there = change.there
    return replace(
        change.wanted,
        created_at=there.created_at,
        paused=there.paused,
        pause_reason=there.pause_reason,
        paused_until=there.paused_until,
        pause_skips=there.pause_skips,
        source=there.source if source is None else source,
    )


def _own(connection: Connection, taken: Sequence[Job], source: str | None) -> None:
    """Change only the owner, which makes no new version; sets without a source never reach this."""
    if taken:
        owned = update(jobs).where(jobs.c.job_id == bindparam("named")).values(source=source)
        connection.execute(owned, [{"named": job.job_id} for job in taken])
