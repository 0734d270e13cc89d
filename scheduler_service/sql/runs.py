"""RunStore in SQL: enqueues, reads and cancels runs for all callers except the leader.

Promises: an idempotency key names one run forever, even under concurrent requests; a cancel request is never lost
between two states. Never changes a run's state except to `cancelled`.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any, Final

from sqlalchemy import (
    Connection,
    Select,
    Text,
    Update,
    bindparam,
    case,
    exists,
    func,
    select,
    update,
)

from itinerary.protocol.errors import Conflict, NotFound, StoreUnavailable
from itinerary.protocol.json_text import is_storable
from scheduler_service.core.audit import AuditedChange
from scheduler_service.core.contract.limit_uses import named_limits
from scheduler_service.core.contract.request_keys import shown_key
from scheduler_service.core.contract.run_requests import refuse_new
from scheduler_service.core.model import NewRun, Run
from scheduler_service.core.run_state import RunState
from scheduler_service.ports.lists import NEWEST_FIRST, Order, RunSort
from scheduler_service.ports.stores import Page, RunFilter, RunStore
from scheduler_service.sql.audit import record, record_enqueue
from scheduler_service.sql.batch import Batch
from scheduler_service.sql.column_types import InstantColumn
from scheduler_service.sql.database import Database, again_when_busy
from scheduler_service.sql.dialect import Dialect
from scheduler_service.sql.job_limits import known_limits
from scheduler_service.sql.leader import planning
from scheduler_service.sql.record_tables import audit_log
from scheduler_service.sql.run_lists import page_of_runs
from scheduler_service.sql.run_rows import ATTEMPT_COLUMNS, RUN_COLUMNS, ended_attempt, whole_run
from scheduler_service.sql.run_windows import page_in_windows
from scheduler_service.sql.tables import IS_ACTIVE, WAITS, run_attempts, runs

CANCELLED_EARLY: Final = "cancelled on request, before it was released"
_NAMES: Final = Batch(name=Text)
_RUN_ID: Final = bindparam("asked", type_=Text)
_NOW: Final = bindparam("now", type_=InstantColumn)


class SqlRunStore(RunStore):
    """RunStore on SQLite and PostgreSQL."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._dialect = database.dialect

    @again_when_busy
    def enqueue(self, new: Sequence[NewRun], *, by: AuditedChange | None = None) -> list[tuple[Run, bool]]:
        """Keys are inserted in their order, so that two batches with the same keys do not deadlock."""
        in_order = sorted(new, key=lambda run: run.idempotency_key or "")
        with self._database.write() as connection:
            now = self._database.read_clock(connection)
            older = self._by_older_key(connection, by, new)
            fresh = [run for run in in_order if run.run_id not in older]
            created = planning.insert_missing(connection, fresh, now)
            names = {limit.name for run in new if run.run_id in created for limit in named_limits(run)}
            refuse_new(new, created, now, known_limits(connection, names))
            if created:
                record_enqueue(connection, now, by, [run for run in new if run.run_id in created])
            created_runs = self._by_id(connection, [run.run_id for run in new if run.run_id in created])
            kept = self._by_key(connection, [run for run in fresh if run.run_id not in created])
        there = {
            run.run_id: kept[run.idempotency_key] for run in fresh if run.run_id not in created and run.idempotency_key
        }
        return [
            (created_runs[run.run_id], True) if run.run_id in created else ((older | there)[run.run_id], False)
            for run in new
        ]

    def get(self, run_id: str) -> Run:
        _check_name(run_id)
        with self._database.read() as connection:
            return read_whole(connection, run_id)

    def list(
        self, wanted: RunFilter, limit: int, cursor: str | None, order: Order[RunSort] = NEWEST_FIRST
    ) -> Page[Run]:
        if not is_storable(f"{wanted.job_id}{wanted.queue}{wanted.task}{wanted.limit_name}{wanted.limit_key}"):
            return Page([], None)
        with self._database.read() as connection:
            columns = (*RUN_COLUMNS, runs.c.id)
            now = self._database.read_clock(connection) if RunState.COMPLETED in wanted.states else 0
            if order.by is RunSort.SCHEDULED_AT:
                page = page_of_runs(connection, wanted, limit, cursor, columns, now=now, order=order)
            else:
                page = page_in_windows(connection, wanted, limit, cursor, columns, order, now)
        return Page([whole_run(row[:-1]) for row in page.items], page.next_cursor)

    @again_when_busy
    def request_cancel(self, run_id: str, *, by: AuditedChange | None = None) -> Run:
        """The row is locked first, so that no other transition comes in between."""
        _check_name(run_id)
        with self._database.write() as connection:
            now = self._database.read_clock(connection)
            before = connection.execute(_run().with_for_update(), {"asked": run_id}).first()
            connection.execute(_cancel(), {"asked": run_id, "now": now})
            after = read_whole(connection, run_id)
            if before is not None and before.cancel_requested_at != after.cancel_requested_at:
                record(connection, now, by, run_id, {"state": before.state}, {"state": after.state.value})
            return after

    def _by_id(self, connection: Connection, run_ids: Sequence[str]) -> dict[str, Run]:
        found: dict[str, Run] = {}
        for chunk in _NAMES.chunks([(run_id,) for run_id in run_ids]):
            found |= {row.run_id: whole_run(row) for row in connection.execute(_runs_by_id(self._dialect), chunk)}
        return found

    def _by_older_key(self, connection: Connection, by: AuditedChange | None, new: Sequence[NewRun]) -> dict[str, Run]:
        """Find, by the new runs' ids, runs that an older release stored for this caller under the bare keys.

        The audit log identifies the caller: the row of its request has exactly the time of its run.
        """
        asked = {run.older[0]: run for run in new if run.older[0] is not None}
        found: dict[str, Run] = {}
        for chunk in _NAMES.chunks([(key,) for key in asked] if by is not None else []):
            own = {**chunk, "actor": by.actor if by else ""}
            for row in connection.execute(_runs_by_older_key(self._dialect), own):
                *columns, key, request_hash = row
                _check_request(asked[key], request_hash)
                found[asked[key].run_id] = whole_run(columns)
        return found

    def _by_key(self, connection: Connection, new: Sequence[NewRun]) -> dict[str, Run]:
        """The existing runs with these keys; Conflict if one came from another request, or an id is taken."""
        keys = {run.idempotency_key for run in new if run.idempotency_key is not None}
        found: dict[str, tuple[Run, str | None]] = {}
        for chunk in _NAMES.chunks([(key,) for key in keys]):
            for row in connection.execute(_runs_by_key(self._dialect), chunk):
                *columns, key, request_hash = row
                found[key] = (whole_run(columns), request_hash)
        for run in new:
            if run.idempotency_key is None:
                raise Conflict(f"run {run.run_id} exists", "run-exists")
            if run.idempotency_key not in found:  # its run was pruned after the insert conflicted with it
                raise StoreUnavailable(f"{_key_text(run)} belonged to a run that was pruned just now; try again")
            _check_request(run, found[run.idempotency_key][1])
        return {key: run for key, (run, _) in found.items()}


def _check_request(run: NewRun, stored_hash: str | None) -> None:
    if stored_hash != run.request_hash and (stored_hash is None or stored_hash != run.older[1]):
        raise Conflict(f"{_key_text(run)} was used for another request", "key-reused")


def _key_text(run: NewRun) -> str:
    return f"idempotency key {shown_key(run.idempotency_key or '')!r}"


def read_whole(connection: Connection, run_id: str) -> Run:
    """The record of a run with its attempts; NotFound."""
    row = connection.execute(_run(), {"asked": run_id}).first()
    if row is None:
        raise NotFound(f"no run {run_id}")
    run = whole_run(row)
    kept = [ended_attempt(row) for row in connection.execute(_kept_attempts(), {"asked": run_id})]
    late = next((attempt.late for attempt in kept if attempt.attempt == run.attempt), None)
    return replace(run, attempts=tuple(a for a in kept if a.attempt < run.attempt), late=late)


def _check_name(run_id: str) -> None:
    if not is_storable(run_id):
        raise NotFound(f"no run {run_id!r}")


@cache
def _cancel() -> Update:
    return cancelled_or_asked().where(runs.c.run_id == _RUN_ID, IS_ACTIVE)


def cancelled_or_asked() -> Update:
    """Cancel waiting runs; for runs in flight the leader must take the claim or stop the task. Parameter: `now`."""
    ends = {"state": RunState.CANCELLED.value, "reason": CANCELLED_EARLY, "finished_at": _NOW}
    values: dict[str, Any] = {name: case((WAITS, value), else_=runs.c[name]) for name, value in ends.items()}
    values["cancel_requested_at"] = func.coalesce(runs.c.cancel_requested_at, _NOW)
    return update(runs).values(values)


@cache
def _run() -> Select[Any]:
    return select(*RUN_COLUMNS).where(runs.c.run_id == _RUN_ID)


@cache
def _kept_attempts() -> Select[Any]:
    return select(*ATTEMPT_COLUMNS).where(run_attempts.c.run_id == _RUN_ID).order_by(run_attempts.c.attempt)


@cache
def _runs_by_id(dialect: Dialect) -> Select[Any]:
    batch = _NAMES.rows(dialect)
    return select(*RUN_COLUMNS).join(batch, runs.c.run_id == batch.c.name)


@cache
def _runs_by_key(dialect: Dialect) -> Select[Any]:
    batch = _NAMES.rows(dialect)
    columns = (*RUN_COLUMNS, runs.c.idempotency_key, runs.c.request_hash)
    return select(*columns).join(batch, runs.c.idempotency_key == batch.c.name)


@cache
def _runs_by_older_key(dialect: Dialect) -> Select[Any]:
    actor = bindparam("actor", type_=Text)
    own = exists().where(audit_log.c.at == runs.c.created_at, audit_log.c.actor == actor)
    return _runs_by_key(dialect).where(own)
