"""The store contract runs on each kind of store."""

from collections.abc import Iterator
from contextlib import closing

import pytest
from sqlalchemy import make_url, text

from scheduler_service.adapters.database import Database
from scheduler_service.adapters.tables import metadata
from tests.support.postgres_server import create_database, drop_database
from tests.support.store_bed import StoreBed, fake_bed, sql_bed

SQL = ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)]


@pytest.fixture(scope="session")
def _contract_database(_session_postgres: str, _postgres_template: str, worker_number: int) -> Iterator[str]:
    admin = make_url(_session_postgres)
    url = create_database(admin, f"itinerary_contract_{worker_number}", _postgres_template)
    yield url
    drop_database(admin, url)


@pytest.fixture
def emptied_postgres_url(_contract_database: str) -> str:
    """The same PostgreSQL database for every test, without a row: much sooner there than a database of its own."""
    with closing(Database(_contract_database, pool_size=1)) as database, database.write() as connection:
        names = ", ".join(table.name for table in metadata.sorted_tables)
        connection.execute(text(f"TRUNCATE {names} RESTART IDENTITY"))
    return _contract_database


@pytest.fixture
def emptied_sqlite_url(sqlite_url: str) -> str:
    """A SQLite database without a row."""
    return sqlite_url


@pytest.fixture(params=["fake", *SQL])
def bed(request: pytest.FixtureRequest) -> Iterator[StoreBed]:
    """A set of empty stores: in memory, on SQLite, on PostgreSQL."""
    if request.param == "fake":
        yield fake_bed()
        return
    with sql_bed(request.getfixturevalue(f"emptied_{request.param}_url")) as opened:
        yield opened


@pytest.fixture(params=SQL)
def sql_stores(request: pytest.FixtureRequest) -> Iterator[StoreBed]:
    """A set of empty stores on each real database."""
    with sql_bed(request.getfixturevalue(f"emptied_{request.param}_url")) as opened:
        yield opened


@pytest.fixture
def postgres_stores(emptied_postgres_url: str) -> Iterator[StoreBed]:
    """A set of empty stores on PostgreSQL."""
    with sql_bed(emptied_postgres_url) as opened:
        yield opened


@pytest.fixture
def sqlite_stores(emptied_sqlite_url: str) -> Iterator[StoreBed]:
    """A set of empty stores on SQLite."""
    with sql_bed(emptied_sqlite_url) as opened:
        yield opened
