"""The audit log in SQL: one row per change, in the transaction of the change itself.

Promises: a change has a row if, and only if, it is committed. Never changes or deletes a row.
"""

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, and_, insert, or_, select

from itinerary.protocol.errors import Conflict
from itinerary.protocol.instants import Instant, format_instant
from itinerary.protocol.json_text import is_storable
from scheduler_service.core.audit import AuditedChange, AuditEntry
from scheduler_service.core.contract.request_keys import shown_key
from scheduler_service.core.model import NewRun
from scheduler_service.ports.records import AuditFilter, AuditLog
from scheduler_service.ports.stores import Page
from scheduler_service.sql.database import Database
from scheduler_service.sql.paging import page_of, read_cursor
from scheduler_service.sql.record_tables import audit_log

_A: Final = audit_log.c
_KEYED_CHECKED: Final = 1_000
AUDIT_COLUMNS: Final = (_A.id, _A.at, _A.actor, _A.role, _A.action, _A.subject, _A.before, _A.after)


def record(
    connection: Connection, now: Instant, by: AuditedChange | None, subject: str | None, before: Any, after: Any
) -> None:
    """Record the change in the open transaction, unless it has no author."""
    if by is None:
        return
    row = {"at": now, "actor": by.actor, "role": by.role, "action": by.action, "subject": subject}
    connection.execute(insert(audit_log).values(**row, before=before, after=after))


def record_all(
    connection: Connection, now: Instant, by: AuditedChange | None, changes: Sequence[tuple[str, Any, Any]]
) -> None:
    """Record many changes of one request: subject, before, after."""
    if by is None or not changes:
        return
    head = {"at": now, "actor": by.actor, "role": by.role, "action": by.action}
    rows = [{**head, "subject": subject, "before": before, "after": after} for subject, before, after in changes]
    connection.execute(insert(audit_log), rows)


def record_enqueue(connection: Connection, now: Instant, by: AuditedChange | None, created: Sequence[NewRun]) -> None:
    """Record new runs: a single one with its request, several with their ids and their job if they share one."""
    keyed = {} if by is None or by.key is None else {"key": by.key, "request_hash": by.request_hash}
    if len(created) == 1 and not keyed:
        record(connection, now, by, created[0].job_id or created[0].run_id, None, _asked(created[0]))
    else:
        of_jobs = {run.job_id for run in created}
        job_id = of_jobs.pop() if len(of_jobs) == 1 else None
        record(connection, now, by, job_id, None, {"run_ids": [run.run_id for run in created], **keyed})


def _asked(run: NewRun) -> dict[str, Any]:
    key = None if run.idempotency_key is None else shown_key(run.idempotency_key)
    fields = {
        "run_id": run.run_id, "task": run.task, "queue": run.queue, "retry_of": run.retry_of,
        "run_at": format_instant(run.due_at) if run.due_at else None, "idempotency_key": key,
    }  # fmt: skip
    return {name: value for name, value in fields.items() if value is not None}


class SqlAuditLog(AuditLog):
    """AuditLog on SQLite and PostgreSQL."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def record(self, by: AuditedChange, subject: str | None, before: Any, after: Any) -> None:
        with self._database.write() as connection:
            record(connection, self._database.read_clock(connection), by, subject, before, after)

    def list(self, wanted: AuditFilter, limit: int, cursor: str | None) -> Page[AuditEntry]:
        if not is_storable(f"{wanted.subject}{wanted.actor}{wanted.action}"):
            return Page([], None)
        by_time = wanted.since is not None or wanted.until is not None
        # Ordered by id, an old time would be found only after everything that happened since.
        order = (_A.at.desc(), _A.id.desc()) if by_time else (_A.id.desc(),)
        newest_first = select(*AUDIT_COLUMNS).order_by(*order).limit(limit + 1)
        for column, value in ((_A.subject, wanted.subject), (_A.actor, wanted.actor), (_A.action, wanted.action)):
            if value is not None:
                newest_first = newest_first.where(column == value)
        if wanted.since is not None:
            newest_first = newest_first.where(_A.at >= wanted.since)
        if wanted.until is not None:
            newest_first = newest_first.where(_A.at < wanted.until)
        if cursor is not None:
            newest_first = newest_first.where(_behind(cursor, by_time))
        with self._database.read() as connection:
            rows = connection.execute(newest_first).all()
        return page_of(rows, limit, lambda row: AuditEntry(*row), lambda row: [row.at, row.id] if by_time else [row.id])

    def of_key(self, change: AuditedChange, subject: str) -> Sequence[str] | None:
        """Reads only the subject's newest rows: a key need only be known for a day."""
        newest_first = (
            select(_A.actor, _A.action, _A.after)
            .where(_A.subject == subject)
            .order_by(_A.id.desc())
            .limit(_KEYED_CHECKED)
        )
        with self._database.read() as connection:
            rows = connection.execute(newest_first).all()
        for actor, action, after in rows:
            if (
                (actor, action) == (change.actor, change.action)
                and isinstance(after, dict)
                and after.get("key") == change.key
            ):
                if after["request_hash"] != change.request_hash:
                    raise Conflict(f"idempotency key {change.key!r} was used for another request", "key-reused")
                return tuple(after["run_ids"])
        return None


def _behind(cursor: str, by_time: bool) -> ColumnElement[bool]:
    if not by_time:
        return and_(_A.id < read_cursor(cursor, int)[0])
    at, number = read_cursor(cursor, int, int)
    return and_(_A.at <= at, or_(_A.at < at, _A.id < number))
