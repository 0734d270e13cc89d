"""The planner's writes: new and retracted runs, missed ranges, planned versions, and the cursor, in one transaction.

Promises that repeating the same CreateRuns changes nothing. Decides nothing.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Connection,
    Delete,
    Integer,
    Text,
    Update,
    and_,
    bindparam,
    delete,
    exists,
    literal_column,
    or_,
    select,
    true,
    update,
)

from itinerary.protocol.instants import Instant
from scheduler_service.core.leader.commands import Retract
from scheduler_service.core.model import MissedRange, NewRun
from scheduler_service.core.run_state import RunState
from scheduler_service.sql.batch import Batch, judged
from scheduler_service.sql.column_types import InstantColumn
from scheduler_service.sql.dialect import Dialect, dialect_of
from scheduler_service.sql.ready import ReadyStatement
from scheduler_service.sql.run_rows import NEW_RUNS, new_run_row
from scheduler_service.sql.tables import IS_OCCURRENCE, cursors, gaps, jobs, runs

_RETRACTS: Final = Batch(job_id=Text, version=Integer, start=InstantColumn)
_MISSED_RANGES: Final = Batch(job_id=Text, start_at=InstantColumn, end_at=InstantColumn, count=BigInteger, reason=Text)
_PLANNED: Final = Batch(job_id=Text, version=Integer)
_NOW: Final = bindparam("now", type_=InstantColumn)


def retract(connection: Connection, retracts: Sequence[Retract]) -> None:
    """Delete occurrences of older versions that were never dispatched and that nobody asked to cancel.

    The message of a recalled one still lies in its queue: a row created anew could start twice. Missed ranges of that
    time go too, unless the version is planned already: then this is a repetition, and they are its own.
    """
    for chunk in _RETRACTS.chunks([(r.job_id, r.version, r.start) for r in retracts]):
        connection.execute(_retract(dialect_of(connection)), chunk)
        connection.execute(_retract_missed_ranges(dialect_of(connection)), chunk)


def insert_missing(connection: Connection, new: Sequence[NewRun], now: Instant) -> set[str]:
    """Insert the runs whose id, occurrence and idempotency key are free; return the ids of those created."""
    created: set[str] = set()
    for chunk in NEW_RUNS.chunks(new_run_row(run, now) for run in new):
        created.update(run_id for (run_id,) in _INSERT.rows(connection, {**chunk, "now": now}))
    return created


def keep_missed_ranges(connection: Connection, new: Sequence[MissedRange]) -> list[MissedRange]:
    """Record the missed ranges; one that continues a recorded range of the same reason extends it.

    Returns the ranges that were not recorded before.
    """
    kept: set[tuple[str, Instant]] = set()
    for chunk in _chunks(new):
        kept.update(map(tuple, connection.execute(_lengthen(dialect_of(connection)), chunk)))
        kept.update(map(tuple, connection.execute(_insert_missed_ranges(dialect_of(connection)), chunk)))
    return [missed_range for missed_range in new if (missed_range.job_id, missed_range.end) in kept]


def add_to_missed_ranges(connection: Connection, news: Sequence[MissedRange]) -> None:
    """Like keep_missed_ranges, but the caller guarantees the ranges are new."""
    longer: set[tuple[str, Instant]] = set()
    for chunk in _chunks(news):
        longer.update(map(tuple, connection.execute(_lengthen(dialect_of(connection)), chunk)))
    for chunk in _chunks(
        [missed_range for missed_range in news if (missed_range.job_id, missed_range.end) not in longer]
    ):
        connection.execute(_add_missed_ranges(dialect_of(connection)), chunk)


def _chunks(new: Sequence[MissedRange]) -> Iterator[dict[str, Any]]:
    return _MISSED_RANGES.chunks([(g.job_id, g.start, g.end, g.count, g.reason) for g in new])


def mark_planned(connection: Connection, planned: Sequence[tuple[str, int]]) -> None:
    """Record the planned version, even if the job has a newer one, so it is not planned twice.

    Locks jobs in the order of their ids, as everywhere.
    """
    for chunk in _PLANNED.chunks(sorted(planned)):
        connection.execute(_mark_planned(dialect_of(connection)), chunk)


def advance(connection: Connection, shard: int, cursor: Instant, *, back: bool) -> None:
    """Advance the shard's cursor; it goes back only if `back` asks for that.

    It goes back after the clock had jumped ahead. The pruning limit then goes back too, since rows planned from now on
    are not pruned.
    """
    (_SET_BACK if back else _ADVANCE).count(connection, {"of_shard": shard, "cursor": cursor})
    if back:
        too_far = (cursors.c.shard == shard, cursors.c.pruned_until > cursor)
        connection.execute(update(cursors).where(*too_far).values(pruned_until=cursor))


def _set_cursor(back: bool) -> Update:
    kept, cursor = cursors.c.materialised_until, bindparam("cursor", type_=InstantColumn)
    known = cursors.c.shard == bindparam("of_shard", type_=Integer)
    is_behind = () if back else (or_(kept.is_(None), kept < cursor),)
    return update(cursors).where(known, *is_behind).values(materialised_until=cursor)


@cache
def _retract(dialect: Dialect) -> Delete:
    batch = _RETRACTS.rows(dialect)
    untouched = (
        runs.c.state == literal_column(f"'{RunState.SCHEDULED}'"),
        IS_OCCURRENCE,
        runs.c.seq == 0,
        runs.c.job_version < batch.c.version,
        runs.c.cancel_requested_at.is_(None),
    )
    # An edit is recent: its job has few rows after it, while the index of tracked runs holds those of all jobs.
    later = and_(runs.c.job_id == batch.c.job_id, runs.c.scheduled_at >= batch.c.start)
    older = select(runs.c.id).select_from(batch.join(runs, later)).where(judged(batch.c.job_id, and_(*untouched)))
    return delete(runs).where(runs.c.id.in_(older))


@cache
def _retract_missed_ranges(dialect: Dialect) -> Delete:
    batch = _RETRACTS.rows(dialect)
    later = and_(gaps.c.job_id == batch.c.job_id, gaps.c.start_at >= batch.c.start)
    edited = batch.join(jobs, jobs.c.job_id == batch.c.job_id).join(gaps, later)
    unplanned = judged(batch.c.job_id, jobs.c.planned_version < batch.c.version)
    return delete(gaps).where(gaps.c.id.in_(select(gaps.c.id).select_from(edited).where(unplanned)))


def _insert(dialect: Dialect) -> Any:
    batch = NEW_RUNS.rows(dialect)
    rows = select(*batch.c, _NOW.label("created_at")).where(true())
    insert = dialect.insert(runs).from_select([*batch.c.keys(), "created_at"], rows)
    return insert.on_conflict_do_nothing().returning(runs.c.run_id)


@cache
def _lengthen(dialect: Dialect) -> Update:
    before = gaps.alias("before")
    batch = _MISSED_RANGES.rows(dialect)
    # Not by their end: many jobs have ranges that end at the same instant.
    last = (
        select(before.c.id)
        .where(before.c.job_id == batch.c.job_id, before.c.start_at < batch.c.start_at)
        .order_by(before.c.start_at.desc())
        .limit(1)
        .correlate(batch)
        .scalar_subquery()
    )
    return (
        update(gaps)
        .where(
            gaps.c.id == last,
            judged(batch.c.job_id, and_(gaps.c.reason == batch.c.reason, gaps.c.end_at == batch.c.start_at)),
        )
        .values(end_at=batch.c.end_at, count=gaps.c.count + batch.c["count"])
        .returning(gaps.c.job_id, gaps.c.end_at)
    )


@cache
def _insert_missed_ranges(dialect: Dialect) -> Any:
    batch = _MISSED_RANGES.rows(dialect)
    covered = exists().where(
        gaps.c.job_id == batch.c.job_id,
        gaps.c.reason == batch.c.reason,
        gaps.c.start_at <= batch.c.start_at,
        gaps.c.end_at >= batch.c.end_at,
    )
    insert = dialect.insert(gaps).from_select(list(batch.c.keys()), select(*batch.c).where(~covered))
    return insert.returning(gaps.c.job_id, gaps.c.end_at)


@cache
def _add_missed_ranges(dialect: Dialect) -> Any:
    batch = _MISSED_RANGES.rows(dialect)
    return dialect.insert(gaps).from_select(list(batch.c.keys()), select(*batch.c).where(true()))


@cache
def _mark_planned(dialect: Dialect) -> Update:
    batch = _PLANNED.rows(dialect)
    return (
        update(jobs)
        .where(
            jobs.c.job_id == batch.c.job_id,
            jobs.c.planned_version < batch.c.version,
            batch.c.version <= jobs.c.version,
        )
        .values(planned_version=batch.c.version)
    )


_INSERT: Final = ReadyStatement(_insert)
_ADVANCE: Final = ReadyStatement(lambda _: _set_cursor(back=False))
_SET_BACK: Final = ReadyStatement(lambda _: _set_cursor(back=True))
