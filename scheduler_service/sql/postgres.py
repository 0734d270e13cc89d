"""PostgreSQL's connections: direct ones, and those through a pooler that shares a server's connection between clients.

Promises: on a connection proven to be direct, statements are prepared and the bounds hold for the session. On any
other, nothing outlives a transaction: no statement is prepared by name, and each transaction begins by setting its
bounds.
"""

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import psycopg
from psycopg.sql import quote as quoted
from sqlalchemy import URL, Connection, Dialect, Engine, create_engine, event
from sqlalchemy.exc import InvalidatePoolError

from itinerary.protocol.instants import MILLISECOND, MINUTE, SECOND, Duration
from scheduler_service.sql.column_types import dump_json, load_json

WRITES: Final = "itinerary_writes"
PLANNED_EACH_TIME: Final = "itinerary_planned_each_time"
"""An execution option of statements whose best plan depends on the values: PostgreSQL plans each execution."""
_KEEPALIVES: Final = {"keepalives": 1, "keepalives_idle": 5, "keepalives_interval": 2, "keepalives_count": 3}
# JIT compilation takes longer than any of these short statements. Rows that are read together lie together, in memory;
# a planner that assumes slow random reads would rather read all history.
_ALWAYS: Final = {"timezone": "UTC", "jit": "off", "random_page_cost": "1.1"}
_MARK: Final = "itinerary.direct"
_DIRECT: Final = "itinerary_direct"
_USED_AT: Final = "itinerary_used_at"
_FRESH_SECONDS: Final = 1.0
_ASKED: Final = re.compile(r"(?:-c *|--)([a-z_.]+)=(\S+)")
_REFUSED: Final = "unsupported startup parameter"
# A transaction that only reads blocks nobody, and its caller works through the rows while it is open.
_IDLE_READING: Final = MINUTE


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits on waiting for the database; `idle` bounds how long a frozen leader blocks a takeover."""

    connect: Duration = 5 * SECOND
    statement: Duration = 10 * SECOND
    lock: Duration = 2 * SECOND
    idle: Duration = 2_500 * MILLISECOND

    def settings(self, *, reading: bool = False) -> dict[str, str]:
        """PostgreSQL's settings for one of our sessions or transactions."""
        idle = max(self.idle, _IDLE_READING) if reading else self.idle
        bounds = {
            "statement_timeout": self.statement, "lock_timeout": self.lock, "idle_in_transaction_session_timeout": idle
        }  # fmt: skip
        return {name: str(value // MILLISECOND) for name, value in bounds.items()} | _ALWAYS


BOUNDS: Final = Bounds()


def is_direct(connection: Connection) -> bool:
    """Whether this connection was proven to reach PostgreSQL itself."""
    return bool(connection.info.get(_DIRECT))


def postgres_engine(url: URL, pool_size: int, bounds: Bounds) -> Engine:
    """An engine whose connections keep this module's promises."""
    asked = _options_of(url)
    settings = {**bounds.settings(), _MARK: "on"}
    engine = create_engine(
        url,
        pool_size=pool_size,
        max_overflow=0,
        pool_timeout=bounds.connect / SECOND,
        isolation_level="READ COMMITTED",
        connect_args={
            "options": " ".join([asked, *(f"-c {name}={value}" for name, value in settings.items())]).strip(),
            "connect_timeout": max(2, bounds.connect // SECOND),
            "tcp_user_timeout": bounds.statement // MILLISECOND,
            "application_name": "itinerary",
            **_KEEPALIVES,
        },
        json_serializer=dump_json,
        json_deserializer=load_json,
    )
    event.listen(engine, "do_execute", _execute_unprepared)
    event.listen(engine, "do_connect", _connect)
    event.listen(engine, "checkin", _note_use)
    event.listen(engine, "checkout", partial(_ping_if_idle, engine.dialect))
    event.listen(engine, "begin", _Setting(bounds, dict(_ASKED.findall(asked))).begin)
    return engine


def _note_use(connection: Any, record: Any) -> None:
    if connection is not None:
        record.info[_USED_AT] = time.monotonic()


def _ping_if_idle(dialect: Dialect, connection: Any, record: Any, _: Any) -> None:
    """Replace a connection that died while it was idle; a round trip for each transaction of a busy leader is saved."""
    used_at = record.info.get(_USED_AT)
    if used_at is None or time.monotonic() - used_at < _FRESH_SECONDS:
        return
    try:
        dialect.do_ping(connection)
    except psycopg.Error as error:
        raise InvalidatePoolError from error


def _options_of(url: URL) -> str:
    asked = url.query.get("options", "")
    return asked if isinstance(asked, str) else " ".join(asked)


def is_direct_to_server(connection: "psycopg.Connection[Any]") -> bool:
    """Whether the server itself answers: a pooler invents a process id for each client."""
    pid = connection.execute("SELECT pg_backend_pid()", prepare=False).fetchone()
    return pid is not None and pid[0] == connection.info.backend_pid


def _connect(dialect: Any, record: Any, cargs: Any, cparams: dict[str, Any]) -> Any:
    try:
        connection = dialect.connect(*cargs, **cparams)
    except psycopg.OperationalError as error:
        if _REFUSED not in str(error):
            raise
        connection = dialect.connect(*cargs, **{name: cparams[name] for name in cparams if name != "options"})
    try:
        record.info[_DIRECT] = _is_proven_direct(connection)
    except BaseException:
        connection.close()
        raise
    if not record.info[_DIRECT]:
        connection.prepare_threshold = None
    return connection


def _is_proven_direct(connection: "psycopg.Connection[Any]") -> bool:
    connection.autocommit = True
    try:
        mark = connection.execute(f"SELECT current_setting('{_MARK}', true)", prepare=False).fetchone()
        return mark == ("on",) and is_direct_to_server(connection)
    finally:
        connection.autocommit = False


class _Setting:
    """The start of each transaction of a connection that is not direct with the settings of a direct session.

    Those that the URL asks for (`options`) are among them: a pooler may have refused them at the connection.
    """

    def __init__(self, bounds: Bounds, asked: Mapping[str, str]) -> None:
        self._reading, self._writing = (_local({**asked, **bounds.settings(reading=r)}) for r in (True, False))

    def begin(self, connection: Connection) -> None:
        options = connection.get_execution_options()
        if not is_direct(connection) and options.get("isolation_level") != "AUTOCOMMIT":
            connection.exec_driver_sql(self._writing if options.get(WRITES) else self._reading).close()


def _local(settings: Mapping[str, str]) -> str:
    # By a function: SET takes a list of schemas as several values, and this is one text.
    calls = (f"set_config({quoted(name)}, {quoted(value)}, true)" for name, value in settings.items())
    return f"SELECT {', '.join(calls)}"


def _execute_unprepared(cursor: Any, statement: str, parameters: Any, context: Any) -> bool:
    if not context.execution_options.get(PLANNED_EACH_TIME):
        return False
    cursor.execute(statement, parameters, prepare=False)
    return True
