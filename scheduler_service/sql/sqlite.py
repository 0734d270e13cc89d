"""Engines for SQLite files, and the order of their writers: SQLite's own waiting is neither fair nor short.

A process that `goes_first` holds the gate while it waits for the current writer; the others stop at the gate before
they ask. The gate only gives way: it delays nobody beyond its patience, and no write depends on it for safety.
"""

import fcntl
import os
import sqlite3
import time
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event

from itinerary.protocol.instants import SECOND
from scheduler_service.sql.postgres import WRITES, Bounds

# SQLite's own waiting sleeps up to 0.1 s between two tries.
_ASKS_EVERY, _PATIENCE = 0.001, 0.5


class Gate:
    """A lock on the file's folder, which needs no file of its own and ends with the process."""

    def __init__(self, database: str | None) -> None:
        self._folder = None if database in (None, "", ":memory:") else str(Path(str(database)).absolute().parent)
        self._held: int | None = None

    def pass_by(self) -> None:
        """Wait while another process goes first."""
        deadline = time.monotonic() + _PATIENCE
        while not self.hold() and time.monotonic() < deadline:
            time.sleep(_ASKS_EVERY)
        self.let_go()

    def hold(self) -> bool:
        """Close the gate behind us; False if another process holds it."""
        if self._held is None and self._folder is not None:
            try:
                self._held = _locked(self._folder)
            except BlockingIOError:
                return False
            except OSError:  # no folder, or one that cannot be locked: SQLite itself reports the error
                self._folder = None
        return True

    def let_go(self) -> None:
        """Open the gate again."""
        if self._held is not None:
            os.close(self._held)
            self._held = None


def _locked(folder: str) -> int:
    found = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(found, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        os.close(found)
        raise
    return found


def sqlite_engine(url: URL, pool_size: int, bounds: Bounds, goes_first: bool) -> Engine:
    """An engine whose write transactions begin as writers."""
    engine = create_engine(
        url,
        pool_size=pool_size,
        max_overflow=5,
        pool_timeout=bounds.connect / SECOND,
        connect_args={"timeout": bounds.connect / SECOND, "isolation_level": None},
    )

    def begin(connection: Connection) -> None:
        """Begin as a writer: a deferred transaction that turns to writing fails at once if another wrote meanwhile."""
        if not connection.get_execution_options().get(WRITES):
            return
        gate = Gate(url.database)
        if goes_first:
            _begin_first(connection, gate, bounds)
        else:
            gate.pass_by()
            connection.exec_driver_sql("BEGIN IMMEDIATE")

    event.listen(engine, "connect", _prepare)
    event.listen(engine, "begin", begin)
    return engine


def _prepare(connection: Any, _: Any) -> None:
    cursor = connection.cursor()
    for setting in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "temp_store=MEMORY"):
        cursor.execute(f"PRAGMA {setting}")
    cursor.close()


def _begin_first(connection: Connection, gate: Gate, bounds: Bounds) -> None:
    """Ask at short intervals, with the gate closed to processes that arrive meanwhile."""
    driver: Any = connection.connection.driver_connection
    driver.execute("PRAGMA busy_timeout=0")
    deadline = time.monotonic() + bounds.connect / SECOND
    try:
        while time.monotonic() < deadline:
            gate.hold()
            try:
                driver.execute("BEGIN IMMEDIATE")
                return
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                    break  # asked again below, where its error becomes ours
            time.sleep(_ASKS_EVERY)
        connection.exec_driver_sql("BEGIN IMMEDIATE")
    finally:
        gate.let_go()
        driver.execute(f"PRAGMA busy_timeout={bounds.connect // 1000}")
