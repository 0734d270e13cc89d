"""Databases and a Redis for the systems that a whole module shares."""

from collections.abc import Iterator

import pytest
from sqlalchemy import make_url

from tests.support.postgres_server import create_database, drop_database
from tests.support.redis_server import RedisServer


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
