"""Wakeups by PostgreSQL's LISTEN, on a connection of its own.

Promises: after a broken connection the first answer names everything, since notices sent meanwhile are lost. Reads no
rows, and trusts no payload except the two words that the triggers send. Through a pooler, notices are unreliable and a
LISTEN would stay behind for another client, so there it names everything once a second instead.
"""

import time
from collections.abc import Iterator, Set
from contextlib import contextmanager
from multiprocessing.connection import wait as wait_for
from typing import Any, Final

import psycopg
import structlog

from itinerary.protocol.errors import StoreUnavailable
from itinerary.protocol.instants import SECOND, Duration
from scheduler_service.ports.records import News, Wakeups
from scheduler_service.sql.database_url import libpq_options, read_url
from scheduler_service.sql.postgres import is_direct_to_server

log = structlog.get_logger(__name__)

CHANNEL: Final = "itinerary"
_ALL: Final[frozenset[News]] = frozenset({"runs", "jobs"})
_REPLACED_AFTER: Final = 10 * SECOND
_POLLED_SECONDS: Final = 1.0
_OPTIONS: Final[dict[str, Any]] = {
    "connect_timeout": 5, "application_name": "itinerary wakeups", "keepalives": 1, "keepalives_idle": 5,
    "keepalives_interval": 2, "keepalives_count": 3, "tcp_user_timeout": 10_000,
}  # fmt: skip


class PgWakeups(Wakeups):
    """Wakeups on PostgreSQL. Used by one thread."""

    def __init__(self, database_url: str) -> None:
        self._options = {**libpq_options(read_url(database_url)), **_OPTIONS}
        self._connection: psycopg.Connection[Any] | None = None
        self._without_notice = 0
        self._polls_at: float | None = None

    def wait(self, timeout: Duration) -> Set[News]:
        if self._polls_at is not None:
            return self._poll(timeout)
        with self._errors():
            if self._connection is None:
                self._connection = self._listening()
                return _ALL
            until = time.monotonic() + timeout / SECOND
            received: set[str] = set()
            # The driver's own wait wakes ten times a second.
            while not received and wait_for([self._connection.fileno()], max(0.0, until - time.monotonic())):
                received = {notify.payload for notify in self._connection.notifies(timeout=0)}
            self._check_life(bool(received), timeout)
            return _ALL & received

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _listening(self) -> "psycopg.Connection[Any] | None":
        connection = psycopg.connect(autocommit=True, **self._options)
        if is_direct_to_server(connection):
            connection.execute(f"LISTEN {CHANNEL}")
            return connection
        connection.close()
        log.warning("notices are not heard through a pooler, asking each second", remedy="set DATABASE_DIRECT_URL")
        self._polls_at = time.monotonic() + _POLLED_SECONDS
        return None

    def _poll(self, timeout: Duration) -> Set[News]:
        assert self._polls_at is not None
        now = time.monotonic()
        time.sleep(max(0.0, min(timeout / SECOND, self._polls_at - now)))
        if time.monotonic() < self._polls_at:
            return frozenset()
        self._polls_at = now + _POLLED_SECONDS
        return _ALL

    def _check_life(self, received: bool, waited: Duration) -> None:
        """Query the server now and then, to notice a connection that broke silently."""
        self._without_notice = 0 if received else self._without_notice + waited
        if self._without_notice >= _REPLACED_AFTER and self._connection is not None:
            self._without_notice = 0
            self._connection.execute("SELECT 1")

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (psycopg.Error, OSError) as exc:
            self.close()
            raise StoreUnavailable(" ".join(str(exc).split())[:300]) from exc
