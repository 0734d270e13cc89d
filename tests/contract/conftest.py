"""The store contract runs on each kind of store."""

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import delete, make_url, text

from scheduler_service.sql.notice_tables import metadata
from tests.support.postgres_server import create_database, drop_database
from tests.support.roles import narrow_roles
from tests.support.store_bed import StoreBed, fake_bed, sql_bed

_POSTGRES = pytest.param("postgres", marks=pytest.mark.postgres)


@pytest.fixture(scope="session")
def emptied_postgres(
    _session_postgres: str, _postgres_template: str, worker_number: int
) -> Iterator[tuple[str, StoreBed]]:
    """One PostgreSQL database for all tests, with its URL: much sooner there than one for each."""
    admin = make_url(_session_postgres)
    url = create_database(admin, f"itinerary_contract_{worker_number}", _postgres_template)
    with narrow_roles(url) as roles, sql_bed(url, roles) as bed:
        yield url, bed
    drop_database(admin, url)


@pytest.fixture
def postgres_stores(emptied_postgres: tuple[str, StoreBed]) -> Iterator[StoreBed]:
    """A set of empty stores on PostgreSQL."""
    _, bed = emptied_postgres
    assert bed.database is not None
    with bed.database.write() as connection:
        connection.execute(text("SET LOCAL session_replication_role = replica"))  # no trigger stops this
        for table in reversed(metadata.sorted_tables):
            connection.execute(delete(table))
    yield bed
    bed.close_beside()


@pytest.fixture
def emptied_postgres_url(emptied_postgres: tuple[str, StoreBed], postgres_stores: StoreBed) -> str:
    """The URL of a migrated PostgreSQL database without a row."""
    return emptied_postgres[0]


@pytest.fixture(scope="session")
def one_sqlite(_sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, StoreBed]]:
    """One SQLite database for all tests: its stores need not compile each statement again for each test."""
    path = tmp_path_factory.mktemp("contract") / "itinerary.db"
    shutil.copy(_sqlite_template, path)
    with sql_bed(f"sqlite:///{path}") as bed:
        yield path, bed


@pytest.fixture
def sqlite_stores(one_sqlite: tuple[Path, StoreBed], _sqlite_template: Path) -> Iterator[StoreBed]:
    """A set of empty stores on SQLite: the file as it was migrated, whatever the test before did to it."""
    path, bed = one_sqlite
    with closing(sqlite3.connect(_sqlite_template)) as migrated, closing(sqlite3.connect(path, timeout=20)) as used:
        migrated.backup(used)
    yield bed
    bed.close_beside()


@pytest.fixture
def fake_stores() -> StoreBed:
    """A set of empty stores in memory."""
    return fake_bed()


@pytest.fixture(params=["fake", "sqlite", _POSTGRES])
def bed(request: pytest.FixtureRequest) -> StoreBed:
    """A set of empty stores: in memory, on SQLite, on PostgreSQL."""
    stores: StoreBed = request.getfixturevalue(f"{request.param}_stores")
    return stores


@pytest.fixture(params=["sqlite", _POSTGRES])
def sql_stores(request: pytest.FixtureRequest) -> StoreBed:
    """A set of empty stores on each real database."""
    stores: StoreBed = request.getfixturevalue(f"{request.param}_stores")
    return stores


@pytest.fixture
def own_stores(database_url: str) -> Iterator[StoreBed]:
    """A set of empty stores on a database of this test's own, on each kind."""
    with sql_bed(database_url) as bed:
        yield bed
