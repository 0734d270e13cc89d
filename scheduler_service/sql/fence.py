"""Write transactions that only the present leader can commit.

Promises that none commits for a lost lease, and that no other term begins while one is open. On PostgreSQL it locks the
lease row FOR KEY SHARE, which a takeover waits for and a renewal does not. On SQLite it begins with BEGIN IMMEDIATE.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, case, false, func, select, update

from itinerary.protocol.errors import LeaseLost
from itinerary.protocol.instants import Instant
from scheduler_service.core.model import Lease
from scheduler_service.sql.controls import no_edits
from scheduler_service.sql.database import Database
from scheduler_service.sql.dialect import Dialect
from scheduler_service.sql.tables import leases


@contextmanager
def fenced(database: Database, lease: Lease, *, by_controls: bool = False) -> Iterator[Connection]:
    """Run one write transaction of the leader; LeaseLost, before any write, if the lease is no longer this one.

    `by_controls`: no edit of queues commits before the transaction ends, and its later statements see the last one.
    """
    with database.write() as connection:
        if not _hold(database, connection, lease, by_controls):
            raise LeaseLost(f"term {lease.term} of shard {lease.shard} is over")
        yield connection


def is_still(lease: Lease) -> ColumnElement[bool]:
    """Whether the lease row has this term and holder, and was not resigned."""
    return and_(
        leases.c.shard == lease.shard,
        leases.c.term == lease.term,
        leases.c.holder == lease.holder,
        leases.c.resigned == false(),
    )


def _hold(database: Database, connection: Connection, lease: Lease, by_controls: bool) -> bool:
    if database.dialect is Dialect.POSTGRESQL:
        return connection.execute(_lock(lease.shard, lease.term, lease.holder, by_controls)).first() is not None
    return _renew_along(connection, lease, database.read_clock(connection))


@lru_cache(maxsize=8)
def _lock(shard: int, term: int, holder: str, by_controls: bool) -> Select[Any]:
    """Lock the lease row, and make the planner find rows by their keys during the transaction.

    Until the statistics know of the newest rows, a planner would read the whole table for every batch.
    """
    by_keys = func.set_config("enable_seqscan", "off", True)
    held = is_still(Lease(shard, term, holder, now=0))
    columns = (leases.c.term, by_keys, *([no_edits()] if by_controls else []))
    return select(*columns).where(held).with_for_update(read=True, key_share=True)


def _renew_along(connection: Connection, lease: Lease, now: Instant) -> bool:
    """Renew with each commit: SQLite has one writer, so a busy leader could not renew in time otherwise."""
    expires_at = now + leases.c.ttl
    renewed = (
        update(leases)
        .where(is_still(lease))
        .values(
            expires_at=case((leases.c.expires_at > expires_at, leases.c.expires_at), else_=expires_at),
            renewals=leases.c.renewals + 1,
        )
    )
    return connection.execute(renewed).rowcount == 1
