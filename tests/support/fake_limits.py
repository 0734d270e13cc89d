"""LimitStore in memory, by the same contract as the SQL one."""

from collections.abc import Callable

from itinerary.protocol.errors import BadValue, Conflict, NotFound
from scheduler_service.core.audit import AuditedChange
from scheduler_service.core.contract.limit_json import limit_body
from scheduler_service.core.limits import Limit
from scheduler_service.ports.limits import JOBS_NAMED, MOST_LIMITS, LimitStore
from scheduler_service.ports.stores import Page
from scheduler_service.sql.paging import page_of, read_cursor
from tests.support.fake_rows import Tables


class FakeLimitStore(LimitStore):
    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def get(self, name: str) -> Limit:
        with self._tables.lock:
            if name not in self._tables.limits:
                raise NotFound(f"no limit {name}")
            return self._tables.limits[name]

    def list(self, limit: int, cursor: str | None) -> Page[Limit]:
        with self._tables.lock:
            after = "" if cursor is None else read_cursor(cursor, str)[0]
            names = sorted(name for name in self._tables.limits if name > after)
            return page_of(names, limit, self.get, lambda name: [name])

    def edit(self, name: str, change: Callable[[Limit | None], Limit], *, by: AuditedChange) -> Limit:
        with self._tables.lock:
            self._tables.require_heeding_leader()
            before = self._tables.limits.get(name)
            after = change(before)
            if after == before:
                return after
            if before is None and len(self._tables.limits) >= MOST_LIMITS:
                raise BadValue("name", name, f"{MOST_LIMITS:,} limits are the most")
            if before is not None and before.per_key != after.per_key:
                self._require_unused(name)
            self._tables.limits[name] = after
            self._changed(by, name, before, after)
            return after

    def delete(self, name: str, *, by: AuditedChange) -> None:
        with self._tables.lock:
            self._tables.require_heeding_leader()
            before = self.get(name)
            self._require_unused(name)
            del self._tables.limits[name]
            self._changed(by, name, before, None)

    def _changed(self, by: AuditedChange, name: str, before: Limit | None, after: Limit | None) -> None:
        self._tables.control += 1
        bodies = [None if limit is None else limit_body(limit) for limit in (before, after)]
        self._tables.record(by, name, *bodies)

    def _require_unused(self, name: str) -> None:
        named = sorted(job_id for job_id, names in self._tables.job_limits.items() if name in names)
        if named:
            raise Conflict(f"limit {name} is named by {', '.join(named[:JOBS_NAMED])}", "limit-in-use")
