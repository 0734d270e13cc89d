"""Pruning in SQL: finds old rows by scanning an index from its old end, and deletes them by their ids.

Promises: each step reads a bounded number of rows outside any transaction; each write transaction deletes a bounded
number. A row that must stay is skipped and never locked. Never decides which age is old.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Integer,
    Select,
    Table,
    Text,
    and_,
    bindparam,
    delete,
    exists,
    func,
    literal,
    not_,
    or_,
    select,
    update,
)
from sqlalchemy import tuple_ as row_of

from itinerary.protocol.instants import Instant
from scheduler_service.core.contract.pruning import Needs, Past
from scheduler_service.core.model import Lease
from scheduler_service.ports.pruning import Name, Pruning, Scanned, Sweep
from scheduler_service.sql.batch import Batch, judged
from scheduler_service.sql.control_tables import calendar_versions, freezes
from scheduler_service.sql.database import Database
from scheduler_service.sql.fence import fenced
from scheduler_service.sql.record_tables import audit_log, leaderships
from scheduler_service.sql.sign_in_tables import sessions, share_links
from scheduler_service.sql.tables import IS_FINAL, IS_UNPLANNED, cursors, gaps, job_versions, jobs, runs

_SHARD: Final = 0
_UNPLANNED_AT_ONCE: Final = 1_000
_IDS: Final = Batch(row=BigInteger)
_VERSIONS: Final = Batch(named=Text, version=Integer)
_JOBS: Final = Batch(job_id=Text)


@dataclass(frozen=True, slots=True)
class _Source:
    """A table, scanned in the order of `key`, whose last part names the row, up to `within`.

    Without `within`, a key that `grows` grows roughly with time: a step that finds nothing ends the scan.
    """

    table: Table
    key: tuple[ColumnElement[Any], ...]
    is_over: Callable[[Instant], ColumnElement[bool]]
    within: Callable[[Instant], ColumnElement[bool]] | None = None
    names: int = 1
    """How many of the key's last parts name the row."""
    grows: bool = True

    def name(self, key: tuple[Any, ...]) -> Name:
        return key[-1] if self.names == 1 else (key[-2], key[-1])


def _run_is_over(before: Instant) -> ColumnElement[bool]:
    later = runs.alias("later")
    follows = row_of(later.c.scheduled_at, later.c.id) > row_of(runs.c.scheduled_at, runs.c.id)
    is_followed = exists().where(later.c.job_id == runs.c.job_id, follows)
    is_orphan = exists().where(jobs.c.job_id == runs.c.job_id, jobs.c.deleted)
    has_successor = or_(runs.c.job_id.is_(None), is_followed, is_orphan)
    return and_(IS_FINAL, runs.c.scheduled_at < before, runs.c.finished_at < before, has_successor)


def _version_is_over(before: Instant) -> ColumnElement[bool]:
    version, following, later = job_versions.c, job_versions.alias("following"), job_versions.alias("later")

    def is_next(table: Any) -> ColumnElement[bool]:
        return and_(table.c.job_id == version.job_id, table.c.version == version.version + 1)

    is_followed = exists().where(is_next(following), following.c.effective_from < before)
    is_planned = exists().where(jobs.c.job_id == version.job_id, jobs.c.planned_version > version.version)
    of_its_time = and_(runs.c.scheduled_at >= version.effective_from, runs.c.scheduled_at < later.c.effective_from)
    has_runs = exists().where(is_next(later), runs.c.job_id == version.job_id, of_its_time)
    return and_(
        *(each.correlate(job_versions) for each in (is_followed, is_planned)), ~has_runs.correlate(job_versions)
    )


def _job_is_over(before: Instant) -> ColumnElement[bool]:
    is_known = (exists().where(runs.c.job_id == jobs.c.job_id), exists().where(gaps.c.job_id == jobs.c.job_id))
    return and_(jobs.c.deleted, jobs.c.effective_from < before, not_(IS_UNPLANNED), *map(not_, is_known))


def _by_end(table: Table) -> _Source:
    """Return the source of a table whose rows are over at `ends_at`."""

    def is_over(before: Instant) -> ColumnElement[bool]:
        return table.c.ends_at < before

    return _Source(table, (table.c.ends_at, table.c.id), is_over, is_over)


_SOURCES: Final = {
    Past.RUNS: _Source(
        runs, (runs.c.scheduled_at, runs.c.id), _run_is_over, lambda before: runs.c.scheduled_at < before
    ),
    Past.GAPS: _Source(
        gaps, (gaps.c.end_at, gaps.c.id), lambda before: gaps.c.end_at < before, lambda before: gaps.c.end_at < before
    ),
    Past.AUDIT_LOG: _Source(audit_log, (audit_log.c.id,), lambda before: audit_log.c.at < before),
    Past.LEADERSHIPS: _Source(leaderships, (leaderships.c.term,), lambda before: leaderships.c.ended_at < before),
    Past.FREEZES: _by_end(freezes),
    Past.CALENDAR_VERSIONS: _Source(
        calendar_versions,
        (calendar_versions.c.ended_at, calendar_versions.c.calendar_id, calendar_versions.c.version),
        lambda before: calendar_versions.c.ended_at < before,
        lambda before: calendar_versions.c.ended_at < before,
        names=2,
    ),
    Past.SESSIONS: _by_end(sessions),
    Past.SHARE_LINKS: _by_end(share_links),
    Past.JOB_VERSIONS: _Source(
        job_versions, (job_versions.c.job_id, job_versions.c.version), _version_is_over, names=2, grows=False
    ),
    Past.JOBS: _Source(
        jobs,
        (jobs.c.effective_from, jobs.c.job_id),
        _job_is_over,
        lambda before: and_(jobs.c.deleted, jobs.c.effective_from < before),
    ),
}


def _unplanned_since(connection: Connection) -> Instant | None:
    """The start of the oldest version that waits to be planned.

    PostgreSQL takes most jobs for unplanned, since it compares no columns: only a page in order is read by the index.
    """
    found, after = list[Instant](), ""
    while True:
        page = connection.execute(_unplanned(), {"after": after}).all()
        found += [since for _, since in page if since is not None]
        if len(page) < _UNPLANNED_AT_ONCE:
            return min(found, default=None)
        after = page[-1].job_id


@cache
def _unplanned() -> Select[Any]:
    following = (
        select(jobs.c.job_id, jobs.c.planned_version)
        .where(IS_UNPLANNED, jobs.c.job_id > bindparam("after", type_=Text))
        .order_by(jobs.c.job_id)
        .limit(_UNPLANNED_AT_ONCE)
        .subquery("unplanned")
    )
    waits = (job_versions.c.job_id == following.c.job_id, job_versions.c.version > following.c.planned_version)
    since = select(func.min(job_versions.c.effective_from)).where(*waits).scalar_subquery()
    return select(following.c.job_id, since)


class SqlPruning(Pruning):
    """Pruning on SQLite and PostgreSQL. Give it a `database` of its own, so that nothing waits for its connection."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def needs(self) -> Needs:
        oldest = select(runs.c.scheduled_at).order_by(runs.c.scheduled_at, runs.c.id).limit(1).scalar_subquery()
        since = func.coalesce(cursors.c.pruned_until, oldest)
        planned = select(cursors.c.materialised_until, since).where(cursors.c.shard == _SHARD)
        with self._database.read() as connection:
            now = self._database.read_clock(connection)
            cursor, history_since = connection.execute(planned).first() or (None, None)
            return Needs(now, cursor, _unplanned_since(connection), history_since)

    def scan(self, past: Past, before: Instant, after: tuple[int | str, ...] | None, limit: int) -> Scanned:
        source = _SOURCES[past]
        step = select(*source.key, source.is_over(before).label("may_go")).order_by(*source.key).limit(limit)
        if source.within is not None:
            step = step.where(source.within(before))
        if after is not None:
            key = [literal(value, column.type) for value, column in zip(after, source.key, strict=True)]
            step = step.where(row_of(*source.key) > row_of(*key))
        with self._database.read() as connection:
            rows = [tuple(row) for row in connection.execute(step)]
        may_go = tuple(source.name(row[:-1]) for row in rows if row[-1])
        is_end = len(rows) < limit or (source.within is None and source.grows and not may_go)
        return Scanned(may_go, None if is_end else rows[-1][:-1])

    def prune(self, lease: Lease | None, past: Past, ids: Sequence[Name], before: Instant) -> int:
        if past is Past.JOBS:
            return self._prune_jobs(lease, ids, before)
        source, number = _SOURCES[past], 0
        wanted, row = (_VERSIONS, row_of(*source.key[-2:])) if source.names > 1 else (_IDS, source.key[-1])
        batch = wanted.rows(self._database.dialect)
        named = delete(source.table).where(row.in_(select(*batch.c)), judged(source.key[-1], source.is_over(before)))
        with self._writing(lease) as connection:
            for chunk in wanted.chunks([name if isinstance(name, tuple) else (name,) for name in ids]):
                number += connection.execute(named, chunk).rowcount
        return number

    def _prune_jobs(self, lease: Lease | None, ids: Sequence[Name], before: Instant) -> int:
        """Delete jobs, locked first in the order of ids, as everywhere; a job created again just now stays whole."""
        over = judged(jobs.c.job_id, _job_is_over(before))
        named = jobs.c.job_id.in_(select(_JOBS.rows(self._database.dialect).c.job_id))
        locked = select(jobs.c.job_id).where(named, over).order_by(jobs.c.job_id).with_for_update()
        number = 0
        with self._writing(lease) as connection:
            for chunk in _JOBS.chunks([(name,) for name in ids]):
                gone = connection.execute(locked, chunk).scalars().all()
                for these in _JOBS.chunks([(job_id,) for job_id in gone]):
                    batch = select(_JOBS.rows(self._database.dialect).c.job_id)
                    connection.execute(delete(job_versions).where(job_versions.c.job_id.in_(batch)), these)
                    number += connection.execute(delete(jobs).where(jobs.c.job_id.in_(batch)), these).rowcount
        return number

    def begin(self, lease: Lease | None, before: Instant) -> None:
        is_news = or_(cursors.c.pruned_until.is_(None), cursors.c.pruned_until < before)
        with self._writing(lease) as connection:
            noted = update(cursors).where(cursors.c.shard == _SHARD, is_news).values(pruned_until=before)
            connection.execute(noted)

    def end(self, lease: Lease | None) -> None:
        with self._writing(lease) as connection:
            now = self._database.read_clock(connection)
            connection.execute(update(cursors).where(cursors.c.shard == _SHARD).values(swept_at=now))

    def last_sweep(self) -> Sweep:
        noted = select(cursors.c.pruned_until, cursors.c.swept_at).where(cursors.c.shard == _SHARD)
        with self._database.read() as connection:
            row = connection.execute(noted).first()
        return Sweep(None, None) if row is None else Sweep(*row)

    def count(self, past: Past, before: Instant, most: int) -> int:
        source = _SOURCES[past]
        found = select(literal(1).label("one")).select_from(source.table).where(source.is_over(before)).limit(most)
        with self._database.read() as connection:
            return int(connection.execute(select(func.count()).select_from(found.subquery())).scalar_one())

    def _writing(self, lease: Lease | None) -> AbstractContextManager[Connection]:
        return self._database.write() if lease is None else fenced(self._database, lease)
