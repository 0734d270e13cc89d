"""No garbage is collected while a leader takes over: the collector would scan all jobs, again and again."""

import gc
import threading

import pytest

from itinerary.protocol.errors import StoreUnavailable
from itinerary.protocol.instants import MINUTE, Duration, Instant, parse_instant
from scheduler_service.core.leader.state import CoreSettings
from scheduler_service.core.model import JobHistory, Lease
from scheduler_service.loops.election import Leader
from scheduler_service.loops.mailbox import monotonic
from scheduler_service.loops.scheduler_loop import Adapters
from scheduler_service.metrics.leader import PrometheusMeter
from scheduler_service.ports.leases import LeaseView
from tests.support.fake_leader import FakeLeaderStore
from tests.support.fake_lease import FakeLeaseStore
from tests.support.fake_rows import Tables
from tests.support.fake_store import FakeStore
from tests.support.fakes_redis import FakeClaims, FakeDispatcher, FakeInbox, FakeMarks
from tests.support.processes import wait_until

_NOW = parse_instant("2026-11-30T10:00:00Z")


class _Leases(FakeLeaseStore):
    """Notes whether garbage is collected when the lease is asked for: before each takeover, and after a broken one."""

    def __init__(self, tables: Tables) -> None:
        super().__init__(tables)
        self.collects: list[bool] = []

    def acquire(self, shard: int, holder: str, ttl: Duration, stalled: LeaseView | None = None) -> Lease | None:
        self.collects.append(gc.isenabled())
        return super().acquire(shard, holder, ttl, stalled)


class _Store(FakeLeaderStore):
    """Notes whether garbage is collected when all jobs are read; the first time the database goes away."""

    def __init__(self, tables: Tables) -> None:
        super().__init__(tables)
        self.collects: list[bool] = []

    def job_histories(self, since: Instant | None) -> list[JobHistory]:
        self.collects.append(gc.isenabled())
        if len(self.collects) == 1:
            raise StoreUnavailable("gone")
        return super().job_histories(since)


@pytest.mark.slow
def test_the_garbage_collector_is_off_during_a_takeover_and_on_after_it_also_where_it_fails() -> None:
    every = FakeStore(lambda: _NOW + monotonic())
    leases, store = _Leases(every.tables), _Store(every.tables)
    outside = Adapters(store, FakeInbox(), FakeClaims(), FakeDispatcher(), PrometheusMeter(), every.zone_rules)
    leader = Leader(CoreSettings(), leases, outside, FakeMarks(), holder="one", ttl=MINUTE, inbox_buffer=10)
    thread = threading.Thread(target=leader.run)
    thread.start()
    try:
        wait_until(lambda: len(store.collects) == 2 and gc.isenabled(), what="it leads, and garbage is collected again")
    finally:
        leader.stop()
        thread.join(60)
    assert store.collects == [False, False]
    assert leases.collects[:2] == [True, True]
