"""LimitStore in SQL: rows of limits, each change under the lock that keeps dispatches out.

Promises that of a limit which a current job names, `per_key` does not change, and that it is not deleted.
"""

from collections.abc import Callable
from typing import Final

from sqlalchemy import Connection, Text, cast, delete, func, select

from itinerary.protocol.errors import BadValue, Conflict, NotFound
from scheduler_service.core.audit import AuditedChange
from scheduler_service.core.contract.limit_json import limit_body
from scheduler_service.core.limits import Limit
from scheduler_service.ports.limits import JOBS_NAMED, MOST_LIMITS, LimitStore
from scheduler_service.ports.stores import Page
from scheduler_service.sql.audit import record
from scheduler_service.sql.control_tables import limits
from scheduler_service.sql.controls import editing, raise_version
from scheduler_service.sql.database import Database, again_when_busy
from scheduler_service.sql.limit_rows import LIMIT_COLUMNS, limit_of, limit_values
from scheduler_service.sql.named_by_jobs import LIMITS_NAMED
from scheduler_service.sql.paging import page_of, read_cursor

_MOST_OVERRIDDEN: Final = 4 * 1024 * 1024
_OVERRIDDEN: Final = func.coalesce(func.sum(func.length(cast(limits.c.overrides, Text))), 0)


class SqlLimitStore(LimitStore):
    """LimitStore on SQLite and PostgreSQL."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def get(self, name: str) -> Limit:
        with self._database.read() as connection:
            found = _find(connection, name)
        return _there(name, found)

    def list(self, limit: int, cursor: str | None) -> Page[Limit]:
        after = "" if cursor is None else read_cursor(cursor, str)[0]
        asked = select(*LIMIT_COLUMNS).where(limits.c.name > after).order_by(limits.c.name).limit(limit + 1)
        with self._database.read() as connection:
            rows = connection.execute(asked).all()
        return page_of(rows, limit, limit_of, lambda row: [row.name])

    @again_when_busy
    def edit(self, name: str, change: Callable[[Limit | None], Limit], *, by: AuditedChange) -> Limit:
        with editing(self._database) as connection:
            before = _find(connection, name)
            after = change(before)
            if after == before:
                return after
            if before is not None and before.per_key != after.per_key:
                _require_unused(connection, name, "its per_key cannot change")
            now = self._database.read_clock(connection)
            values = {**limit_values(after), "updated_at": now}
            insert = self._database.dialect.insert(limits).values(**values, created_at=now)
            connection.execute(insert.on_conflict_do_update(index_elements=[limits.c.name], set_=values))
            if before is None or len(after.overrides) > len(before.overrides):
                _require_room(connection, name)
            raise_version(connection)
            record(connection, now, by, name, None if before is None else limit_body(before), limit_body(after))
        return after

    @again_when_busy
    def delete(self, name: str, *, by: AuditedChange) -> None:
        with editing(self._database) as connection:
            before = _there(name, _find(connection, name))
            _require_unused(connection, name, "it cannot be deleted")
            connection.execute(delete(limits).where(limits.c.name == name))
            raise_version(connection)
            record(connection, self._database.read_clock(connection), by, name, limit_body(before), None)


def _find(connection: Connection, name: str) -> Limit | None:
    row = connection.execute(select(*LIMIT_COLUMNS).where(limits.c.name == name)).first()
    return None if row is None else limit_of(row)


def _there(name: str, found: Limit | None) -> Limit:
    if found is None:
        raise NotFound(f"no limit {name}")
    return found


def _require_unused(connection: Connection, name: str, refused: str) -> None:
    named = LIMITS_NAMED.jobs_alone(connection, name, JOBS_NAMED + 1)
    if named:
        jobs = ", ".join(named[:JOBS_NAMED]) + (" and others" if len(named) > JOBS_NAMED else "")
        raise Conflict(f"limit {name} is named by {jobs}, so {refused}; take it out of them first", "limit-in-use")


def _require_room(connection: Connection, name: str) -> None:
    count, overridden = connection.execute(select(func.count(), _OVERRIDDEN).select_from(limits)).one()
    if count > MOST_LIMITS:
        raise BadValue("name", name, f"{MOST_LIMITS:,} limits are the most; delete one, or use one limit with per_key")
    if overridden > _MOST_OVERRIDDEN:
        raise BadValue("overrides", None, "the overrides of all limits together are over 4 MiB; remove some")
