"""Named points in a leader's life, reached by watching its calls to the ports: nothing in the product knows of them.

A point is "before" or "after" a call, or "before its COMMIT": `POINTS` says which stands for which. Where runs are
moved and published, only batches with a one-off run count, so that a test chooses its moment by enqueueing.
"""

import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any, Final

from sqlalchemy import Connection, event
from uuid_utils.compat import uuid7

from scheduler_service.bootstrap.core_settings import core_settings
from scheduler_service.bootstrap.parts import wakeups_of
from scheduler_service.broker.claims import RedisClaims
from scheduler_service.broker.dispatcher import CeleryDispatcher, publishing_app
from scheduler_service.broker.inbox import RedisInbox
from scheduler_service.broker.marks import RedisMarks
from scheduler_service.config.settings import Settings
from scheduler_service.core.leader.commands import Apply, CreateRuns
from scheduler_service.core.model import DispatchedRun
from scheduler_service.loops.election import Leader
from scheduler_service.loops.scheduler_loop import Adapters
from scheduler_service.metrics.leader import PrometheusMeter
from scheduler_service.sql.database import Database
from scheduler_service.sql.leader.store import SqlLeaderStore
from scheduler_service.sql.lease import SqlLeaseStore
from scheduler_service.sql.zone_rules import SqlZoneRulesStore

POINTS: Final = {
    "the term is taken, nothing is read": "before cursor",
    "taking over": "after active_runs",
    "before making runs": "before create_runs",
    "making runs, before COMMIT": "commit of create_runs",
    "moving runs, before COMMIT": "commit of dispatch_runs",
    "runs moved, not published": "after dispatch_runs",
    "half a batch published": "half publish",
    "published, not marked": "after publish",
    "inbox read, before COMMIT": "commit of apply",
    "inbox committed, not trimmed": "before trim",
    "inbox trimmed": "after trim",
    "index built, not taken": "before rebuilt",
}


class Trap:
    """Springs once, when its point is reached while it is armed; `spring` is told the database connection's port."""

    def __init__(self, point: str, armed: Callable[[], bool], spring: Callable[[int], None]) -> None:
        self._place = POINTS[point]
        self._armed = armed
        self._spring = spring
        self._sprung = threading.Lock()

    def reach(self, place: str, port: int = 0) -> bool:
        """Be at this place; whether the trap sprang (and was survived)."""
        if place != self._place or not self._armed() or not self._sprung.acquire(blocking=False):
            return False
        self._spring(port)
        return True


class Watched:
    """Passes every call on to `part`; those of `names` reach their places."""

    def __init__(self, part: Any, trap: Trap, *names: str) -> None:
        self._part = part
        self._trap = trap
        self._names = names

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._part, name)
        if name not in self._names:
            return call

        def watched(*args: Any, **more: Any) -> Any:
            self._trap.reach(f"before {name}")
            answer = call(*args, **more)
            self._trap.reach(f"after {name}")
            return answer

        return watched


class WatchedStore(Watched):
    """A LeaderStore whose commits are places too."""

    def __init__(self, database: Database, trap: Trap) -> None:
        super().__init__(SqlLeaderStore(database), trap, "cursor", "active_runs", "create_runs", "dispatch_runs")
        self._within = threading.local()
        event.listen(database.engine, "commit", self._on_commit)

    def create_runs(self, lease: Any, batch: CreateRuns) -> Any:
        """Worth a crash only where runs are made."""
        if not batch.runs:
            return self._part.create_runs(lease, batch)
        self._trap.reach("before create_runs")
        return self._committing("create_runs", lease, batch)

    def dispatch_runs(self, lease: Any, dispatches: Any, now: Any, control: int = 0) -> Any:
        """Worth a crash only where a one-off run is moved."""
        if not _has_one_off(dispatches):
            return self._part.dispatch_runs(lease, dispatches, now, control)
        answer = self._committing("dispatch_runs", lease, dispatches, now, control)
        self._trap.reach("after dispatch_runs")
        return answer

    def apply(self, lease: Any, batch: Apply) -> Any:
        """Worth a crash only where reports are applied."""
        if not (batch.transitions and batch.position):
            return self._part.apply(lease, batch)
        return self._committing("apply", lease, batch)

    def _committing(self, name: str, *args: Any) -> Any:
        self._within.call = name
        try:
            return getattr(self._part, name)(*args)
        finally:
            self._within.call = None

    def _on_commit(self, connection: Connection) -> None:
        call = getattr(self._within, "call", None)
        if call is not None:
            self._trap.reach(f"commit of {call}", _local_port(connection))


class HalfPublishing(Watched):
    """A Dispatcher that can be stopped in the middle of a batch."""

    def publish(self, runs: "tuple[DispatchedRun, ...]") -> None:
        half = len(runs) // 2
        if not _has_one_off(runs):
            return self._part.publish(runs)
        if half:
            self._part.publish(runs[:half])
            self._trap.reach("half publish")
        self._part.publish(runs[half:])
        self._trap.reach("after publish")
        return None


@contextmanager
def open_watched_leader(settings: Settings, trap: Trap) -> Iterator[Leader]:
    """The leader of `bootstrap.open_leader`, its ports watched."""
    with (
        closing(Database(settings.database_url, pool_size=5)) as database,
        closing(RedisInbox(settings.redis_url)) as inbox,
        closing(RedisClaims(settings.redis_url)) as claims,
        closing(CeleryDispatcher(publishing_app(settings.broker_url))) as dispatcher,
        closing(RedisMarks(settings.redis_url, settings.broker_url)) as marks,
    ):
        outside: Any = Adapters(
            WatchedStore(database, trap),
            Watched(inbox, trap, "trim"),
            claims,
            HalfPublishing(dispatcher, trap),
            Watched(PrometheusMeter(), trap, "rebuilt"),
            SqlZoneRulesStore(database),
            wakeups_of(database),
        )
        yield Leader(
            core_settings(settings), SqlLeaseStore(database), outside, marks,
            holder=str(uuid7()), ttl=settings.lease_ttl, inbox_buffer=settings.inbox_buffer_size,
        )  # fmt: skip


def _has_one_off(batch: Any) -> bool:
    return any(run.run_id.startswith("adhoc_") for run in batch)


def _local_port(connection: Connection) -> int:
    """Our end of a PostgreSQL connection, by which a proxy knows it."""
    raw = connection.connection.dbapi_connection
    if not hasattr(raw, "fileno"):
        return 0
    with socket.socket(fileno=os.dup(raw.fileno())) as end:
        port: int = end.getsockname()[1]
        return port
