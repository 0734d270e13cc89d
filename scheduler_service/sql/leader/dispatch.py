"""Dispatch of due runs to `pending`, and the new message number of a run that is published again.

Promises: only one caller dispatches a run, however many ask at once; runs returned as dispatched are committed with
their `seq` when the transaction is. Never publishes.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from sqlalchemy import (
    CTE,
    BigInteger,
    ColumnElement,
    Connection,
    Integer,
    Subquery,
    Text,
    Update,
    and_,
    bindparam,
    case,
    false,
    func,
    literal_column,
    not_,
    null,
    or_,
    select,
    true,
    update,
)

from itinerary.protocol.instants import Instant
from scheduler_service.core.leader.commands import Dispatch
from scheduler_service.core.model import DispatchedRun
from scheduler_service.core.run_state import RunState
from scheduler_service.ports.stores import Dispatched
from scheduler_service.sql.batch import Batch, judged
from scheduler_service.sql.column_types import InstantColumn
from scheduler_service.sql.controls import VERSION, control_version
from scheduler_service.sql.dialect import Dialect
from scheduler_service.sql.ready import ReadyStatement
from scheduler_service.sql.run_rows import DISPATCHED_COLUMNS, dispatched_run
from scheduler_service.sql.tables import IS_OCCURRENCE, WAITS, jobs, runs

_DISPATCHES: Final = Batch(run_id=Text, attempt=Integer, seq=BigInteger, queue=Text)
_NOW: Final = bindparam("now", type_=InstantColumn)
_CONTROL: Final = bindparam("control", type_=BigInteger)
_TERM: Final = bindparam("leading_term", type_=BigInteger)


def dispatch(
    connection: Connection, term: int, dispatches: Sequence[Dispatch], now: Instant, control: int
) -> Dispatched:
    """Collect the runs that are still due and unchanged, lock them, then dispatch exactly these.

    Dispatches none if an edit of queues was committed since they were chosen; the transaction locks out the next edit.
    """
    facts = {"leading_term": term, "now": now, "control": control}
    answer = _dispatched(connection, _DISPATCH, dispatches, facts)
    if answer.refused and not answer.dispatched and control_version(connection) != control:
        return replace(answer, outdated=True)
    return answer


def redispatch(connection: Connection, term: int, dispatches: Sequence[Dispatch]) -> Dispatched:
    """Store the seq of the next publish of runs that are still pending and wanted, and not locked by another."""
    return _dispatched(connection, _REDISPATCH, dispatches, {"leading_term": term})


def _dispatched(
    connection: Connection, update_runs: ReadyStatement, dispatches: Sequence[Dispatch], facts: dict[str, Any]
) -> Dispatched:
    dispatched: dict[str, DispatchedRun] = {}
    for chunk in _DISPATCHES.chunks(map(tuple, dispatches)):
        for row in update_runs.rows(connection, {**chunk, **facts}):
            dispatched[row[0]] = dispatched_run(row)
    return Dispatched(
        tuple(dispatched[r.run_id] for r in dispatches if r.run_id in dispatched),
        tuple(r.run_id for r in dispatches if r.run_id not in dispatched),
    )


def _dispatch(dialect: Dialect) -> Update:
    batch = _DISPATCHES.rows(dialect)
    may_go = (
        WAITS,
        runs.c.attempt == batch.c.attempt,
        or_(batch.c.queue.is_(None), runs.c.queue == batch.c.queue),  # it may have been moved to another
        runs.c.due_at <= _NOW,
        runs.c.cancel_requested_at.is_(None),
        VERSION == _CONTROL,
    )
    collected = _collected(batch, and_(*may_go, _job_allows()))
    return (
        update(runs)
        .where(runs.c.id == collected.c.id, judged(collected.c.id, WAITS))
        .values(
            state=_literal(RunState.PENDING),
            pending_at=_NOW,
            term=_TERM,
            seq=collected.c.seq,
            reason=null(),
        )
        .returning(*DISPATCHED_COLUMNS)
    )


def _redispatch(dialect: Dialect) -> Update:
    batch = _DISPATCHES.rows(dialect)
    is_pending = runs.c.state == _literal(RunState.PENDING)
    still_wanted = and_(runs.c.attempt == batch.c.attempt, is_pending, runs.c.cancel_requested_at.is_(None))
    # Skip rows that a report has locked, for a later poll: two transactions that wait for each other's rows would
    # deadlock.
    collected = _collected(batch, still_wanted)
    return (
        update(runs)
        .where(runs.c.id == collected.c.id, judged(collected.c.id, is_pending))
        .values(term=_TERM, seq=collected.c.seq, published_at=null())
        .returning(*DISPATCHED_COLUMNS)
    )


def _collected(batch: Subquery, guard: ColumnElement[bool]) -> CTE:
    """The first phase: select and lock the runs that pass the guard, except rows locked by others."""
    return (
        select(runs.c.id, batch.c.seq)
        .select_from(batch.join(runs, runs.c.run_id == batch.c.run_id))
        .where(judged(batch.c.run_id, guard))
        .with_for_update(of=runs, skip_locked=True)
        .cte("collected")
    )


def _job_allows() -> ColumnElement[bool]:
    """Whether the run has no job, or its job exists, is planned at its version, and is not paused for this run.

    A run of a job that never existed may be dispatched: the leader ends it then.
    """
    # A pause that skips waiting runs also does so after its end, if no leader was active before.
    before_its_end = case((jobs.c.pause_skips, runs.c.scheduled_at), else_=_NOW) < jobs.c.paused_until
    in_pause = and_(jobs.c.paused, or_(jobs.c.paused_until.is_(None), before_its_end))
    held_back = and_(in_pause, IS_OCCURRENCE, runs.c.attempt == 1)
    allows = and_(jobs.c.planned_version == jobs.c.version, jobs.c.deleted == false(), not_(held_back))
    # No join: to merge, which may look cheap, PostgreSQL reads all jobs up to the last one that is named.
    return func.coalesce(select(allows).where(jobs.c.job_id == runs.c.job_id).correlate(runs).scalar_subquery(), true())


def _literal(state: RunState) -> ColumnElement[str]:
    return literal_column(f"'{state}'", Text)


_DISPATCH: Final = ReadyStatement(_dispatch)
_REDISPATCH: Final = ReadyStatement(_redispatch)
