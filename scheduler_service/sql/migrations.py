"""Migrate the database's schema to this program's version with Alembic.

Promises: several processes may migrate at once (one does, the others wait and find it done). An interrupted version
starts again from its beginning: on PostgreSQL each is a transaction, on SQLite all together are one. A schema of a
newer program is never touched. Nobody else waits long: a version that finds a table in use (by a backup, say) steps
back after a second and retries.
"""

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any, Final

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, event, exc, text
from sqlalchemy.schema import CreateSchema

from itinerary.protocol.errors import BadValue, StoreUnavailable
from itinerary.protocol.instants import MILLISECOND, MINUTE, SECOND
from scheduler_service.sql.database import Bounds, Database
from scheduler_service.sql.dialect import Dialect
from scheduler_service.sql.schema_version import current_version, known_versions, refuse_newer, versions_folder

# Rewriting a table may take long, and so may waiting for another process that does so.
MIGRATION_BOUNDS: Final = Bounds(statement=60 * MINUTE, lock=60 * MINUTE, idle=60 * MINUTE)
_ASKED_EVERY_SECONDS: Final = 0.1
# Everybody waits behind a statement that waits for a whole table, so it waits less than a leader's own bound, then
# pauses. CREATE INDEX CONCURRENTLY runs outside transactions, holds up nobody, and may wait as long as it must.
_IN_LINE: Final = SECOND
_OUT_OF_LINE_SECONDS: Final = 2
_LOCK_NOT_AVAILABLE: Final = "55P03"
_ONE_SCHEMA: Final = re.compile(r'"?([^",$ ]+)"?')
_IS_THERE: Final = text("SELECT 1 FROM pg_namespace WHERE nspname = :schema")
_ADVISORY_LOCK: Final = 0x17_1EAA_2D


def upgrade(database_url: str, report: Callable[[str], None] = lambda line: None, *, each_version: bool = True) -> None:
    """Migrate to this program's schema; `report` gets a line for each version and wait, and one at the end."""
    migrate_to(database_url, known_versions()[-1], report, each_version=each_version)


def migrate_to(
    database_url: str, wanted: str, report: Callable[[str], None] = lambda line: None, *, each_version: bool = True
) -> None:
    """Migrate up or down to a version; "base" is an empty schema. Down loses the data of newer versions."""
    known = ["base", *known_versions()]
    if wanted not in known:
        raise BadValue("version", wanted, f"known are {', '.join(known)}")
    with (
        closing(Database(database_url, pool_size=1, bounds=MIGRATION_BOUNDS)) as database,
        alone(database) as connection,
    ):
        if database.dialect is Dialect.POSTGRESQL:
            _create_schema(connection)
        current = current_version(connection)
        refuse_newer(current, known)
        if database.dialect is Dialect.POSTGRESQL:
            connection.commit()  # Alembic must begin its transactions itself, so that a version can leave them
            event.listen(connection, "begin", _wait_in_line_briefly)
        move = command.upgrade if known.index(wanted) >= known.index(current or "base") else command.downgrade
        applied = report if each_version else lambda line: None
        config = alembic_config(connection=connection, on_version_apply=_teller(applied))
        _until_nothing_is_in_use(connection, lambda: move(config, wanted), report)
    report(_outcome(known, current, wanted))


def _create_schema(connection: Connection) -> None:
    """Create the schema that the search path names alone, if it is missing."""
    if connection.exec_driver_sql("SELECT current_schema()").scalar_one() is not None:
        return
    path = str(connection.exec_driver_sql("SHOW search_path").scalar_one())
    named = _ONE_SCHEMA.fullmatch(path)
    if named is None:
        advice = "create one of them, or set ITINERARY_DATABASE_SCHEMA"
        raise StoreUnavailable(f"no schema of the search path {path} is there for this role; {advice}")
    schema = named[1]
    if connection.execute(_IS_THERE, {"schema": schema}).first() is not None:
        advice = f'let it: GRANT USAGE, CREATE ON SCHEMA "{schema}" TO this_role'
        raise StoreUnavailable(f"this role may not use the schema {schema}; {advice}")
    try:
        connection.execute(CreateSchema(schema))
    except exc.ProgrammingError as error:
        advice = f'create it for this role: CREATE SCHEMA "{schema}" AUTHORIZATION this_role'
        raise StoreUnavailable(f"the schema {schema} is missing, and this role may not create it; {advice}") from error
    connection.commit()


def _outcome(known: Sequence[str], current: str | None, wanted: str) -> str:
    if current == wanted:
        return f"the schema is at version {wanted}, as it was"
    if current is None:
        return f"database created, its schema is at version {wanted}"
    steps = abs(known.index(wanted) - known.index(current))
    return f"database brought from version {current} to {wanted}, {steps} step{'' if steps == 1 else 's'}"


def _wait_in_line_briefly(connection: Connection) -> None:
    if connection.get_execution_options().get("isolation_level") != "AUTOCOMMIT":
        connection.exec_driver_sql(f"SET LOCAL lock_timeout = {_IN_LINE // MILLISECOND}")


def _until_nothing_is_in_use(connection: Connection, move: Callable[[], None], report: Callable[[str], None]) -> None:
    """Retry from the version that could not get a lock; versions done before it stay done."""
    gives_up_at = time.monotonic() + MIGRATION_BOUNDS.lock / SECOND
    last_reported = ""
    while True:
        try:
            return move()
        except exc.DBAPIError as error:
            if getattr(error.orig, "sqlstate", None) != _LOCK_NOT_AVAILABLE or time.monotonic() > gives_up_at:
                raise
            statement = " ".join((error.statement or "").split())
        connection.rollback()
        if statement != last_reported:
            report(f"waiting for a lock, held by others, and trying again: {statement}")
            last_reported = statement
        time.sleep(_OUT_OF_LINE_SECONDS)


@contextmanager
def alone(database: Database) -> Iterator[Connection]:
    """Yield a connection while no other process migrates; on SQLite it is in a transaction, on PostgreSQL in none.

    Waiting processes poll: a statement that waits would hold up CREATE INDEX CONCURRENTLY. The lock belongs to a
    transaction that stays open on another connection: a pooler would give a session's lock to another client.
    """
    if database.dialect is Dialect.SQLITE:
        with database.write() as connection:
            yield connection
        return
    with database.beside(bounds=MIGRATION_BOUNDS).session() as guard, database.session() as connection:
        # With a parameter it would hold a snapshot, which CREATE INDEX CONCURRENTLY waits for.
        while not guard.exec_driver_sql(f"SELECT pg_try_advisory_xact_lock({_ADVISORY_LOCK})").scalar_one():
            guard.rollback()
            time.sleep(_ASKED_EVERY_SECONDS)
        yield connection


def alembic_config(**attributes: Any) -> Config:
    """Alembic's configuration for this program's versions; `attributes` reach env.py."""
    config = Config()
    config.set_main_option("script_location", str(versions_folder()).replace("%", "%%"))
    config.attributes.update(attributes)
    return config


def _teller(report: Callable[[str], None]) -> Callable[..., None]:
    def on_version_apply(*, step: Any, **_: Any) -> None:
        report(f"migrated to version {step.up_revision_id}")

    return on_version_apply
