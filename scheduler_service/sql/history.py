"""The whole history, in the form that the invariants check.

Promises one snapshot of the database, streamed: a million runs need little memory, and concurrent writers neither wait
nor appear half. Only reads.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import groupby
from typing import Any, Final

from sqlalchemy import Connection, Row, Select, select

from itinerary.protocol.instants import MINUTE, Instant
from scheduler_service.core.invariants.history import History, RunFacts
from scheduler_service.core.model import MissedRange
from scheduler_service.sql import job_rows
from scheduler_service.sql.database import Bounds, Database
from scheduler_service.sql.dialect import Dialect, dialect_of
from scheduler_service.sql.run_rows import ATTEMPT_COLUMNS, RUN_COLUMNS, ended_attempt, overlap_of, whole_run
from scheduler_service.sql.tables import cursors, gaps, run_attempts, runs

# Reading everything takes long, and the connection is idle while the rows read are checked.
HISTORY_BOUNDS: Final = Bounds(statement=60 * MINUTE, idle=60 * MINUTE)
_AT_ONCE: Final = 1_000


@contextmanager
def read_history(database: Database, since: Instant | None = None, shard: int = 0) -> Iterator[History]:
    """Yield the history, without runs before `since` and before the pruning limit; its runs can be iterated once.

    `database` needs HISTORY_BOUNDS if there is much to read.
    """
    with database.read() as connection:
        _take_snapshot(connection)
        now = database.read_clock(connection)
        progress = select(cursors.c.materialised_until, cursors.c.pruned_until).where(cursors.c.shard == shard)
        cursor, pruned_until = connection.execute(progress).first() or (None, None)
        since = max((at for at in (since, pruned_until) if at is not None), default=None)
        jobs = job_rows.histories(connection, since)
        yield History(now, cursor, since, jobs, _missed_ranges(connection), _runs(connection, since))


def _take_snapshot(connection: Connection) -> None:
    if dialect_of(connection) is Dialect.POSTGRESQL:
        connection.execution_options(isolation_level="REPEATABLE READ")
    else:
        connection.exec_driver_sql("BEGIN")  # rolled back when the connection goes back to its pool


def _missed_ranges(connection: Connection) -> list[MissedRange]:
    kept = select(gaps.c.job_id, gaps.c.start_at, gaps.c.end_at, gaps.c.count, gaps.c.reason)
    return [MissedRange(*row) for row in connection.execute(kept.order_by(gaps.c.job_id, gaps.c.start_at))]


def _runs(connection: Connection, since: Instant | None) -> Iterator[RunFacts]:
    rows = connection.execution_options(yield_per=_AT_ONCE).execute(_with_attempts(since))
    for _, of_run in groupby(rows, key=lambda row: row.id):
        yield _facts(list(of_run))


def _with_attempts(since: Instant | None) -> Select[Any]:
    ended = [column.label(f"of_{column.name}") for column in ATTEMPT_COLUMNS]
    found = (
        select(*RUN_COLUMNS, runs.c.id, runs.c.retries, runs.c.overlap, runs.c.recalled_at, *ended)
        .outerjoin(run_attempts, run_attempts.c.run_id == runs.c.run_id)
        .order_by(runs.c.job_id, runs.c.scheduled_at, runs.c.id, run_attempts.c.attempt)
    )
    return found if since is None else found.where(runs.c.scheduled_at >= since)


def _facts(rows: list[Row[Any]]) -> RunFacts:
    first = rows[0]
    run = whole_run(first[: len(RUN_COLUMNS)])
    ended = [tuple(row[-len(ATTEMPT_COLUMNS) :]) for row in rows if row.of_attempt is not None]
    return RunFacts(
        run.run_id, run.kind, run.job_id, run.job_version, run.queue, run.scheduled_at, run.due_at, run.state,
        run.attempt, run.retry.max_attempts, first.retries, overlap_of(first.overlap), run.timeout,
        run.reason, run.pending_at, run.started_at, run.finished_at, tuple(map(ended_attempt, ended)),
        run.cancel_requested_at, first.recalled_at,
    )  # fmt: skip
