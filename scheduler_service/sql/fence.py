"""Write transactions that only the present leader can commit.

Promises that none commits for a lost lease, and that no other term begins while one is open. On PostgreSQL it locks the
lease row FOR KEY SHARE, which a takeover waits for and a renewal does not. On SQLite it begins with BEGIN IMMEDIATE.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Integer,
    Select,
    Text,
    Update,
    and_,
    bindparam,
    case,
    false,
    func,
    select,
    update,
)

from itinerary.protocol.errors import LeaseLost
from scheduler_service.core.model import Lease
from scheduler_service.sql.column_types import InstantColumn
from scheduler_service.sql.controls import no_edits
from scheduler_service.sql.database import Database
from scheduler_service.sql.dialect import Dialect
from scheduler_service.sql.ready import ReadyStatement
from scheduler_service.sql.tables import leases

_IS_HOLDER: Final = and_(
    leases.c.shard == bindparam("of_shard", type_=Integer),
    leases.c.term == bindparam("of_term", type_=BigInteger),
    leases.c.holder == bindparam("of_holder", type_=Text),
    leases.c.resigned == false(),
)


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
    holder = {"of_shard": lease.shard, "of_term": lease.term, "of_holder": lease.holder}
    if database.dialect is Dialect.POSTGRESQL:
        return bool((_LOCK_WITH_CONTROLS if by_controls else _LOCK).rows(connection, holder))
    # Renew with each commit: SQLite has one writer, so a busy leader could not renew in time otherwise.
    return _RENEW_ALONG.count(connection, {**holder, "now": database.read_clock(connection)}) == 1


def _lock(*more: ColumnElement[Any]) -> Select[Any]:
    """Lock the lease row, and make the planner find rows by their keys during the transaction.

    Until the statistics know of the newest rows, a planner would read the whole table for every batch.
    """
    by_keys = func.set_config("enable_seqscan", "off", True)
    return select(leases.c.term, by_keys, *more).where(_IS_HOLDER).with_for_update(read=True, key_share=True)


def _renewal() -> Update:
    expires_at = bindparam("now", type_=InstantColumn) + leases.c.ttl
    return (
        update(leases)
        .where(_IS_HOLDER)
        .values(
            expires_at=case((leases.c.expires_at > expires_at, leases.c.expires_at), else_=expires_at),
            renewals=leases.c.renewals + 1,
        )
    )


_LOCK: Final = ReadyStatement(lambda _: _lock())
_LOCK_WITH_CONTROLS: Final = ReadyStatement(lambda _: _lock(no_edits()))
_RENEW_ALONG: Final = ReadyStatement(lambda _: _renewal())
