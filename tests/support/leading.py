"""A leader over a real database and a real Redis, in a thread of the test."""

import threading
from contextlib import AbstractContextManager, ExitStack, closing
from types import TracebackType
from typing import Self

from itinerary.protocol.instants import SECOND, Duration, Instant
from scheduler_service.bootstrap.parts import wakeups_of
from scheduler_service.broker.claims import RedisClaims
from scheduler_service.broker.dispatcher import CeleryDispatcher, publishing_app
from scheduler_service.broker.inbox import RedisInbox
from scheduler_service.broker.marks import RedisMarks
from scheduler_service.core.leader.state import CoreSettings
from scheduler_service.core.schedules.zone_eras import put_in_force
from scheduler_service.loops.election import Leader
from scheduler_service.loops.pruner import Retention
from scheduler_service.loops.sampler import Sampling
from scheduler_service.loops.scheduler_loop import Adapters
from scheduler_service.metrics.leader import PrometheusMeter
from scheduler_service.sql.database import Database, host_now
from scheduler_service.sql.jobs import SqlJobStore
from scheduler_service.sql.leader.store import SqlLeaderStore
from scheduler_service.sql.lease import SqlLeaseStore
from scheduler_service.sql.pruning import SqlPruning
from scheduler_service.sql.runs import SqlRunStore
from scheduler_service.sql.samples import SqlSampleStore
from scheduler_service.sql.zone_rules import SqlZoneRulesStore


class LeaderThread(AbstractContextManager["LeaderThread"]):
    """One contender; `stop` is the clean stop of SIGTERM. `jobs`, `runs`, `inbox` are for what users do."""

    def __init__(
        self,
        database_url: str,
        redis_url: str,
        *,
        holder: str = "one",
        ttl: Duration = 5 * SECOND,
        retention: Duration | None = None,
        broker_url: str | None = None,
        settings: CoreSettings = CoreSettings(),  # noqa: B008 - it is frozen
    ) -> None:
        self._stack = ExitStack()
        self.database = self._stack.enter_context(closing(Database(database_url)))
        self.inbox = self._stack.enter_context(closing(RedisInbox(redis_url)))
        claims = self._stack.enter_context(closing(RedisClaims(redis_url)))
        dispatcher = self._stack.enter_context(closing(CeleryDispatcher(publishing_app(broker_url or redis_url))))
        self.jobs, self.runs = SqlJobStore(self.database), SqlRunStore(self.database)
        self.leases = SqlLeaseStore(self.database)
        self.meter = PrometheusMeter()
        pruning = SqlPruning(self.database.beside())
        outside = Adapters(
            SqlLeaderStore(self.database), self.inbox, claims, dispatcher, self.meter,
            SqlZoneRulesStore(self.database), wakeups_of(self.database),
            None if retention is None else Retention(pruning, retention, host_now, SECOND // 5, SECOND, whole=0),
            Sampling(self.meter.samples, SqlSampleStore(self.database)),
        )  # fmt: skip
        marks = self._stack.enter_context(closing(RedisMarks(redis_url, broker_url or redis_url)))
        self.leader = Leader(settings, self.leases, outside, marks, holder=holder, ttl=ttl, inbox_buffer=1000)
        self._thread = threading.Thread(target=self.leader.run, name=f"leader {holder}")

    def now(self) -> Instant:
        """The database's clock."""
        with self.database.read() as connection:
            return self.database.read_clock(connection)

    def stop(self) -> None:
        self.leader.stop()
        self._thread.join(60)
        assert not self._thread.is_alive(), "the leader does not stop"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        self._stack.close()
        put_in_force(())  # those of this database; the tests' process goes on
