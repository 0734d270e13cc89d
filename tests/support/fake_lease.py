"""LeaseStore in memory, by the same contract as the SQL one."""

from dataclasses import replace

from itinerary.protocol.errors import LeaseLost
from itinerary.protocol.instants import SECOND, Duration, Instant
from scheduler_service.core.explain.facts import Term
from scheduler_service.core.model import Lease
from scheduler_service.core.redis_marks import Marks
from scheduler_service.ports.leases import LeaseView
from tests.support.fake_rows import LeaseRow, Tables


class FakeLeaseStore:
    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def acquire(self, shard: int, holder: str, ttl: Duration, stalled: LeaseView | None = None) -> Lease | None:
        with self._tables.lock:
            now, row = self._tables.clock(), self._tables.leases.get(shard)
            stands_still = stalled is not None and (view := self.peek(shard)) is not None and view.is_as(stalled)
            if row is not None and not row.resigned and now < row.expires_at and not stands_still:
                return None
            term = 1 if row is None else row.term + 1
            if row is not None:
                self._tables.ended_terms.append(_ended(row, now))
            self._tables.leases[shard] = LeaseRow(term, holder, now, now + ttl, ttl)
            return Lease(shard, term, holder, now)

    def renew(self, lease: Lease, ttl: Duration) -> Lease:
        with self._tables.lock:
            self._tables.check(lease)
            row, now = self._tables.leases[lease.shard], self._tables.clock()
            row.expires_at, row.ttl, row.renewals = now + ttl, ttl, row.renewals + 1
            return replace(lease, now=now)

    def resign(self, lease: Lease) -> None:
        with self._tables.lock:
            try:
                self._tables.check(lease)
            except LeaseLost:
                return
            row = self._tables.leases[lease.shard]
            row.resigned, row.expires_at = True, self._tables.clock()

    def peek(self, shard: int) -> LeaseView | None:
        with self._tables.lock:
            row = self._tables.leases.get(shard)
            if row is None:
                return None
            now = self._tables.clock()
            return LeaseView(
                row.term, row.holder, row.acquired_at, row.expires_at, row.renewals, row.ttl, now, row.resigned,
                row.zone_rules, row.standby_zone_rules,
                row.without_redis_at is not None and row.without_redis_at > now - 5 * SECOND,
                row.redis_mark, row.broker_mark,
            )  # fmt: skip

    def tell_without_redis(self, lease: Lease) -> bool:
        with self._tables.lock:
            self._tables.check(lease)
            row, now = self._tables.leases[lease.shard], self._tables.clock()
            row.without_redis_at = now
            return row.relief_at is not None and row.relief_at > now - 5 * SECOND

    def offer_relief(self, shard: int, term: int) -> None:
        with self._tables.lock:
            row = self._tables.leases.get(shard)
            if row is not None and row.term == term:
                row.relief_at = self._tables.clock()

    def record_marks(self, lease: Lease, marks: Marks) -> None:
        with self._tables.lock:
            try:
                self._tables.check(lease)
            except LeaseLost:
                return
            row = self._tables.leases[lease.shard]
            row.redis_mark, row.broker_mark = marks.redis, marks.broker

    def mark_standby(self, shard: int, term: int, zone_rules: str) -> None:
        with self._tables.lock:
            row = self._tables.leases.get(shard)
            if row is not None and row.term == term:
                row.standby_zone_rules = zone_rules


def _ended(row: LeaseRow, now: Instant) -> Term:
    ended_at = min(row.expires_at, now)
    if row.resigned:
        return Term(row.term, row.holder, row.acquired_at, ended_at, ended_at, "resigned")
    ending = "lapsed" if row.expires_at <= now else "stood still"
    return Term(row.term, row.holder, row.acquired_at, row.expires_at - row.ttl, ended_at, ending)
