"""The only way to the database: engine, transactions, its clock, and its errors as ours.

Promises that no driver's error leaves this module: StoreUnavailable or RowRefused replace it. On SQLite, writers of
this process take turns in order of arrival and begin with BEGIN IMMEDIATE. On PostgreSQL, no statement, lock or idle
transaction exceeds its bound. Never retries: after StoreUnavailable the outcome of a write is unknown.
"""

import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import wraps
from typing import Final, ParamSpec, TypeVar

from sqlalchemy import (
    ColumnElement,
    Connection,
    Engine,
    exc,
    func,
    literal,
    select,
)

from itinerary.protocol.errors import (
    ItineraryError,
    RowRefused,
    StatementTimedOut,
    StoreBusy,
    StoreRefused,
    StoreUnavailable,
)
from itinerary.protocol.instants import SECOND, Duration, Instant
from scheduler_service.sql.column_types import InstantColumn
from scheduler_service.sql.database_url import read_url
from scheduler_service.sql.dialect import Dialect
from scheduler_service.sql.postgres import BOUNDS, WRITES, is_direct, postgres_engine
from scheduler_service.sql.postgres import PLANNED_EACH_TIME as PLANNED_EACH_TIME
from scheduler_service.sql.postgres import Bounds as Bounds
from scheduler_service.sql.ready import ReadyStatement
from scheduler_service.sql.sqlite import sqlite_engine

P = ParamSpec("P")
T = TypeVar("T")
_CLOCK: Final[ColumnElement[Instant]] = func.clock_timestamp(type_=InstantColumn)
_READ_CLOCK: Final = ReadyStatement(lambda _: select(_CLOCK))
_UNDONE: Final = frozenset({"40P01", "40001"})  # deadlock detected, serialization failure
_PAUSES: Final = (0.02, 0.1)


def host_now() -> Instant:
    """This host's clock, which is the database's clock for SQLite, since the file is on this host."""
    return time.time_ns() // 1_000


def again_when_busy(write: Callable[P, T]) -> Callable[P, T]:
    """Repeat a whole write after a deadlock, which PostgreSQL has rolled back."""

    @wraps(write)
    def patiently(*args: P.args, **kwargs: P.kwargs) -> T:
        for pause in _PAUSES:
            try:
                return write(*args, **kwargs)
            except StoreBusy:
                time.sleep(pause * random.uniform(0.5, 1.5))
        return write(*args, **kwargs)

    return patiently


class Database:
    """A pool of connections to one database. Threads may share it.

    On SQLite, the writes of a pool that `goes_first` come before those of other waiting processes.
    """

    def __init__(
        self,
        url: str,
        *,
        pool_size: int = 5,
        bounds: Bounds = BOUNDS,
        clock: Callable[[], Instant] = host_now,
        queue: "WriterQueue | None" = None,
        goes_first: bool = False,
    ) -> None:
        self.url = url
        self._url, self._bounds, self._clock = read_url(url), bounds, clock
        self._goes_first = goes_first
        self.queue = queue or WriterQueue()
        self._beside: list[Database] = []
        self.dialect = Dialect(self._url.get_backend_name())
        self.engine: Engine = (
            sqlite_engine(self._url, pool_size, bounds, goes_first)
            if self.dialect is Dialect.SQLITE
            else postgres_engine(self._url, pool_size, bounds)
        )

    def beside(self, *, bounds: Bounds | None = None) -> "Database":
        """The same database through one connection of its own, for calls that must never wait for the pool.

        Closing this one closes it too.
        """
        other = Database(
            self.url,
            pool_size=1,
            bounds=bounds or self._bounds,
            clock=self._clock,
            queue=self.queue,
            goes_first=self._goes_first,
        )
        self._beside.append(other)
        return other

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Yield a connection for reading; each statement sees the newest committed state."""
        with _our_errors(), self.engine.connect() as connection:
            if self.dialect is Dialect.POSTGRESQL and is_direct(connection):
                connection.execution_options(isolation_level="AUTOCOMMIT")
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """Yield the connection of one write transaction, committed at the end of the block."""
        with self._turn(), _our_errors(), self.engine.connect() as connection:
            connection.execution_options(**{WRITES: True})
            with connection.begin():
                yield connection

    @contextmanager
    def session(self) -> Iterator[Connection]:
        """Yield a connection whose transactions the caller begins and ends."""
        with _our_errors(), self.engine.connect() as connection:
            yield connection

    def now(self, plus: Duration = 0) -> ColumnElement[Instant]:
        """The database's clock as an SQL expression, `plus` later."""
        if self.dialect is Dialect.SQLITE:
            return literal(self._clock() + plus, InstantColumn)
        return self.dialect.later(_CLOCK, plus) if plus else _CLOCK

    def clock_given(self) -> Mapping[str, Instant]:
        """The parameter of `Dialect.clock`, if this kind of database has it."""
        return {"now": self._clock()} if self.dialect is Dialect.SQLITE else {}

    def read_clock(self, connection: Connection) -> Instant:
        """Read the database's clock."""
        if self.dialect is Dialect.SQLITE:
            return self._clock()
        ((now,),) = _READ_CLOCK.rows(connection, {})
        return int(now)

    def ping(self) -> None:
        """Return if the database answers; raise otherwise."""
        with self.read() as connection:
            self.read_clock(connection)

    def close(self) -> None:
        """Close every connection, including those of `beside`."""
        for other in self._beside:
            other.close()
        self.engine.dispose()

    def _turn(self) -> AbstractContextManager[None]:
        return self.queue.turn(self._bounds.statement) if self.dialect is Dialect.SQLITE else nullcontext()


class WriterQueue:
    """SQLite's single writer: threads of this process take turns, first come, first served."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[threading.Event] = deque()

    @property
    def waiting(self) -> int:
        """The number of threads that wait behind the current writer."""
        return max(0, len(self._waiting) - 1)

    @contextmanager
    def turn(self, timeout: Duration) -> Iterator[None]:
        """Wait up to `timeout` for this thread's turn and hold it during the block; StoreUnavailable after that."""
        mine = threading.Event()
        with self._lock:
            self._waiting.append(mine)
            self._waiting[0].set()
        try:
            if not mine.wait(timeout / SECOND):
                raise StoreUnavailable("other writers of this process kept the database busy; try again")
            yield
        finally:
            with self._lock:
                self._waiting.remove(mine)
                if self._waiting:
                    self._waiting[0].set()


@contextmanager
def savepoint(connection: Connection) -> Iterator[None]:
    """Run the block as a part of a write transaction that can be undone by itself."""
    with _our_errors(), connection.begin_nested():
        yield


# Refusals of PostgreSQL and libpq that waiting does not cure. An unknown host name is not among them: a container's
# name resolves once it runs.
_NEVER_LET_IN: Final = (
    "authentication failed",
    "no password supplied",
    "no pg_hba.conf entry",
    "does not exist",
    "unable to open database file",
)
_NO_RIGHT: Final = "42501"
_OF_TLS: Final = ("certificate", "private key file", "unknown ca", "does not support SSL")
_ADVICE_ON_RIGHTS: Final = "grant this role what the manual lists under Security, again after each migration"
_ADVICE_ON_TLS: Final = "check sslmode, sslrootcert, sslcert and sslkey in the database's address"


@contextmanager
def _our_errors() -> Iterator[None]:
    try:
        yield
    except (exc.DataError, exc.IntegrityError) as error:
        raise RowRefused(_message(error)) from error
    except (OverflowError, UnicodeEncodeError) as error:
        raise RowRefused(f"not storable: {error}") from error
    except exc.DBAPIError as error:
        state = getattr(error.orig, "sqlstate", None) or ""
        advice = _advice_on(state, str(error.orig))
        raise _kind_of(state, str(error.orig), advice)(f"{_message(error)}{advice}") from error
    except exc.StatementError as error:  # the parameter never reached the driver
        raise RowRefused(_message(error)) from error
    except exc.TimeoutError as error:
        raise StoreUnavailable("every connection to the database is in use; try again") from error


def _advice_on(state: str, message: str) -> str:
    if state == _NO_RIGHT:
        return f"; {_ADVICE_ON_RIGHTS}"
    return f"; {_ADVICE_ON_TLS}" if not state and any(text in message for text in _OF_TLS) else ""


def _kind_of(state: str, message: str, advice: str) -> type[ItineraryError]:
    if state.startswith("54"):  # a program limit: this row will never fit
        return RowRefused
    if state in _UNDONE:
        return StoreBusy
    if state == "57014":
        return StatementTimedOut
    # A refused connection has no code.
    refused = advice or (not state and any(text in message for text in _NEVER_LET_IN))
    return StoreRefused if refused else StoreUnavailable


def _message(error: exc.StatementError) -> str:
    return " ".join(str(error.orig).split())[:300]
