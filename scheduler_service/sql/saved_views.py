"""SavedViewStore in SQL: each change in one transaction with its entry in the audit log."""

from collections.abc import Sequence
from typing import Final

from sqlalchemy import delete, func, select

from itinerary.protocol.errors import Conflict, NotFound
from scheduler_service.core.audit import AuditedChange
from scheduler_service.core.saved_views import SHARED, SavedView
from scheduler_service.ports.saved_views import MOST_VIEWS, SavedViewStore
from scheduler_service.sql.audit import record
from scheduler_service.sql.bulk_tables import saved_views
from scheduler_service.sql.database import Database, again_when_busy

_V: Final = saved_views.c
_COLUMNS: Final = (_V.owner, _V.name, _V.address, _V.saved_by, _V.updated_at)


class SqlSavedViewStore(SavedViewStore):
    """SavedViewStore on SQLite and PostgreSQL."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @again_when_busy
    def save(self, owner: str, name: str, address: str, *, by: AuditedChange) -> SavedView:
        there = select(*_COLUMNS).where(_V.owner == owner, _V.name == name).with_for_update()
        others = select(func.count()).select_from(saved_views).where(_V.owner == owner, _V.name != name)
        with self._database.write() as connection:
            row = connection.execute(there).first()
            before = None if row is None else SavedView(*row)
            if before is not None and before.address == address:
                return before
            if before is None and connection.execute(others).scalar_one() >= MOST_VIEWS:
                raise Conflict(f"there are {MOST_VIEWS} views already; delete some", "too-many-views")
            after = SavedView(owner, name, address, by.actor, self._database.read_clock(connection))
            values = {"address": address, "saved_by": by.actor, "updated_at": after.updated_at}
            stored = self._database.dialect.insert(saved_views).values(owner=owner, name=name, **values)
            connection.execute(stored.on_conflict_do_update(index_elements=[_V.owner, _V.name], set_=values))
            record(connection, after.updated_at, by, name, before and _recorded(before), _recorded(after))
        return after

    def get(self, owner: str, name: str) -> SavedView:
        with self._database.read() as connection:
            row = connection.execute(select(*_COLUMNS).where(_V.owner == owner, _V.name == name)).first()
        if row is None:
            raise NotFound(f"no saved view {name}")
        return SavedView(*row)

    def list(self, *owners: str) -> Sequence[SavedView]:
        asked = select(*_COLUMNS).where(_V.owner.in_(owners)).order_by(_V.name, _V.owner)
        with self._database.read() as connection:
            return [SavedView(*row) for row in connection.execute(asked)]

    @again_when_busy
    def delete(self, owner: str, name: str, *, by: AuditedChange) -> None:
        this = delete(saved_views).where(_V.owner == owner, _V.name == name).returning(*_COLUMNS)
        with self._database.write() as connection:
            row = connection.execute(this).first()
            if row is None:
                raise NotFound(f"no saved view {name}")
            record(connection, self._database.read_clock(connection), by, name, _recorded(SavedView(*row)), None)


def _recorded(view: SavedView) -> dict[str, object]:
    return {"address": view.address, "personal": view.owner != SHARED}
