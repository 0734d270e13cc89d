"""The lease row in SQL: one guarded UPDATE for each duty, judged by the database's clock alone.

Promises: of any number of concurrent requests, exactly one gets each term, and the term that it ends is recorded in the
same transaction. Never decides whether to lead: a standby asks again, and a leader that could not renew stops.
"""

import time
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    Executable,
    Integer,
    Row,
    Select,
    Update,
    and_,
    bindparam,
    case,
    false,
    func,
    or_,
    select,
    true,
    update,
)

from itinerary.protocol.errors import LeaseLost
from itinerary.protocol.instants import MILLISECOND, MINUTE, SECOND, Duration, Instant, format_instant
from scheduler_service.core.model import Lease
from scheduler_service.core.notifications.notices import Notice, Topic
from scheduler_service.core.redis_marks import Marks
from scheduler_service.core.schedules.zone_rules import installed_rules
from scheduler_service.ports.leases import LeaseStore, LeaseView
from scheduler_service.sql.database import Bounds, Database
from scheduler_service.sql.dialect import Dialect
from scheduler_service.sql.fence import is_still
from scheduler_service.sql.notices import FactNotices
from scheduler_service.sql.ready import ReadyStatement
from scheduler_service.sql.record_tables import leaderships
from scheduler_service.sql.tables import leases

# A takeover may have to wait until the database ends a frozen leader's idle transaction (Bounds.idle).
LEASE_BOUNDS: Final = Bounds(statement=4_000 * MILLISECOND, lock=3_500 * MILLISECOND)
# A standby renews the mark of its different zone rules each minute, so a stopped standby's mark expires.
_MARK_HOLDS: Final = 3 * MINUTE
# Leader and standbys renew their notes about Redis each second.
_WORD_HOLDS: Final = 5 * SECOND


class SqlLeaseStore(LeaseStore):
    """LeaseStore on a connection of its own, so that no pool and no long write delays a renewal."""

    def __init__(self, database: Database, topics: frozenset[Topic] = frozenset()) -> None:
        self._database = database.beside(bounds=LEASE_BOUNDS)
        self._notices = FactNotices(topics)

    def acquire(self, shard: int, holder: str, ttl: Duration, stalled: LeaseView | None = None) -> Lease | None:
        """See LeaseStore; a lease that is held costs one read."""
        view = self.peek(shard)
        if view is not None and view.live and (stalled is None or not view.is_as(stalled)):
            return None
        with self._database.write() as connection:
            connection.execute(self._first_row(shard))
            before = connection.execute(self._free(shard, stalled)).first()
            if before is None:
                return None
            taken = connection.execute(self._takeover(shard, holder, ttl)).one()
            if before.term > 0:
                connection.execute(self._ended(shard, before, taken.now))
            if before.term > 0 and not before.resigned:
                self._notices.leader_lost(connection, _lost(before, taken.term, holder, taken.now))
        return Lease(shard, taken.term, holder, taken.now)

    def renew(self, lease: Lease, ttl: Duration) -> Lease:
        with self._database.write() as connection:
            renewed = connection.execute(self._renewal(lease, ttl)).first()
            answered_at = time.monotonic()
        if renewed is None:
            raise LeaseLost(f"term {lease.term} of shard {lease.shard} is over")
        # Else the leader's clock, and each run with it, would lag by the time that the disk needs for the commit.
        committing = int((time.monotonic() - answered_at) * SECOND)
        return Lease(lease.shard, lease.term, lease.holder, renewed.now + committing)

    def resign(self, lease: Lease) -> None:
        freed = update(leases).where(is_still(lease)).values(resigned=True, expires_at=self._database.now())
        with self._database.write() as connection:
            connection.execute(freed)

    def peek(self, shard: int) -> LeaseView | None:
        with self._database.read() as connection:
            rows = _VIEW.rows(connection, {"of_shard": shard, **self._database.clock_given()})
        return LeaseView(*rows[0]) if rows else None

    def mark_standby(self, shard: int, term: int, zone_rules: str) -> None:
        lease = and_(leases.c.shard == shard, leases.c.term == term)
        mark = update(leases).where(lease)
        with self._database.write() as connection:
            connection.execute(mark.values(standby_zone_rules=zone_rules, standby_seen_at=self._database.now()))

    def tell_without_redis(self, lease: Lease) -> bool:
        note = update(leases).where(is_still(lease)).values(without_redis_at=self._database.now())
        with self._database.write() as connection:
            relief_at = connection.execute(note.returning(leases.c.relief_at)).scalar_one_or_none()
            now = self._database.read_clock(connection)
        return relief_at is not None and relief_at > now - _WORD_HOLDS

    def offer_relief(self, shard: int, term: int) -> None:
        offer = update(leases).where(and_(leases.c.shard == shard, leases.c.term == term))
        with self._database.write() as connection:
            connection.execute(offer.values(relief_at=self._database.now()))

    def record_marks(self, lease: Lease, marks: Marks) -> None:
        record = update(leases).where(is_still(lease)).values(redis_mark=marks.redis, broker_mark=marks.broker)
        with self._database.write() as connection:
            connection.execute(record)

    def _first_row(self, shard: int) -> Executable:
        """Insert term 0, which belongs to nobody, so that every takeover is the same UPDATE of one row."""
        now = self._database.now()
        row = self._database.dialect.insert(leases).values(
            shard=shard, term=0, holder="", acquired_at=now, expires_at=now, ttl=0, renewals=0, resigned=True
        )
        insert: Executable = row.on_conflict_do_nothing()
        return insert

    def _free(self, shard: int, stalled: LeaseView | None) -> Select[Any]:
        """Select and lock the lease if it may be taken; waits for the open writes of its holder."""
        is_free = or_(leases.c.resigned == true(), leases.c.expires_at <= self._database.now())
        if stalled is not None:
            is_free = or_(is_free, and_(leases.c.term == stalled.term, leases.c.renewals == stalled.renewals))
        return select(leases).where(leases.c.shard == shard, is_free).with_for_update()

    def _takeover(self, shard: int, holder: str, ttl: Duration) -> Update:
        now = self._database.now
        return (
            update(leases)
            .where(leases.c.shard == shard)
            .values(
                term=leases.c.term + 1,
                controls_term=leases.c.term + 1,
                holder=holder,
                acquired_at=now(),
                expires_at=now(ttl),
                ttl=ttl,
                renewals=0,
                resigned=False,
                zone_rules=installed_rules().version,
                standby_zone_rules=None,
                standby_seen_at=None,
                without_redis_at=None,
                relief_at=None,
                redis_mark=None,
                broker_mark=None,
            )
            .returning(leases.c.term, now().label("now"))
        )

    def _ended(self, shard: int, before: Row[Any], now: Instant) -> Executable:
        """Record the term that this takeover ends."""
        ended_at = min(before.expires_at, now)
        lapsed = "lapsed" if before.expires_at <= now else "stood still"
        row = self._database.dialect.insert(leaderships).values(
            shard=shard,
            term=before.term,
            holder=before.holder,
            began_at=before.acquired_at,
            confirmed_at=ended_at if before.resigned else before.expires_at - before.ttl,
            ended_at=ended_at,
            ending="resigned" if before.resigned else lapsed,
            zone_rules=before.zone_rules,
        )
        insert: Executable = row.on_conflict_do_nothing()
        return insert

    def _renewal(self, lease: Lease, ttl: Duration) -> Update:
        return (
            update(leases)
            .where(is_still(lease))
            .values(expires_at=self._database.now(ttl), ttl=ttl, renewals=leases.c.renewals + 1)
            .returning(self._database.now().label("now"))
        )


def _view(dialect: Dialect) -> Select[Any]:
    def ago(hold: Duration) -> ColumnElement[Instant]:
        return dialect.later(dialect.clock(), -hold)

    columns = (
        leases.c.term,
        leases.c.holder,
        leases.c.acquired_at,
        leases.c.expires_at,
        leases.c.renewals,
        leases.c.ttl,
        dialect.clock().label("now"),
        leases.c.resigned,
        leases.c.zone_rules,
        case((leases.c.standby_seen_at > ago(_MARK_HOLDS), leases.c.standby_zone_rules)),
        func.coalesce(leases.c.without_redis_at > ago(_WORD_HOLDS), false()),
        leases.c.redis_mark,
        leases.c.broker_mark,
    )
    return select(*columns).where(leases.c.shard == bindparam("of_shard", type_=Integer), leases.c.term > 0)


_VIEW: Final = ReadyStatement(_view)


def _lost(before: Row[Any], term: int, holder: str, now: Instant) -> Notice:
    facts = {
        "term": before.term,
        "holder": before.holder,
        "confirmed_at": format_instant(before.expires_at - before.ttl),
        "followed_by": {"term": term, "holder": holder},
    }
    return Notice(Topic.LEADER_LOST, "leader", 1, now, now, facts)
