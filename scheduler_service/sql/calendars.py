"""CalendarStore in SQL: the present definition of each calendar, and its versions, each under the lock of all edits.

Promises that a calendar which a current job or a monitor names is not deleted. Each version of a used calendar raises
the version of all edits, by which the leader learns of it before its `effective_from`. Never deletes a version.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from sqlalchemy import Connection, and_, delete, func, insert, select, update

from itinerary.protocol.errors import BadValue, Conflict, NotFound
from itinerary.protocol.instants import MICROSECOND, Instant
from scheduler_service.core.audit import AuditedChange
from scheduler_service.core.calendars.model import CalendarVersion, Compiled
from scheduler_service.core.calendars.stored import CalendarContent, PastVersion, StoredCalendar
from scheduler_service.ports.calendar_feeds import StoredFeed
from scheduler_service.ports.calendars import HOLDS_AFTER, MOST_CALENDARS, CalendarStore
from scheduler_service.ports.limits import JOBS_NAMED
from scheduler_service.ports.stores import Page
from scheduler_service.sql.audit import record
from scheduler_service.sql.calendar_feeds import replace_feeds
from scheduler_service.sql.calendar_rows import versions_of
from scheduler_service.sql.control_tables import calendar_versions, calendars, job_calendars
from scheduler_service.sql.controls import editing, raise_version
from scheduler_service.sql.database import Database, again_when_busy
from scheduler_service.sql.monitor_calendars import monitors_naming
from scheduler_service.sql.named_by_jobs import CALENDARS_NAMED
from scheduler_service.sql.paging import page_of, read_cursor

_C: Final = calendars.c
_V: Final = calendar_versions.c
_IS_PRESENT: Final = and_(_V.calendar_id == _C.calendar_id, _V.version == _C.version)
_PRESENT: Final = select(
    _C.calendar_id, _C.version, _V.effective_from, _C.definition, _V.compiled, _C.created_at, _C.updated_at
).join(calendar_versions, _IS_PRESENT)


class SqlCalendarStore(CalendarStore):
    """CalendarStore on SQLite and PostgreSQL."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def get(self, calendar_id: str) -> StoredCalendar:
        with self._database.read() as connection:
            return _there(calendar_id, _find(connection, calendar_id))

    def list(self, limit: int, cursor: str | None) -> Page[StoredCalendar]:
        after = "" if cursor is None else read_cursor(cursor, str)[0]
        asked = _PRESENT.where(_C.calendar_id > after).order_by(_C.calendar_id).limit(limit + 1)
        with self._database.read() as connection:
            rows = connection.execute(asked).all()
        return page_of(rows, limit, _stored, lambda row: [row.calendar_id])

    @again_when_busy
    def edit(
        self,
        calendar_id: str,
        change: Callable[[StoredCalendar | None], CalendarContent],
        *,
        by: AuditedChange,
        feeds: Sequence[StoredFeed] = (),
    ) -> StoredCalendar:
        with editing(self._database) as connection:
            before = _locked(connection, calendar_id)
            content = change(before)
            now = self._database.read_clock(connection)
            replace_feeds(connection, calendar_id, feeds, now)
            if before is not None and content == before.content:
                return before
            if before is None:
                _require_room(connection)
            else:
                _require_fitting(connection, before, content.compiled)
            after = _kept(connection, calendar_id, before, content, now, by.actor)
            shown = (None if before is None else before.content.definition, content.definition)
            record(connection, now, by, calendar_id, *shown)
            return after

    @again_when_busy
    def delete(self, calendar_id: str, *, by: AuditedChange) -> None:
        with editing(self._database) as connection:
            before = _there(calendar_id, _locked(connection, calendar_id))
            _require_no(connection, calendar_id, "it cannot be deleted", by_days=False)
            now = self._database.read_clock(connection)
            connection.execute(delete(calendars).where(_C.calendar_id == calendar_id))
            replace_feeds(connection, calendar_id, (), now)
            _end(connection, calendar_id, before.version, now)
            record(connection, now, by, calendar_id, before.content.definition, None)

    def versions(self, calendar_id: str, limit: int, cursor: str | None) -> Page[PastVersion]:
        columns = (_V.version, _V.effective_from, _V.definition, _V.compiled, _V.created_at, _V.actor)
        asked = select(*columns).where(_V.calendar_id == calendar_id).order_by(_V.version.desc()).limit(limit + 1)
        if cursor is not None:
            asked = asked.where(_V.version < read_cursor(cursor, int)[0])
        with self._database.read() as connection:
            rows = connection.execute(asked).all()
        if not rows and cursor is None:
            raise NotFound(f"no calendar {calendar_id}")
        return page_of(rows, limit, _past, lambda row: [row.version])

    def versions_of(
        self, calendar_ids: Sequence[str], since: Instant | None
    ) -> Mapping[str, tuple[CalendarVersion, ...]]:
        with self._database.read() as connection:
            return versions_of(connection, calendar_ids, since)

    def jobs_using(self, calendar_id: str, limit: int, after: str = "") -> Sequence[str]:
        with self._database.read() as connection:
            return CALENDARS_NAMED.jobs(connection, calendar_id, limit, after)

    def monitors_using(self, calendar_id: str, limit: int, after: str = "") -> Sequence[str]:
        with self._database.read() as connection:
            return monitors_naming(connection, calendar_id, limit, after)


def _locked(connection: Connection, calendar_id: str) -> StoredCalendar | None:
    """The calendar, once no job that names it is being saved, and none can be until the end."""
    connection.execute(select(_C.calendar_id).where(_C.calendar_id == calendar_id).with_for_update())
    return _find(connection, calendar_id)


def _find(connection: Connection, calendar_id: str) -> StoredCalendar | None:
    row = connection.execute(_PRESENT.where(_C.calendar_id == calendar_id)).first()
    return None if row is None else _stored(row)


def _stored(row: Any) -> StoredCalendar:
    content = CalendarContent(row.definition, Compiled.from_json(row.compiled))
    return StoredCalendar(row.calendar_id, row.version, row.effective_from, content, row.created_at, row.updated_at)


def _past(row: Any) -> PastVersion:
    content = CalendarContent(row.definition, Compiled.from_json(row.compiled))
    return PastVersion(row.version, row.effective_from, content, row.created_at, row.actor)


def _there(calendar_id: str, found: StoredCalendar | None) -> StoredCalendar:
    if found is None:
        raise NotFound(f"no calendar {calendar_id}")
    return found


def _require_room(connection: Connection) -> None:
    if connection.execute(select(func.count()).select_from(calendars)).scalar_one() >= MOST_CALENDARS:
        raise BadValue("calendar_id", None, f"{MOST_CALENDARS:,} calendars are the most; delete one")


def _require_fitting(connection: Connection, before: StoredCalendar, after: Compiled) -> None:
    """Keep the zone and the whole days of a calendar by which jobs move days."""
    was = before.content.compiled
    if after.timezone != was.timezone:
        _require_no(connection, before.calendar_id, "its timezone cannot change: they move days by it", by_days=True)
    if not after.whole_days and was.whole_days:
        _require_no(connection, before.calendar_id, "it must keep to whole days: they move days by it", by_days=True)


def _require_no(connection: Connection, calendar_id: str, refused: str, *, by_days: bool) -> None:
    """Raise Conflict if a job or monitor names the calendar; with `by_days`: if one moves or counts days by it."""
    users = [job_calendars.c.calendar_id == calendar_id, *([job_calendars.c.by_days] if by_days else [])]
    asked = select(job_calendars.c.job_id).where(*users).order_by(job_calendars.c.job_id).limit(JOBS_NAMED + 1)
    named = [*connection.execute(asked).scalars()]
    named += [f"monitor {one}" for one in monitors_naming(connection, calendar_id, JOBS_NAMED + 1, by_days=by_days)]
    if named:
        jobs = ", ".join(named[:JOBS_NAMED]) + (" and others" if len(named) > JOBS_NAMED else "")
        text = f"calendar {calendar_id} is named by {jobs}, so {refused}; take it out of them first"
        raise Conflict(text, "calendar-in-use")


def _kept(
    connection: Connection, calendar_id: str, before: StoredCalendar | None, content: CalendarContent, now: Instant,
    actor: str,
) -> StoredCalendar:  # fmt: skip
    """Write the calendar, with another version where its set is another one."""
    if before is not None and content.compiled == before.content.compiled:
        after = replace(before, content=content, updated_at=now)
    else:
        version, effective_from = _next_version(connection, calendar_id, before is None, now)
        created_at = now if before is None else before.created_at
        after = StoredCalendar(calendar_id, version, effective_from, content, created_at, now)
        row = {
            "calendar_id": calendar_id, "version": version, "definition": content.definition,
            "compiled": content.compiled.to_json(), "effective_from": effective_from, "created_at": now, "actor": actor,
            "revision": 0 if before is None else raise_version(connection),
        }  # fmt: skip
        if before is not None:
            _end(connection, calendar_id, before.version, effective_from)
        connection.execute(insert(calendar_versions).values(**row))
    values = {"definition": content.definition, "version": after.version, "updated_at": now}
    if before is None:
        connection.execute(insert(calendars).values(**values, calendar_id=calendar_id, created_at=now))
    else:
        connection.execute(update(calendars).where(_C.calendar_id == calendar_id).values(**values))
    return after


def _end(connection: Connection, calendar_id: str, version: int, at: Instant) -> None:
    ended = update(calendar_versions).where(_V.calendar_id == calendar_id, _V.version == version)
    connection.execute(ended.values(ended_at=at))


def _next_version(connection: Connection, calendar_id: str, unused: bool, now: Instant) -> tuple[int, Instant]:
    """Number the next version, and date it: what no job can have used yet holds at once."""
    of_calendar = select(_V.version, _V.effective_from).where(_V.calendar_id == calendar_id)
    last = connection.execute(of_calendar.order_by(_V.version.desc()).limit(1)).first()
    soonest = now if unused else now + HOLDS_AFTER
    return (1, soonest) if last is None else (last.version + 1, max(soonest, last.effective_from + MICROSECOND))
