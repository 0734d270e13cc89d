"""The schema: what the migrations make is what the tables say, on both databases."""

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import inspect, text

from itinerary.protocol.errors import RowRefused, StoreUnavailable
from scheduler_service.core.model import RunKind
from scheduler_service.core.run_state import RunState
from scheduler_service.sql.database import Database
from scheduler_service.sql.migrations import alembic_config, upgrade
from scheduler_service.sql.notice_tables import metadata
from scheduler_service.sql.schema_version import check_schema, known_versions
from tests.support.processes import REPOSITORY, project_env


@pytest.fixture
def empty(empty_database_url: str) -> Iterator[Database]:
    """A database without a table."""
    with closing(Database(empty_database_url, pool_size=2)) as database:
        yield database


def tables_of(database: Database) -> set[str]:
    return set(inspect(database.engine).get_table_names())


# SQLAlchemy's own, of a constraint that is not valid for all rows.
@pytest.mark.filterwarnings("ignore:Can't validate argument 'dialect_options'")
def test_the_migrations_make_what_the_tables_say(empty: Database, empty_database_url: str) -> None:
    upgrade(empty_database_url)
    assert tables_of(empty) == {*metadata.tables, "alembic_version"}
    with empty.read() as connection:
        context = MigrationContext.configure(connection, opts={"include_object": _not_sqlite_identity(empty)})
        assert compare_metadata(context, metadata) == []


def _not_sqlite_identity(database: Database) -> Callable[..., bool]:
    """SQLite tells nothing of an identity column."""
    return lambda thing, name, kind, reflected, other: (
        not (database.dialect == "sqlite" and kind == "column" and name == "id")
    )


def test_the_databases_check_knows_exactly_the_states_and_kinds_of_the_core(
    empty: Database, empty_database_url: str
) -> None:
    upgrade(empty_database_url)
    checks = {check["name"]: check["sqltext"] for check in inspect(empty.engine).get_check_constraints("runs")}
    for name, words in (("ck_runs_state", RunState), ("ck_runs_kind", RunKind)):
        assert sorted(checks[name].replace("::text", "").split("'")[1::2]) == sorted(word.value for word in words)


@pytest.mark.postgres
@pytest.mark.parametrize(
    ("column", "value"),
    [("scheduled_at", "infinity"), ("due_at", "-infinity"), ("scheduled_at", "20000-01-01"), ("priority", "10")],
)
def test_other_programs_insert_no_run_that_leaders_could_not_read_or_would_not_find(
    postgres_url: str, column: str, value: str
) -> None:
    row = dict.fromkeys(("scheduled_at", "due_at", "created_at"), "now()") | {"priority": "5", column: f"'{value}'"}
    kept = (
        "INSERT INTO runs (run_id, kind, task, args, kwargs, queue, {}) VALUES ('a', 'adhoc', 't', '1', '1', 'q', {})"
    )
    with closing(Database(postgres_url)) as database:
        with pytest.raises(RowRefused, match="ck_runs_bounds"), database.write() as connection:
            connection.execute(text(kept.format(", ".join(row), ", ".join(row.values()))))
        row[column] = "5" if column == "priority" else "now()"
        with database.write() as connection:
            connection.execute(text(kept.format(", ".join(row), ", ".join(row.values()))))


def test_partial_indexes_are_the_same_in_migrations_and_tables(empty: Database, empty_database_url: str) -> None:
    upgrade(empty_database_url)
    made = _indexes(empty)
    with empty.write() as connection:
        connection.execute(text("DROP TABLE alembic_version"))
        metadata.drop_all(connection)
        metadata.create_all(connection)
    assert _indexes(empty) == made


def _indexes(database: Database) -> set[str]:
    catalogue = {
        "postgresql": "SELECT indexdef FROM pg_indexes WHERE schemaname = 'public'",
        "sqlite": "SELECT sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL",
    }
    with database.read() as connection:
        made = connection.execute(text(catalogue[database.dialect])).scalars()
        return {" ".join(str(index).split()) for index in made if "alembic" not in index}


def test_several_who_migrate_at_once_all_find_it_done(empty: Database, empty_database_url: str) -> None:
    together = threading.Barrier(4)
    lines: list[str] = []

    def migrate(_: int) -> None:
        together.wait(60)
        upgrade(empty_database_url, lines.append)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(migrate, range(4)))
    check_schema(empty)
    migrated = [line for line in lines if line.startswith("migrated to version")]
    assert len(migrated) == len(set(migrated)) == len(list((REPOSITORY / "alembic" / "versions").glob("*.py")))
    assert sum(line.startswith("database created") for line in lines) == 1
    assert sum(line.endswith("as it was") for line in lines) == 3


def test_a_schema_that_is_missing_or_of_a_newer_program_is_not_led_on(empty: Database, empty_database_url: str) -> None:
    with pytest.raises(StoreUnavailable, match="itinerary migrate"):
        check_schema(empty)
    upgrade(empty_database_url)
    check_schema(empty)
    with empty.write() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(StoreUnavailable, match="newer program"):
        check_schema(empty)
    with pytest.raises(StoreUnavailable, match="newer program"):
        upgrade(empty_database_url)


@pytest.mark.slow
def test_the_versions_read_as_text_are_those_that_alembic_runs() -> None:
    walked = ScriptDirectory.from_config(alembic_config()).walk_revisions()
    assert known_versions() == [script.revision for script in walked][::-1]
    script = "import scheduler_service.bootstrap.parts, sys; print('alembic' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=project_env())
    assert done.stdout.strip() == "False", "a leader that starts waits for each import"


def test_the_tests_databases_are_current(database_url: str) -> None:
    with closing(Database(database_url, pool_size=1)) as database:
        check_schema(database)
