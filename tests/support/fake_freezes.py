"""FreezeStore in memory, by the same contract as the SQL one."""

from collections.abc import Sequence
from dataclasses import replace

from itinerary.protocol.errors import Conflict, NotFound
from scheduler_service.core.audit import AuditedChange
from scheduler_service.core.freezes import FREEZES_A_DAY, FREEZES_KEPT, Freeze, FreezeCounts, FreezeStatus, NewFreeze
from scheduler_service.core.run_state import RunState
from scheduler_service.ports.freezes import FreezeStore
from scheduler_service.ports.stores import Page
from scheduler_service.sql.paging import page_of, read_cursor
from tests.support.fake_rows import RunRow, Tables


class FakeFreezeStore(FreezeStore):
    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def start(self, asked: NewFreeze, *, by: AuditedChange) -> Freeze:
        with self._tables.lock:
            self._tables.require_heeding_leader()
            now = self._tables.clock()
            there = [one for one in self._tables.freezes.values() if not one.is_over(now)]
            for one in there:
                begins = one.since <= now if asked.since is None else one.since == asked.since
                same = (one.scope, one.reason, one.during, one.until, one.by)
                if begins and same == (asked.scope, asked.reason, asked.during, asked.until, by.actor):
                    return one
            kept = [one for one in self._tables.freezes.values() if not one.is_over(now - FREEZES_KEPT)]
            if len(kept) >= FREEZES_A_DAY:
                raise Conflict(f"{FREEZES_A_DAY:,} freezes held within a day", "too-many-freezes")
            if len(there) >= 100:
                raise Conflict("100 freezes hold or are to come", "too-many-freezes")
            freeze_id, since = len(self._tables.freezes) + 1, max(now, asked.since or now)
            freeze = Freeze(freeze_id, asked.scope, since, asked.reason, by.actor, asked.during, asked.until, now)
            return self._keep(freeze)

    def get(self, freeze_id: int) -> Freeze:
        with self._tables.lock:
            if freeze_id not in self._tables.freezes:
                raise NotFound(f"no freeze {freeze_id}")
            return self._tables.freezes[freeze_id]

    def list(self, state: FreezeStatus | None, limit: int, cursor: str | None) -> Page[Freeze]:
        with self._tables.lock:
            before = 2**62 if cursor is None else read_cursor(cursor, int)[0]
            found = [one for one in self._tables.freezes.values() if one.freeze_id < before and self._is(state, one)]
            return page_of(found[::-1][: limit + 1], limit, lambda one: one, lambda one: [one.freeze_id])

    def end(self, freeze_id: int, *, by: AuditedChange) -> Freeze:
        with self._tables.lock:
            self._tables.require_heeding_leader()
            now, freeze = self._tables.clock(), self.get(freeze_id)
            return freeze if freeze.is_over(now) else self._keep(replace(freeze, ended_at=now, ended_by=by.actor))

    def counts(self, freezes: Sequence[Freeze]) -> Sequence[FreezeCounts]:
        with self._tables.lock:
            return [
                FreezeCounts(self._count(one, RunState.RUNNING), self._count(one, RunState.PENDING)) for one in freezes
            ]

    def _count(self, freeze: Freeze, state: RunState) -> int:
        rows = [row for row in self._tables.runs.values() if row.state is state and not row.forced]
        return sum(freeze.scope.meets(row.queue, row.job_id, self._tags(row)) for row in rows)

    def _tags(self, row: RunRow) -> tuple[str, ...]:
        job = self._tables.jobs.get(row.job_id or "")
        return () if job is None else job.current.tags

    def _is(self, state: FreezeStatus | None, one: Freeze) -> bool:
        now = self._tables.clock()
        if one.is_over(now):
            return state in (None, FreezeStatus.PAST)
        return state in (None, FreezeStatus.ACTIVE if one.since <= now else FreezeStatus.COMING)

    def _keep(self, freeze: Freeze) -> Freeze:
        self._tables.freezes[freeze.freeze_id] = freeze
        self._tables.control += 1
        return freeze
