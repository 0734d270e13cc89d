"""Evidence in SQL: the rows that explain one occurrence or one run, each found by an index. Only reads."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar

import structlog
from sqlalchemy import ColumnElement, Connection, Row, select

from itinerary.protocol.errors import NotFound
from itinerary.protocol.instants import Instant
from itinerary.protocol.json_text import is_storable
from scheduler_service.core.audit import AuditEntry
from scheduler_service.core.calendars.carrying import REACH
from scheduler_service.core.contract.backfill import Known
from scheduler_service.core.explain.facts import Facts, Term, Version, waited
from scheduler_service.core.freezes import FREEZES_A_DAY, Freeze
from scheduler_service.core.model import JobHistory, MissedRange, Run, RunKind
from scheduler_service.ports.records import Evidence
from scheduler_service.sql.applied_calendars import AppliedCalendars
from scheduler_service.sql.audit import AUDIT_COLUMNS
from scheduler_service.sql.backfill import known_of
from scheduler_service.sql.column_types import LAST_INSTANT
from scheduler_service.sql.controls import queue_pause
from scheduler_service.sql.database import Database
from scheduler_service.sql.freeze_rows import known_freezes
from scheduler_service.sql.job_rows import VERSION_COLUMNS, version_of
from scheduler_service.sql.record_tables import audit_log, leaderships
from scheduler_service.sql.runs import read_whole
from scheduler_service.sql.tables import IS_MANUAL, IS_OCCURRENCE, cursors, gaps, job_versions, leases, runs

_SHARD: Final = 0
_VERSIONS: Final = 50
_TERMS: Final = 20
_AUDIT_ENTRIES: Final = 20
_BEFORE: Final = 20
_FREEZES: Final = 2 * FREEZES_A_DAY
T = TypeVar("T")
_T: Final = leaderships.c
_L: Final = leases.c

log = structlog.get_logger(__name__)


class SqlEvidence(Evidence):
    """Evidence on SQLite and PostgreSQL."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def of_occurrence(self, job_id: str, at: Instant) -> Facts:
        if not is_storable(job_id):
            raise NotFound(f"no job {job_id!r}")
        with self._database.read() as connection:
            versions = _versions(connection, job_id, at)
            if not versions:
                raise NotFound(f"no job {job_id}")
            run = _newest(connection, job_id, at, IS_OCCURRENCE)
            facts = self._facts(connection, at, job_id, versions, run)
            return replace(facts, backfilled=_newest(connection, job_id, at, IS_MANUAL))

    def of_run(self, run_id: str) -> Facts:
        if not is_storable(run_id):
            raise NotFound(f"no run {run_id!r}")
        with self._database.read() as connection:
            run = read_whole(connection, run_id)
            # A run that was requested for a past time fell due long after that time.
            at = run.scheduled_at if run.kind is RunKind.OCCURRENCE else run.due_at
            versions = () if run.job_id is None else _versions(connection, run.job_id, at)
            return self._facts(connection, at, run.job_id, versions, run)

    def of_occurrences(self, job_id: str, times: Sequence[Instant]) -> Known:
        if not times or not is_storable(job_id):
            return Known()
        with self._database.read() as connection:
            return known_of(connection, job_id, times)

    def _facts(
        self, connection: Connection, at: Instant, job_id: str | None, versions: tuple[Version, ...], run: Run | None
    ) -> Facts:
        now = self._database.read_clock(connection)
        progress = select(cursors.c.materialised_until, cursors.c.pruned_until).where(cursors.c.shard == _SHARD)
        cursor, pruned_until = connection.execute(progress).first() or (None, None)
        return Facts(
            now=now,
            cursor=cursor,
            pruned_until=pruned_until,
            versions=versions,
            run=run,
            missed_range=None if job_id is None else _missed_range(connection, job_id, at),
            terms=_terms(connection, min(at, now), now),
            audit_entries=() if run is None else _audit_entries(connection, run.run_id),
            own_overlap=None if run is None else _of_run(connection, run.run_id, runs.c.overlap),
            recalled_at=None if run is None else _of_run(connection, run.run_id, runs.c.recalled_at),
            ahead=None if run is None else _ahead(connection, run),
            queue_pause=None if run is None else queue_pause(connection, run.queue, now),
            freezes=_freezes(connection, at, versions, run),
        )


def _newest(connection: Connection, job_id: str, at: Instant, of_kind: ColumnElement[bool]) -> Run | None:
    """Read the job's newest run of this kind for an instant."""
    found_by = (runs.c.job_id == job_id, runs.c.scheduled_at == at, of_kind)
    newest = select(runs.c.run_id).where(*found_by).order_by(runs.c.id.desc()).limit(1)
    run_id = connection.execute(newest).scalar()
    return None if run_id is None else read_whole(connection, run_id)


def _of_run(connection: Connection, run_id: str, column: ColumnElement[T]) -> T | None:
    """Read what the record of a run does not show."""
    return connection.execute(select(column).where(runs.c.run_id == run_id)).scalar()


def _freezes(connection: Connection, at: Instant, versions: Sequence[Version], run: Run | None) -> tuple[Freeze, ...]:
    """Read the freezes from the due time on that have the run, or the job's occurrence, in scope."""
    if run is not None and _of_run(connection, run.run_id, runs.c.forced):
        return ()
    job = versions[-1].job if versions else None
    queue = run.queue if run is not None else job.queue if job is not None else ""
    job_id, tags = (None, ()) if job is None else (job.job_id, job.tags)
    since, until = (at, None) if run is None else (min(at, run.due_at), run.finished_at)
    known = known_freezes(connection, since, LAST_INSTANT if until is None else until, _FREEZES)
    return tuple(one for one in known if one.scope.meets(queue, job_id, tags))


def _ahead(connection: Connection, run: Run) -> Run | None:
    """Among the job's earlier runs, read the one that ended last while this run waited."""
    span = waited(run)
    if span is None or run.job_id is None:
        return None
    since, until = span
    columns = (runs.c.run_id, runs.c.pending_at, runs.c.finished_at)
    ended: list[tuple[Instant, str]] = []
    for at in {run.scheduled_at, run.due_at}:
        before = select(*columns).where(runs.c.job_id == run.job_id, runs.c.scheduled_at <= at)
        newest = before.order_by(runs.c.scheduled_at.desc(), runs.c.id.desc()).limit(_BEFORE)
        for run_id, pending_at, finished_at in connection.execute(newest):
            was_live = run_id != run.run_id and pending_at is not None and finished_at is not None
            if was_live and pending_at < until and since < finished_at <= until:
                ended.append((finished_at, run_id))
    return read_whole(connection, max(ended)[1]) if ended else None


def _versions(connection: Connection, job_id: str, at: Instant) -> tuple[Version, ...]:
    """Read the versions valid around an instant, oldest first."""
    columns = (*VERSION_COLUMNS, job_versions.c.actor)
    of_job = select(*columns).where(job_versions.c.job_id == job_id)
    since, number = job_versions.c.effective_from, job_versions.c.version
    before = connection.execute(of_job.where(since <= at).order_by(number.desc()).limit(_VERSIONS)).all()
    after = connection.execute(of_job.where(since > at).order_by(number).limit(_VERSIONS)).all()
    rows = (*reversed(before), *after)
    return _closed(connection, [found for row in rows if (found := version_of(job_id, row)) is not None], at)


def _closed(connection: Connection, versions: Sequence[Version], at: Instant) -> tuple[Version, ...]:
    """Return the versions cut at those of their calendars around an instant, each with its own author."""
    if all(version.job.calendars is None for version in versions):
        return tuple(versions)
    actors = {version.job.version: version.actor for version in versions}
    history = JobHistory(tuple(version.job for version in versions), versions[-1].job.version)
    (cut,) = AppliedCalendars(connection, at - REACH).applied([history])
    return tuple(Version(job, actors[job.version]) for job in cut.versions)


def _missed_range(connection: Connection, job_id: str, at: Instant) -> MissedRange | None:
    covering = (gaps.c.job_id == job_id, gaps.c.start_at <= at, gaps.c.end_at > at)
    columns = (gaps.c.job_id, gaps.c.start_at, gaps.c.end_at, gaps.c.count, gaps.c.reason)
    row = connection.execute(select(*columns).where(*covering).order_by(gaps.c.start_at.desc()).limit(1)).first()
    return None if row is None else MissedRange(*row)


def _terms(connection: Connection, since: Instant, now: Instant) -> tuple[Term, ...]:
    """Read the last term before an instant, all later terms, and the present one."""
    columns = (_T.term, _T.holder, _T.began_at, _T.confirmed_at, _T.ended_at, _T.ending)
    ended = select(*columns).where(_T.shard == _SHARD)
    before = connection.execute(ended.where(_T.ended_at < since).order_by(_T.term.desc()).limit(1)).all()
    after = connection.execute(ended.where(_T.ended_at >= since).order_by(_T.term).limit(_TERMS)).all()
    lease = connection.execute(select(leases).where(_L.shard == _SHARD, _L.term > 0)).first()
    present = [] if lease is None else [_present_term(lease, now)]
    return (*(Term(*row) for row in (*before, *after)), *present)


def _present_term(lease: Row[Any], now: Instant) -> Term:
    confirmed_at = lease.expires_at if lease.resigned else lease.expires_at - lease.ttl
    ended_at = None if now < lease.expires_at else lease.expires_at
    return Term(lease.term, lease.holder, lease.acquired_at, confirmed_at, ended_at, None)


def _audit_entries(connection: Connection, run_id: str) -> tuple[AuditEntry, ...]:
    newest = (
        select(*AUDIT_COLUMNS)
        .where(audit_log.c.subject == run_id)
        .order_by(audit_log.c.id.desc())
        .limit(_AUDIT_ENTRIES)
    )
    return tuple(AuditEntry(*row) for row in reversed(connection.execute(newest).all()))
