"""ShareLinkStore in SQL: each begin and end in one transaction with its entry in the audit log."""

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import func, insert, select, update

from itinerary.protocol.errors import Conflict, NotFound
from itinerary.protocol.instants import Instant, format_instant
from scheduler_service.core.audit import AuditedChange
from scheduler_service.core.share_links import ShareLink
from scheduler_service.ports.share_links import ShareLinkStore
from scheduler_service.sql.audit import record
from scheduler_service.sql.database import Database, again_when_busy
from scheduler_service.sql.sign_in_tables import share_links

_MOST: Final = 1_000
_L: Final = share_links.c
_COLUMNS: Final = (_L.id, _L.address, _L.granted_by, _L.created_by, _L.created_at, _L.ends_at)


class SqlShareLinkStore(ShareLinkStore):
    """ShareLinkStore on SQLite and PostgreSQL."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @again_when_busy
    def create(
        self, address: str, granted_by: str, secret_hash: str, now: Instant, ends_at: Instant, *, by: AuditedChange
    ) -> ShareLink:
        row = {
            "address": address, "granted_by": granted_by, "created_by": by.actor, "created_at": now, "ends_at": ends_at,
        }  # fmt: skip
        lasting = select(func.count()).select_from(share_links).where(_L.ends_at > now)
        with self._database.write() as connection:
            if connection.execute(lasting).scalar_one() >= _MOST:
                raise Conflict(f"there are {_MOST:,} links already; revoke some", "too-many-links")
            stored = insert(share_links).values(secret_hash=secret_hash, **row).returning(*_COLUMNS)
            link = ShareLink(*connection.execute(stored).one())
            record(connection, now, by, address, None, _recorded(link))
        return link

    def find(self, secret_hash: str, now: Instant) -> ShareLink | None:
        asked = select(*_COLUMNS).where(_L.secret_hash == secret_hash, _L.ends_at > now)
        with self._database.read() as connection:
            row = connection.execute(asked).first()
        return None if row is None else ShareLink(*row)

    @again_when_busy
    def revoke(self, link_id: int, now: Instant, *, by: AuditedChange) -> ShareLink:
        this = update(share_links).where(_L.id == link_id, _L.ends_at > now)
        with self._database.write() as connection:
            row = connection.execute(this.values(ends_at=now, ended_by=by.actor).returning(*_COLUMNS)).first()
            if row is None:
                raise NotFound(f"no link {link_id}")
            link = ShareLink(*row)
            record(connection, now, by, link.address, _recorded(link), None)
        return link

    def list(self, now: Instant) -> Sequence[ShareLink]:
        asked = select(*_COLUMNS).where(_L.ends_at > now).order_by(_L.id.desc())
        with self._database.read() as connection:
            return [ShareLink(*row) for row in connection.execute(asked)]


def _recorded(link: ShareLink) -> dict[str, Any]:
    return {"link": link.link_id, "until": format_instant(link.ends_at)}
