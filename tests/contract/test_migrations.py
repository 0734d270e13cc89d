"""Every version of the schema, up and down with rows in every table: what a version does not drop, it keeps.

While a new version is there and the program before it still runs (a rolling upgrade), that one's rows are taken too.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import (
    Boolean,
    Column,
    DateTime,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    insert,
    inspect,
    select,
    text,
)
from sqlalchemy.dialects.postgresql import JSON

from itinerary.protocol.errors import BadValue
from itinerary.protocol.instants import MINUTE
from scheduler_service.sql.database import Database
from scheduler_service.sql.migrations import MIGRATION_BOUNDS, alembic_config, migrate_to
from scheduler_service.sql.notice_tables import metadata
from scheduler_service.sql.postgres import Bounds
from scheduler_service.sql.schema_version import check_schema
from scheduler_service.sql.tables import runs
from tests.support.old_runs import keep, old_run
from tests.support.processes import wait_until

VERSIONS = [script.revision for script in ScriptDirectory.from_config(alembic_config()).walk_revisions()][::-1]
SAID = {("runs", "kind"): "adhoc"}
Rows = dict[str, list[dict[str, Any]]]


@pytest.fixture
def empty(empty_database_url: str) -> Iterator[Database]:
    patient = Bounds(idle=MINUTE)  # what is tested is the schema: a machine under load may think for long
    with closing(Database(empty_database_url, pool_size=1, bounds=patient)) as database:
        yield database


def tables_of(database: Database) -> dict[str, Table]:
    """As they are now, those that others refer to first."""
    found = MetaData()
    found.reflect(database.engine)
    return {table.name: table for table in found.sorted_tables if table.name != "alembic_version"}


def row_for(table: Table, number: int) -> dict[str, Any]:
    """What must be given, and nothing else."""
    return {c.name: _value(table, c, number) for c in table.columns if not (c.nullable or _is_made(table, c))}


def _is_made(table: Table, column: Column[Any]) -> bool:
    return column.server_default is not None or column.identity is not None or column.name == "id"


def _value(table: Table, column: Column[Any], number: int) -> Any:
    match column.type:
        case DateTime():
            return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=number)
        case Boolean():
            return False
        case Integer():
            return number % 10 if column.name == "priority" else number
        case JSON():
            return {"number": number}
        case LargeBinary():
            return bytes([number])
        case _:
            return SAID.get((table.name, column.name), str(number))


def rows_of(database: Database, tables: dict[str, Table]) -> Rows:
    """Everything that is there."""
    with database.read() as connection:
        return {
            name: [dict(row) for row in connection.execute(select(table)).mappings()] for name, table in tables.items()
        }


def add(database: Database, tables: dict[str, Table], rows: dict[str, dict[str, Any]]) -> None:
    with database.write() as connection:
        for name, row in rows.items():
            connection.execute(insert(tables[name]), row)


def kept(before: Rows, after: Rows) -> bool:
    """Whether each row is there still, in the columns and tables that are there before and after."""

    def seen(rows: Rows, other: Rows) -> dict[str, list[str]]:
        shared = {name: _columns(rows[name]) & _columns(other[name]) for name in rows if name in other}
        return {
            name: sorted(str({c: row[c] for c in sorted(columns)}) for row in rows[name])
            for name, columns in shared.items()
        }

    return seen(before, after) == seen(after, before)


def _columns(rows: list[dict[str, Any]]) -> set[str]:
    return set(rows[0]) if rows else set()


def indexes_of(database: Database) -> dict[str, list[str]]:
    return {
        name: sorted(str(i["name"]) for i in inspect(database.engine).get_indexes(name)) for name in tables_of(database)
    }


# SQLAlchemy's own, of a constraint that is not valid for all rows.
@pytest.mark.filterwarnings("ignore:Can't validate argument 'dialect_options'")
@pytest.mark.slow
def test_every_version_up_and_down_and_up_again_keeps_the_rows(empty: Database, empty_database_url: str) -> None:
    written_before: dict[str, dict[str, Any]] = {}
    present: Rows = {}
    for number, version in enumerate(VERSIONS, start=1):
        migrate_to(empty_database_url, version)
        tables = tables_of(empty)
        assert kept(present, rows_of(empty, tables)), version
        # A program of the version before writes on while this one is there already.
        add(empty, tables, written_before)
        add(empty, tables, {name: row_for(table, 2 * number + 1) for name, table in tables.items()})
        written_before = {name: row_for(table, 2 * number + 2) for name, table in tables.items()}
        present = rows_of(empty, tables)
    check_schema(empty)
    assert _differences(empty) == []
    newest, made = present, indexes_of(empty)

    for version in [*VERSIONS[-2::-1], "base"]:
        migrate_to(empty_database_url, version)
        after = rows_of(empty, tables_of(empty))
        assert kept(present, after), version
        assert all(len(after[name]) == len(newest[name]) for name in after), version
        present = after
    assert tables_of(empty) == {}
    migrate_to(empty_database_url, VERSIONS[-1])
    assert (_differences(empty), indexes_of(empty)) == ([], made)


@pytest.mark.slow
def test_the_way_down_leaves_no_notice_that_the_notifier_before_does_not_know(empty_sqlite_url: str) -> None:
    migrate_to(empty_sqlite_url, VERSIONS[-1])
    topics = ["monitor.down", "monitor.up", "run.failed", "run.sla_missed"]
    with closing(Database(empty_sqlite_url, pool_size=1)) as database:
        with database.write() as connection:
            for topic in topics:
                values = {"t": topic, "s": f"of {topic}"}
                connection.execute(
                    text(
                        "INSERT INTO notices (topic, subject, count, first_at, last_at, said, holds)"
                        " VALUES (:t, :s, 1, 1, 1, '{}', 0)"
                    ),
                    values,
                )
                connection.execute(
                    text(
                        "INSERT INTO deliveries (message_id, target, topic, body, made_at, attempts, state)"
                        " VALUES (:s, 'a', :t, '{}', 1, 0, 'waiting')"
                    ),
                    values,
                )
        migrate_to(empty_sqlite_url, "0031")
        with database.read() as connection:
            for table in ("notices", "deliveries"):
                assert connection.scalars(text(f"SELECT topic FROM {table}")).all() == ["run.failed"]


def _differences(database: Database) -> list[Any]:
    def include(thing: Any, name: str | None, kind: str, reflected: bool, other: Any) -> bool:
        return not (database.dialect == "sqlite" and kind == "column" and name == "id")  # it tells of no identity

    with database.read() as connection:
        return list(
            compare_metadata(MigrationContext.configure(connection, opts={"include_object": include}), metadata)
        )


def test_an_unknown_version_is_refused(empty_sqlite_url: str) -> None:
    with pytest.raises(BadValue, match="known are base, 0001"):
        migrate_to(empty_sqlite_url, "9999")


@pytest.mark.postgres
def test_an_index_that_a_killed_migration_left_half_made_is_made_anew(empty_postgres_url: str) -> None:
    migrate_to(empty_postgres_url, "0009")
    with closing(Database(empty_postgres_url, pool_size=1)) as database:
        with database.write() as connection:
            connection.execute(text("CREATE INDEX ix_runs_of_queue ON runs (queue, scheduled_at, id)"))
            spoiled = "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'ix_runs_of_queue'::regclass"
            connection.execute(text(spoiled))
        migrate_to(empty_postgres_url, VERSIONS[-1])
        with database.read() as connection:
            valid = "SELECT indisvalid FROM pg_index WHERE indexrelid = 'ix_runs_of_queue'::regclass"
            assert connection.execute(text(valid)).scalar_one()


@pytest.mark.postgres
def test_indexes_are_made_while_another_writes_runs(empty_postgres_url: str) -> None:
    """A plain CREATE INDEX would wait for the open transaction, and every other writer for it."""
    migrate_to(empty_postgres_url, "0009")
    with closing(Database(empty_postgres_url, pool_size=2)) as database, ThreadPoolExecutor(1) as pool:
        with database.write() as open_one:
            open_one.execute(insert(runs), old_run(1))
            migrating = pool.submit(migrate_to, empty_postgres_url, VERSIONS[-1])
            making = "CREATE INDEX CONCURRENTLY"
            wait_until(lambda: _waits(database, making), what="the migration to wait for the open transaction")
            keep(database, old_run(2))
            assert not migrating.done()
        migrating.result(60)
        check_schema(database)


@pytest.mark.postgres
@pytest.mark.slow
def test_a_version_that_waits_for_a_table_in_use_holds_up_no_writer(empty_postgres_url: str) -> None:
    """As while pg_dump reads: a statement that waits for the whole table has every later one wait behind it."""
    migrate_to(empty_postgres_url, "0008")
    said: list[str] = []
    backup = Database(empty_postgres_url, pool_size=1, bounds=MIGRATION_BOUNDS)
    with closing(Database(empty_postgres_url, pool_size=1)) as database, closing(backup), ThreadPoolExecutor(1) as pool:
        old_runs = tables_of(database)["runs"]
        with backup.session() as reading:
            reading.execute(text("LOCK TABLE runs IN ACCESS SHARE MODE"))
            migrating = pool.submit(migrate_to, empty_postgres_url, "0009", said.append)
            wait_until(lambda: _waits(database, "ALTER TABLE runs"), what="the version to wait for the table")
            add(database, {"runs": old_runs}, {"runs": row_for(old_runs, 1)})  # refused after two seconds of waiting
            assert not migrating.done()
            assert "ALTER TABLE runs ADD COLUMN traceparent" in wait_until(lambda: said, what="it to step back")[0]
        migrating.result(60)
        assert said[1:] == ["migrated to version 0009", "database brought from version 0008 to 0009, 1 step"]


def _waits(database: Database, statement: str) -> bool:
    """Whether one that begins so waits for a lock."""
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE :begins AND wait_event_type = 'Lock'"
    with database.read() as connection:
        return bool(connection.execute(text(waiting), {"begins": f"{statement}%"}).scalar())


@pytest.mark.postgres
def test_a_way_down_that_was_killed_goes_on(empty_postgres_url: str) -> None:
    migrate_to(empty_postgres_url, "0010")
    with closing(Database(empty_postgres_url, pool_size=1)) as database, database.write() as connection:
        connection.execute(text("DROP STATISTICS st_runs_queue_state"))  # committed before the indexes go, one by one
        connection.execute(text("DROP INDEX ix_runs_of_queue_otherwise"))
    migrate_to(empty_postgres_url, "0009")
