"""QueueStore in SQL: rows of defined and paused queues, and counts of what waits and runs in a queue.

Promises that a count of what waits reads a bounded number of index entries. Never touches a run.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final, Self

from sqlalchemy import Connection, case, func, literal, or_, select

from itinerary.protocol.instants import Duration, Instant
from scheduler_service.core.audit import AuditedChange
from scheduler_service.core.contract.job_json import optional_instant
from scheduler_service.core.contract.limit_json import queue_body
from scheduler_service.core.controls import Queue, QueueDefinition, QueuePause
from scheduler_service.core.run_state import IN_FLIGHT, WAITING, RunState
from scheduler_service.ports.queues import QueueStore
from scheduler_service.ports.stores import Page
from scheduler_service.sql.audit import record
from scheduler_service.sql.column_types import InstantColumn
from scheduler_service.sql.control_tables import queues
from scheduler_service.sql.controls import editing, raise_version
from scheduler_service.sql.database import Database, again_when_busy
from scheduler_service.sql.leader.reads import count_due, queues_after
from scheduler_service.sql.limit_rows import bounds_of, bounds_values
from scheduler_service.sql.paging import page_of, read_cursor
from scheduler_service.sql.tables import IS_TRACKED, runs

MOST_WAITING: Final = 1_000
_MOST_TRACKED: Final = 20_000


@dataclass(frozen=True, slots=True)
class _Row:
    """The stored part of a queue."""

    description: str = ""
    pause_reason: str | None = None
    paused_at: Instant | None = None
    paused_by: str | None = None
    paused_until: Instant | None = None
    concurrency: int | None = None
    rate_count: int | None = None
    rate_per: Duration | None = None
    fair: bool = False

    @property
    def definition(self) -> QueueDefinition:
        return QueueDefinition(self.description, bounds_of(self.concurrency, self.rate_count, self.rate_per), self.fair)

    def defined_as(self, definition: QueueDefinition) -> Self:
        bounds: Mapping[str, Any] = bounds_values(definition.bounds)
        return replace(self, description=definition.description, fair=definition.fair, **bounds)

    def pause(self, now: Instant) -> QueuePause | None:
        if self.paused_at is None:
            return None
        pause = QueuePause(self.pause_reason or "", self.paused_at, self.paused_by or "", self.paused_until)
        return pause if pause.holds(now) else None

    def resumed(self) -> Self:
        return replace(self, pause_reason=None, paused_at=None, paused_by=None, paused_until=None)

    def values(self) -> dict[str, Any]:
        return {column.name: getattr(self, column.name) for column in _STORED}


_STORED: Final = tuple(queues.c[one.name] for one in fields(_Row))


class SqlQueueStore(QueueStore):
    """QueueStore on SQLite and PostgreSQL."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def get(self, queue: str) -> Queue:
        with self._database.read() as connection:
            return self._seen(connection, queue, _row(connection, queue), self._database.read_clock(connection))

    def list(self, limit: int, cursor: str | None, known: Collection[str] = ()) -> Page[Queue]:
        after = "" if cursor is None else read_cursor(cursor, str)[0]
        defined = select(queues.c.queue, *_STORED).where(queues.c.queue > after).order_by(queues.c.queue)
        with self._database.read() as connection:
            now = self._database.read_clock(connection)
            rows = {row.queue: _Row(*row[1:]) for row in connection.execute(defined.limit(limit + 1))}
            used = queues_after(connection, after, limit + 1)
            names = sorted({*rows, *used, *(name for name in known if name > after)})[: limit + 1]
            return page_of(
                names, limit, lambda name: self._seen(connection, name, rows.get(name), now), lambda name: [name]
            )

    @again_when_busy
    def define(self, queue: str, change: Callable[[QueueDefinition], QueueDefinition], *, by: AuditedChange) -> Queue:
        with editing(self._database) as connection:
            now = self._database.read_clock(connection)
            before = _row(connection, queue)
            there = before or _Row()
            return self._store(connection, queue, before, there.defined_as(change(there.definition)), now, by)

    @again_when_busy
    def pause(self, queue: str, reason: str, until: Instant | None, *, by: AuditedChange) -> Queue:
        with editing(self._database) as connection:
            now = self._database.read_clock(connection)
            before = _row(connection, queue)
            there = None if before is None else before.pause(now)
            since, actor = (now, by.actor) if there is None else (there.since, there.by)
            after = replace(before or _Row(), pause_reason=reason, paused_at=since, paused_by=actor, paused_until=until)
            return self._store(connection, queue, before, after, now, by)

    @again_when_busy
    def resume(self, queue: str, *, by: AuditedChange) -> Queue:
        with editing(self._database) as connection:
            now = self._database.read_clock(connection)
            before = _row(connection, queue)
            if before is None:
                return self._seen(connection, queue, None, now)
            return self._store(connection, queue, before, before.resumed(), now, by)

    def _store(
        self, connection: Connection, queue: str, before: _Row | None, after: _Row, now: Instant, by: AuditedChange
    ) -> Queue:
        if after != before:
            insert = self._database.dialect.insert(queues).values(queue=queue, **after.values())
            connection.execute(insert.on_conflict_do_update(index_elements=[queues.c.queue], set_=after.values()))
            raise_version(connection)
            record(connection, now, by, queue, _audited(before), _audited(after))
        return self._seen(connection, queue, after, now)

    def _seen(self, connection: Connection, queue: str, row: _Row | None, now: Instant) -> Queue:
        tracked, more = _tracked(connection, queue, now)
        waiting = count_due(connection, queue, now + 1, MOST_WAITING + 1) + sum(tracked.get(one, 0) for one in WAITING)
        stored = row or _Row()
        return Queue(
            queue, row is not None, stored.definition, stored.pause(now), min(waiting, MOST_WAITING),
            more or waiting > MOST_WAITING, tracked.get(RunState.PENDING, 0), tracked.get(RunState.RUNNING, 0), more,
        )  # fmt: skip


def _row(connection: Connection, queue: str) -> _Row | None:
    row = connection.execute(select(*_STORED).where(queues.c.queue == queue)).first()
    return None if row is None else _Row(*row)


def _tracked(connection: Connection, queue: str, now: Instant) -> tuple[Mapping[str, int], bool]:
    """The numbers of runs in flight, and of waiting ones that a schedule created and that are due; are there more?"""
    of_queue = select(runs.c.state, runs.c.due_at).where(IS_TRACKED, runs.c.queue == queue)
    first = of_queue.limit(_MOST_TRACKED + 1).subquery("tracked")
    counts = or_(first.c.state.in_(IN_FLIGHT), first.c.due_at <= literal(now, InstantColumn))
    number = func.sum(case((counts, 1), else_=0))
    counted = connection.execute(select(first.c.state, number, func.count()).group_by(first.c.state)).all()
    return {row[0]: int(row[1]) for row in counted}, sum(row[2] for row in counted) > _MOST_TRACKED


def _audited(row: _Row | None) -> Mapping[str, Any] | None:
    if row is None:
        return None
    pause = {
        "pause_reason": row.pause_reason, "paused_at": optional_instant(row.paused_at), "paused_by": row.paused_by,
        "paused_until": optional_instant(row.paused_until),
    }  # fmt: skip
    return {**queue_body(row.definition), **pause}
