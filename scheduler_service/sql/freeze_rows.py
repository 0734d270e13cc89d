"""Freezes as database rows and back, and the reads of them that others need."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from sqlalchemy import Connection, select

from itinerary.protocol.instants import Instant
from scheduler_service.core.freezes import During, Freeze, Scope
from scheduler_service.sql.column_types import LAST_INSTANT
from scheduler_service.sql.control_tables import freezes

_F: Final = freezes.c
FREEZE_COLUMNS: Final = (
    _F.id, _F.scope, _F.starts_at, _F.reason, _F.created_by, _F.during, _F.until, _F.created_at, _F.ended_at,
    _F.ended_by,
)  # fmt: skip


def freeze_of(row: Sequence[Any]) -> Freeze:
    """The freeze, from FREEZE_COLUMNS."""
    freeze_id, scope, since, reason, by, during, until, created_at, ended_at, ended_by = row
    return Freeze(freeze_id, _scope_of(scope), since, reason, by, During(during), until, created_at, ended_at, ended_by)


def known_freezes(
    connection: Connection, since: Instant, begun_by: Instant = LAST_INSTANT, most: int | None = None
) -> tuple[Freeze, ...]:
    """The freezes that have not ended by `since`, the oldest first; of those with an end the `most` that end first."""
    # Two statements, in no order of their own: each takes the index, however long the past is.
    begun = select(*FREEZE_COLUMNS).where(_F.starts_at <= begun_by)
    endless = begun.where(_F.ends_at.is_(None))
    ending = begun.where(_F.ends_at > since).order_by(_F.ends_at, _F.id).limit(most)
    found = [freeze_of(row) for wanted in (endless, ending) for row in connection.execute(wanted)]
    return tuple(sorted(found, key=lambda one: one.freeze_id))


def _scope_of(stored: Mapping[str, Any]) -> Scope:
    names = (frozenset(stored.get(name, ())) for name in ("queues", "tags", "jobs"))
    return Scope(bool(stored.get("all")), *names)
