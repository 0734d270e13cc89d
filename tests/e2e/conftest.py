"""What a whole module shares: a database, a Redis, and whole systems."""

from collections.abc import Iterator

import pytest
from sqlalchemy import make_url

from tests.support.postgres_server import create_database, drop_database
from tests.support.redis_server import RedisServer
from tests.support.whole_system import System, apart, on_one_machine


@pytest.fixture(scope="module")
def module_postgres_url(
    request: pytest.FixtureRequest, _session_postgres: str, _postgres_template: str, worker_number: int
) -> Iterator[str]:
    """A migrated PostgreSQL database for all tests of this module."""
    admin = make_url(_session_postgres)
    name = request.module.__name__.rpartition(".")[2]
    url = create_database(admin, f"itinerary_{name}_{worker_number}", _postgres_template)
    yield url
    drop_database(admin, url)


@pytest.fixture(scope="module")
def module_redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """A running Redis for all tests of this module."""
    with RedisServer(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture(scope="module", params=["up", pytest.param("apart", marks=pytest.mark.postgres)])
def system(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """The same tests on one machine by `itinerary up`, and on parts that were started one by one."""
    folder = tmp_path_factory.mktemp("system")
    if request.param == "up":
        with on_one_machine(folder) as running:
            yield running
    else:
        with apart(folder, request.getfixturevalue("module_postgres_url")) as running:
            yield running
