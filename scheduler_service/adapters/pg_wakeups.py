"""Wakeups by PostgreSQL's LISTEN, on a connection of its own.

Promises: after a broken connection the first answer names everything, since what was said meanwhile is lost. Reads no
rows and trusts no payload but the two words that the triggers send. Through a pooler that hands a connection to
somebody else after each transaction nothing is heard; then the leader's own looks find what was committed.
"""

import time
from collections.abc import Iterator, Set
from contextlib import contextmanager
from multiprocessing.connection import wait as wait_for
from typing import Any, Final

import psycopg

from scheduler_service.adapters.database import read_url
from scheduler_service.core.errors import StoreUnavailable
from scheduler_service.core.instants import SECOND, Duration
from scheduler_service.ports.records import News

CHANNEL: Final = "itinerary"
_ALL: Final[frozenset[News]] = frozenset({"runs", "jobs"})
_SILENT_FOR: Final = 10 * SECOND
_OPTIONS: Final[dict[str, Any]] = {
    "connect_timeout": 5, "application_name": "itinerary wakeups", "keepalives": 1, "keepalives_idle": 5,
    "keepalives_interval": 2, "keepalives_count": 3, "tcp_user_timeout": 10_000,
}  # fmt: skip


class PgWakeups:
    """Wakeups on PostgreSQL. Used by one thread."""

    def __init__(self, database_url: str) -> None:
        url = read_url(database_url).set(drivername="postgresql")
        self._url = url.render_as_string(hide_password=False)
        self._connection: psycopg.Connection[Any] | None = None
        self._silent = 0

    def wait(self, timeout: Duration) -> Set[News]:
        """See Wakeups."""
        with self._errors():
            if self._connection is None:
                self._connection = self._listening()
                return _ALL
            until = time.monotonic() + timeout / SECOND
            heard: set[str] = set()
            # The driver's own waiting wakes ten times a second.
            while not heard and wait_for([self._connection.fileno()], max(0.0, until - time.monotonic())):
                heard = {notify.payload for notify in self._connection.notifies(timeout=0)}
            self._check_life(bool(heard), timeout)
            return _ALL & heard

    def close(self) -> None:
        """See Wakeups."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _listening(self) -> "psycopg.Connection[Any]":
        connection = psycopg.connect(self._url, autocommit=True, **_OPTIONS)
        connection.execute(f"LISTEN {CHANNEL}")
        return connection

    def _check_life(self, heard: bool, waited: Duration) -> None:
        """A peer that is gone without a word is found by asking it now and then."""
        self._silent = 0 if heard else self._silent + waited
        if self._silent >= _SILENT_FOR and self._connection is not None:
            self._silent = 0
            self._connection.execute("SELECT 1")

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (psycopg.Error, OSError) as exc:
            self.close()
            raise StoreUnavailable(" ".join(str(exc).split())[:300]) from exc
