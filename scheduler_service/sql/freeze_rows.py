"""Freezes as database rows and back, and the reads of them that others need."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from sqlalchemy import Connection, or_, select

from itinerary.protocol.instants import Instant
from scheduler_service.core.freezes import During, Freeze, Scope
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


def known_freezes(connection: Connection, since: Instant) -> tuple[Freeze, ...]:
    """The freezes that have not ended by `since`, the oldest first."""
    wanted = select(*FREEZE_COLUMNS).where(or_(_F.ends_at.is_(None), _F.ends_at > since)).order_by(_F.id)
    return tuple(map(freeze_of, connection.execute(wanted)))


def _scope_of(stored: Mapping[str, Any]) -> Scope:
    names = (frozenset(stored.get(name, ())) for name in ("queues", "tags", "jobs"))
    return Scope(bool(stored.get("all")), *names)
