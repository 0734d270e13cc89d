"""CalendarStore in memory, by the same contract as the SQL one."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from itinerary.protocol.errors import BadValue, Conflict, NotFound
from itinerary.protocol.instants import MICROSECOND, Instant
from scheduler_service.core.audit import AuditedChange
from scheduler_service.core.calendars.model import CalendarVersion
from scheduler_service.core.calendars.stored import CalendarContent, PastVersion, StoredCalendar
from scheduler_service.ports.calendar_feeds import StoredFeed
from scheduler_service.ports.calendars import HOLDS_AFTER, MOST_CALENDARS, CalendarStore
from scheduler_service.ports.limits import JOBS_NAMED
from scheduler_service.ports.stores import Page
from scheduler_service.sql.paging import page_of, read_cursor
from tests.support.fake_rows import Tables


class FakeCalendarStore(CalendarStore):
    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def get(self, calendar_id: str) -> StoredCalendar:
        with self._tables.lock:
            if calendar_id not in self._tables.calendars:
                raise NotFound(f"no calendar {calendar_id}")
            return self._tables.calendars[calendar_id]

    def list(self, limit: int, cursor: str | None) -> Page[StoredCalendar]:
        with self._tables.lock:
            after = "" if cursor is None else read_cursor(cursor, str)[0]
            ids = sorted(calendar_id for calendar_id in self._tables.calendars if calendar_id > after)
            return page_of(ids, limit, self.get, lambda calendar_id: [calendar_id])

    def edit(
        self,
        calendar_id: str,
        change: Callable[[StoredCalendar | None], CalendarContent],
        *,
        by: AuditedChange,
        feeds: Sequence[StoredFeed] = (),
    ) -> StoredCalendar:
        with self._tables.lock:
            self._tables.require_heeding_leader()
            before = self._tables.calendars.get(calendar_id)
            content = change(before)
            if before is not None and content == before.content:
                return before
            if before is None and len(self._tables.calendars) >= MOST_CALENDARS:
                raise BadValue("calendar_id", None, f"{MOST_CALENDARS:,} calendars are the most; delete one")
            now = self._tables.clock()
            if before is not None and content.compiled == before.content.compiled:
                after = replace(before, content=content, updated_at=now)
            else:
                after = self._next(calendar_id, before, content, now, by.actor)
            self._tables.calendars[calendar_id] = after
            shown = None if before is None else before.content.definition
            self._tables.record(by, calendar_id, shown, content.definition)
            return after

    def _next(
        self, calendar_id: str, before: StoredCalendar | None, content: CalendarContent, now: Instant, actor: str
    ) -> StoredCalendar:
        versions = self._tables.calendar_versions.setdefault(calendar_id, [])
        soonest = now if before is None else now + HOLDS_AFTER
        if before is not None:
            was = before.content.compiled
            changed_days = was.whole_days and not content.compiled.whole_days
            if changed_days or was.timezone != content.compiled.timezone:
                self._require_no(calendar_id, by_days=True)
            self._tables.control += 1
        last = versions[-1][1] if versions else None
        effective_from = soonest if last is None else max(soonest, last.effective_from + MICROSECOND)
        version = 1 if last is None else last.version + 1
        revision = 0 if before is None else self._tables.control
        versions.append((revision, PastVersion(version, effective_from, content, now, actor)))
        created_at = now if before is None else before.created_at
        return StoredCalendar(calendar_id, version, effective_from, content, created_at, now)

    def delete(self, calendar_id: str, *, by: AuditedChange) -> None:
        with self._tables.lock:
            self._tables.require_heeding_leader()
            before = self.get(calendar_id)
            self._require_no(calendar_id, by_days=False)
            del self._tables.calendars[calendar_id]
            self._tables.record(by, calendar_id, before.content.definition, None)

    def versions(self, calendar_id: str, limit: int, cursor: str | None) -> Page[PastVersion]:
        with self._tables.lock:
            before = None if cursor is None else read_cursor(cursor, int)[0]
            there = [one for _, one in reversed(self._tables.calendar_versions.get(calendar_id, []))]
            if not there:
                raise NotFound(f"no calendar {calendar_id}")
            later = [one for one in there if before is None or one.version < before]
            return page_of(later, limit, lambda one: one, lambda one: [one.version])

    def versions_of(
        self, calendar_ids: Sequence[str], since: Instant | None
    ) -> Mapping[str, tuple[CalendarVersion, ...]]:
        with self._tables.lock:
            return self._tables.versions_of(calendar_ids, since)

    def jobs_using(self, calendar_id: str, limit: int, after: str = "") -> Sequence[str]:
        with self._tables.lock:
            named = (job_id for job_id, ids in self._tables.job_calendars.items() if calendar_id in ids)
            return sorted(job_id for job_id in named if job_id > after)[:limit]

    def monitors_using(self, calendar_id: str, limit: int, after: str = "") -> Sequence[str]:
        return []

    def _require_no(self, calendar_id: str, *, by_days: bool) -> None:
        named = sorted(
            job_id
            for job_id, ids in self._tables.job_calendars.items()
            if calendar_id in ids and (ids[calendar_id] or not by_days)
        )
        if named:
            raise Conflict(f"calendar {calendar_id} is named by {', '.join(named[:JOBS_NAMED])}", "calendar-in-use")
