"""Versions of calendars as the planner reads them: of each id those that hold at or after an instant.

Promises that equal versions of one database are one object in this process: what is computed of them once is found
again. The days of a version are read once. Writes nothing.
"""

from collections.abc import Collection, Mapping
from typing import Final, TypeAlias
from weakref import WeakKeyDictionary

from sqlalchemy import BigInteger, Connection, Engine, Integer, Text, and_, bindparam, literal_column, or_, select

from itinerary.protocol.errors import LeaseLost
from itinerary.protocol.instants import Instant
from scheduler_service.core.calendars.model import CalendarVersion, Compiled
from scheduler_service.core.controls import CalendarEdit
from scheduler_service.sql.batch import Batch
from scheduler_service.sql.column_types import InstantColumn
from scheduler_service.sql.control_tables import calendar_versions
from scheduler_service.sql.dialect import dialect_of
from scheduler_service.sql.ready import ReadyStatement

_V: Final = calendar_versions.c
_IDS: Final = Batch(calendar_id=Text)
_NAMES: Final = Batch(calendar_id=Text, version=Integer)
_MOST_KEPT: Final = 2_000
_Key: TypeAlias = tuple[str, int, Instant]
_KEPT: Final[WeakKeyDictionary[Engine, dict[_Key, CalendarVersion]]] = WeakKeyDictionary()


def versions_of(
    connection: Connection, calendar_ids: Collection[str], since: Instant | None
) -> Mapping[str, tuple[CalendarVersion, ...]]:
    """The versions of these calendars that hold at or after `since`, or all, ascending."""
    named = _V.calendar_id.in_(select(_IDS.rows(dialect_of(connection)).c.calendar_id))
    asked = select(_V.calendar_id, _V.version, _V.effective_from).where(named)
    if since is not None:
        asked = asked.where(or_(_V.ended_at.is_(None), _V.ended_at > since))
    rows: list[_Key] = []
    for chunk in _IDS.chunks([(calendar_id,) for calendar_id in sorted({*calendar_ids})]):
        rows += map(tuple, connection.execute(asked.order_by(_V.calendar_id, _V.version), chunk))
    kept = _with_days(connection, rows)
    found: dict[str, list[CalendarVersion]] = {}
    for key in rows:
        if key in kept:  # else it was pruned between the two statements
            found.setdefault(key[0], []).append(kept[key])
    return {calendar_id: tuple(versions) for calendar_id, versions in found.items()}


def calendar_edits(connection: Connection, known: int, since: Instant) -> tuple[CalendarEdit, ...]:
    """The edits after those of the version `known`, but for what began before `since`."""
    edits = select(_V.revision, _V.calendar_id, _V.effective_from)
    later = edits.where(_V.revision > known, _V.effective_from >= since).order_by(_V.revision)
    return tuple(CalendarEdit(*row) for row in connection.execute(later))


_IS_UNKNOWN: Final = and_(
    _V.revision > bindparam("known", type_=BigInteger), _V.effective_from < bindparam("cursor", type_=InstantColumn)
)
_UNKNOWN: Final = ReadyStatement(lambda _: select(_V.calendar_id).where(_IS_UNKNOWN).limit(literal_column("1")))


def require_known_calendars(connection: Connection, known: int, cursor: Instant) -> None:
    """LeaseLost if a version begins before the cursor and was made after the edits of the version `known`."""
    for (calendar_id,) in _UNKNOWN.rows(connection, {"known": known, "cursor": cursor}):
        raise LeaseLost(f"calendar {calendar_id} was edited, and this leader did not read it in time")


def _with_days(connection: Connection, keys: list[_Key]) -> Mapping[_Key, CalendarVersion]:
    known = _KEPT.setdefault(connection.engine, {})
    found = {key: known[key] for key in keys if key in known}
    batch = _NAMES.rows(dialect_of(connection))
    is_named = and_(_V.calendar_id == batch.c.calendar_id, _V.version == batch.c.version)
    columns = (_V.calendar_id, _V.version, _V.effective_from, _V.compiled)
    asked = select(*columns).select_from(batch.join(calendar_versions, is_named))
    for chunk in _NAMES.chunks([key[:2] for key in keys if key not in found]):
        for calendar_id, version, effective_from, compiled in connection.execute(asked, chunk):
            one = CalendarVersion(calendar_id, version, effective_from, Compiled.from_json(compiled))
            found[calendar_id, version, effective_from] = one
    if len(known) + len(found) > _MOST_KEPT:
        known.clear()
    known.update(found)
    return found
