"""QueueStore in memory, by the same contract as the SQL one."""

from collections.abc import Callable, Collection
from dataclasses import asdict, replace

from itinerary.protocol.instants import Instant
from scheduler_service.core.audit import AuditedChange
from scheduler_service.core.controls import Queue, QueueDefinition, QueuePause
from scheduler_service.core.run_state import ACTIVE, WAITING, RunState
from scheduler_service.ports.queues import QueueStore
from scheduler_service.ports.stores import Page
from scheduler_service.sql.paging import page_of, read_cursor
from tests.support.fake_rows import QueueRow, Tables


class FakeQueueStore(QueueStore):
    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def get(self, queue: str) -> Queue:
        with self._tables.lock:
            return self._seen(queue)

    def list(self, limit: int, cursor: str | None, known: Collection[str] = ()) -> Page[Queue]:
        with self._tables.lock:
            after = "" if cursor is None else read_cursor(cursor, str)[0]
            used = {row.queue for row in self._tables.runs.values() if row.state in ACTIVE}
            names = sorted(name for name in {*self._tables.queues, *used, *known} if name > after)
            return page_of(names, limit, self._seen, lambda name: [name])

    def define(self, queue: str, change: Callable[[QueueDefinition], QueueDefinition], *, by: AuditedChange) -> Queue:
        with self._tables.lock:
            row = self._row(queue)
            after = change(QueueDefinition(row.description, row.bounds, row.fair))
            defined = replace(row, description=after.description, bounds=after.bounds, fair=after.fair)
            return self._store(queue, defined, by)

    def pause(self, queue: str, reason: str, until: Instant | None, *, by: AuditedChange) -> Queue:
        with self._tables.lock:
            now, there = self._tables.clock(), self._row(queue).pause
            if there is None or not there.holds(now):
                there = QueuePause(reason, now, by.actor, until)
            return self._store(queue, replace(self._row(queue), pause=replace(there, reason=reason, until=until)), by)

    def resume(self, queue: str, *, by: AuditedChange) -> Queue:
        with self._tables.lock:
            if queue not in self._tables.queues:
                self._tables.require_heeding_leader()
                return self._seen(queue)
            return self._store(queue, replace(self._row(queue), pause=None), by)

    def _row(self, queue: str) -> QueueRow:
        return self._tables.queues.get(queue, QueueRow())

    def _store(self, queue: str, after: QueueRow, by: AuditedChange) -> Queue:
        self._tables.require_heeding_leader()
        before = self._tables.queues.get(queue)
        if after != before:
            self._tables.queues[queue] = after
            self._tables.control += 1
            self._tables.record(by, queue, before and asdict(before), asdict(after))
        return self._seen(queue)

    def _seen(self, queue: str) -> Queue:
        now, row = self._tables.clock(), self._row(queue)
        states = [run.state for run in self._tables.runs.values() if run.queue == queue]
        due = [r for r in self._tables.runs.values() if r.queue == queue and r.state in WAITING and r.due_at <= now]
        pause = row.pause if row.pause is not None and row.pause.holds(now) else None
        return Queue(
            queue, queue in self._tables.queues, QueueDefinition(row.description, row.bounds, row.fair), pause,
            min(len(due), 1_000), len(due) > 1_000, states.count(RunState.PENDING), states.count(RunState.RUNNING),
        )  # fmt: skip
