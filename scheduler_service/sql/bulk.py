"""BulkStore in SQL: operations with their progress, each page in the transaction that notes it.

Promises that a killed process leaves each page done or not begun. Two processes never do the same page: the
operation's row is locked, and skipped by others. Old operations are removed when one begins.
"""

from dataclasses import asdict
from typing import Any, Final

import structlog
from sqlalchemy import Connection, Select, delete, func, literal, select, update
from uuid_utils.compat import uuid7

from itinerary.protocol.errors import Conflict, NotFound, StatementTimedOut, StoreUnavailable
from itinerary.protocol.instants import DAY, Instant
from scheduler_service.core.audit import AuditedChange, Caller
from scheduler_service.core.bulk import BulkAction, BulkOn, BulkOperation, BulkOrder, BulkProgress, BulkState
from scheduler_service.core.token_limits import Limits
from scheduler_service.ports.bulk import BulkStore, Stepped
from scheduler_service.ports.history import Total
from scheduler_service.ports.stores import Page
from scheduler_service.sql.audit import record
from scheduler_service.sql.bulk_jobs import jobs_page
from scheduler_service.sql.bulk_page import END_ACTION, PAGE_ACTION, Done
from scheduler_service.sql.bulk_runs import runs_page
from scheduler_service.sql.bulk_tables import UNFINISHED, bulk_operations
from scheduler_service.sql.bulk_undo import require_pages, undo_page
from scheduler_service.sql.database import Database, again_when_busy
from scheduler_service.sql.paging import page_of, read_cursor
from scheduler_service.sql.tables import runs

log = structlog.get_logger(__name__)

_KEPT: Final = 30 * DAY
_REMOVED_AT_ONCE: Final = 100
_B: Final = bulk_operations.c
_UNDO: Final = bulk_operations.alias("undo")
_UNDONE_BY: Final = (
    select(_UNDO.c.operation_id).where(_UNDO.c.undo_of == _B.operation_id).scalar_subquery().label("undone_by")
)
_COLUMNS: Final = (*_B, _UNDONE_BY)


class SqlBulkStore(BulkStore):
    """BulkStore on SQLite and PostgreSQL."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @again_when_busy
    def begin(
        self, order: BulkOrder, total: Total, who: Caller, key: str | None = None, request_hash: str | None = None
    ) -> tuple[BulkOperation, bool]:
        operation_id = str(uuid7())
        with self._database.write() as connection:
            now = self._database.read_clock(connection)
            _remove_old(connection, now)
            if order.undo_of is not None:
                _check_undo(self._get(connection, order.undo_of))
                require_pages(connection, order.undo_of)
            # One backward step of the primary key: later runs are not this operation's.
            last_run = connection.execute(select(func.coalesce(func.max(runs.c.id), 0))).scalar_one()
            row = {
                "operation_id": operation_id, "subject": order.on.value, "action": order.action.value,
                "filter": dict(order.filter), "options": dict(order.options), "limits": asdict(who.limits),
                "actor": who.name, "role": who.role, "idempotency_key": key, "request_hash": request_hash,
                "undo_of": order.undo_of, "state": BulkState.RUNNING.value, "last_run": last_run,
                "total": total.number, "total_more": total.more, "seen": 0, "counts": {}, "created_at": now,
                "updated_at": now,
            }  # fmt: skip
            wanted = self._database.dialect.insert(bulk_operations).on_conflict_do_nothing()
            if connection.execute(wanted.returning(_B.operation_id), row).first() is None:
                return self._there(connection, order, key, request_hash), False
            asked = {"filter": dict(order.filter), **order.options, "undo_of": order.undo_of, "total": total.number}
            record(connection, now, who.audited_change(_action_of(order)), operation_id, None, asked)
            return self._get(connection, operation_id), True

    @again_when_busy
    def step(self, operation_id: str | None = None) -> Stepped | None:
        """A page that can never succeed ends its operation as failed; a database that is away is an error as ever."""
        if not self._is_any():  # a write transaction holds up others on SQLite
            return None
        tried: set[str] = set()
        try:
            return self._step(operation_id, tried)
        except Exception as exc:
            passing = isinstance(exc, StoreUnavailable) and not isinstance(exc, StatementTimedOut)
            if passing or not tried:
                raise
            log.exception("bulk operation failed", operation_id=next(iter(tried)))
            return self._failed(tried.pop(), exc)

    def get(self, operation_id: str) -> BulkOperation:
        with self._database.read() as connection:
            return self._get(connection, operation_id)

    def list(self, actor: str | None, limit: int, cursor: str | None) -> Page[BulkOperation]:
        newest_first = select(*_COLUMNS).order_by(_B.operation_id.desc()).limit(limit + 1)
        if actor is not None:
            newest_first = newest_first.where(_B.actor == actor)
        if cursor is not None:
            newest_first = newest_first.where(_B.operation_id < read_cursor(cursor, str)[0])
        with self._database.read() as connection:
            rows = connection.execute(newest_first).all()
        return page_of(rows, limit, _operation, lambda row: [row.operation_id])

    @again_when_busy
    def stop(self, operation_id: str, who: Caller) -> BulkOperation:
        """Waits for the page under way, which holds the row."""
        with self._database.write() as connection:
            locked = select(_B.finished_at).where(_B.operation_id == operation_id).with_for_update()
            row = connection.execute(locked).first()
            if row is not None and row.finished_at is None:
                now = self._database.read_clock(connection)
                _finish(connection, operation_id, BulkState.STOPPED, now)
                record(connection, now, who.audited_change("bulk.stop"), operation_id, None, None)
            return self._get(connection, operation_id)

    def _is_any(self) -> bool:
        with self._database.read() as connection:
            return connection.execute(select(_B.operation_id).where(UNFINISHED).limit(1)).first() is not None

    def _step(self, operation_id: str | None, tried: set[str]) -> Stepped | None:
        with self._database.write() as connection:
            # In turns: a small one need not wait until a large one is over.
            free = select(_B.operation_id).where(UNFINISHED).order_by(_B.updated_at, _B.operation_id).limit(1)
            if operation_id is not None:
                free = free.where(_B.operation_id == operation_id)
            found = connection.execute(free.with_for_update(skip_locked=True)).scalar()
            if found is None:
                return None
            tried.add(found)
            row = connection.execute(select(*_COLUMNS).where(_B.operation_id == found)).one()
            before = _operation(row)
            now = self._database.read_clock(connection)
            # If we die before the commit, the page was never done; after it, the next one follows.
            done = _page(self._database, connection, before, row.place, row.last_run, now)
            _note(connection, before, done, now)
            return Stepped(self._get(connection, found), done.stopping, done.created, done.moved, done.jobs)

    def _failed(self, operation_id: str, error: Exception) -> Stepped:
        with self._database.write() as connection:
            now = self._database.read_clock(connection)
            _finish(connection, operation_id, BulkState.FAILED, now, error=str(error)[:1000] or repr(error))
            return Stepped(self._get(connection, operation_id))

    def _get(self, connection: Connection, operation_id: str) -> BulkOperation:
        row = connection.execute(select(*_COLUMNS).where(_B.operation_id == operation_id)).first()
        if row is None:
            raise NotFound(f"no bulk operation {operation_id}")
        return _operation(row)

    def _there(
        self, connection: Connection, order: BulkOrder, key: str | None, request_hash: str | None
    ) -> BulkOperation:
        same_key = select(*_COLUMNS).where(_B.idempotency_key == key)
        row = connection.execute(same_key).first() if key is not None else None
        if row is None:
            raise Conflict(f"operation {order.undo_of} was undone meanwhile", "not-undoable")
        if row.request_hash != request_hash:
            raise Conflict("this idempotency key was used for another request", "key-reused")
        return _operation(row)


def _page(
    database: Database, connection: Connection, before: BulkOperation, place: str | None, last_run: int, now: Instant
) -> Done:
    by = AuditedChange(before.actor, before.role, f"{before.order.on.value[:-1]}.{before.order.action}")
    if before.order.undo_of is not None:
        return undo_page(database, connection, before, place, now, by)
    if before.order.on is BulkOn.RUNS:
        return runs_page(database, connection, before, place, last_run, now)
    return jobs_page(connection, before, place, now, by)


def _note(connection: Connection, before: BulkOperation, done: Done, now: Instant) -> None:
    """Note the page in the operation's row and in the audit log, with the ids of all that it changed."""
    counts = dict(before.progress.counts)
    for outcome, number in done.counts.items():
        counts[outcome] = counts.get(outcome, 0) + number
    seen, over = before.progress.seen + done.seen, done.place is None
    state = BulkState.DONE if over else BulkState.RUNNING
    values = {"place": done.place, "seen": seen, "counts": counts, "state": state.value, "updated_at": now}
    noted = update(bulk_operations).where(_B.operation_id == before.operation_id)
    connection.execute(noted.values(**values, finished_at=now if over else None))
    if done.changed:
        by = AuditedChange(before.actor, before.role, PAGE_ACTION)
        record(connection, now, by, before.operation_id, None, {"changed": done.changed})
    if over:
        ended = AuditedChange(before.actor, before.role, END_ACTION)
        record(connection, now, ended, before.operation_id, None, {"counts": counts, "seen": seen})


def _finish(
    connection: Connection, operation_id: str, state: BulkState, now: Instant, error: str | None = None
) -> None:
    ended = update(bulk_operations).where(_B.operation_id == operation_id, UNFINISHED)
    connection.execute(ended.values(state=state.value, finished_at=now, updated_at=now, error=error))


def _remove_old(connection: Connection, now: Instant) -> None:
    over = _B.finished_at < literal(now - _KEPT, _B.finished_at.type)
    old: Select[Any] = select(_B.operation_id).where(over).order_by(_B.finished_at).limit(_REMOVED_AT_ONCE)
    connection.execute(delete(bulk_operations).where(_B.operation_id.in_(old)))


def _check_undo(before: BulkOperation) -> None:
    if before.order.undo_of is not None:
        raise Conflict("an undo is not undone; begin another operation", "not-undoable")
    if before.order.action is BulkAction.CANCEL:
        raise Conflict("a cancel cannot be undone; run the runs again with retry", "not-undoable")
    if not before.order.is_reversible:
        raise Conflict("deleted runs are gone; this cannot be undone", "not-undoable")
    if before.finished_at is None:
        raise Conflict("the operation is not over; stop it first", "not-undoable")
    if before.undone_by is not None:
        raise Conflict(f"it was undone already, by operation {before.undone_by}", "not-undoable")


def _action_of(order: BulkOrder) -> str:
    return f"bulk.{'undo' if order.undo_of else order.action}"


def _operation(row: Any) -> BulkOperation:
    limits = Limits(**{name: _tuple(value) for name, value in row.limits.items()})
    order = BulkOrder(BulkOn(row.subject), BulkAction(row.action), row.filter, row.options, row.undo_of)
    progress = BulkProgress(BulkState(row.state), row.seen, row.counts, row.error)
    return BulkOperation(
        row.operation_id, order, progress, row.total, row.total_more, row.actor, row.role, row.created_at,
        row.updated_at, row.finished_at, limits, row.undone_by,
    )  # fmt: skip


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
