"""Where tables are found: a schema of their own, by the URL or the setting, also through a pooler; several hosts."""

from contextlib import closing

import psycopg
import pytest
from sqlalchemy import make_url, text

from itinerary import enqueue_in
from itinerary.protocol.errors import BadValues, StoreUnavailable
from scheduler_service.config.settings import Settings, load_settings
from scheduler_service.sql.database import Database
from scheduler_service.sql.migrations import upgrade
from scheduler_service.sql.wakeups import PgWakeups
from tests.support.pgbouncer import ABSENT, PgBouncer, find_pgbouncer
from tests.support.processes import free_port

pytestmark = pytest.mark.postgres

SCHEMAS = text("SELECT DISTINCT schemaname FROM pg_tables WHERE tablename IN ('runs', 'jobs', 'alembic_version')")


def settings_of(url: str, schema: str = "sched") -> Settings:
    return load_settings(database_url=url, database_schema=schema)


def test_the_setting_is_the_urls_own_option() -> None:
    url = settings_of("postgresql://u:p%2F@h/db?options=-cwork_mem%3D8MB").database_url
    assert url == "postgresql://u:p%2F@h/db?options=-cwork_mem%3D8MB%20-csearch_path%3Dsched"
    assert settings_of(url).database_url == url
    direct = load_settings(
        database_url="postgresql://h/db", database_direct_url="postgresql://d/db", database_schema="s"
    )
    assert direct.leader_database_url == "postgresql://d/db?options=-csearch_path%3Ds"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"database_schema": "sched"},
            "SCHEMA: 'sched' is not accepted; only PostgreSQL has schemas",
        ),
        ({"database_url": "postgresql://h/db", "database_schema": "a b"}, "DATABASE_SCHEMA: 'a b' is not accepted"),
        ({"database_url": "mysql://h/db"}, "MySQL is not supported; give an address that begins with sqlite://"),
        ({"redis_url": "redis-cluster://h:7000"}, "Redis Cluster is not supported; give an address that begins"),
    ],
)
def test_what_cannot_be_is_refused_by_its_name(given: dict[str, str], message: str) -> None:
    with pytest.raises(BadValues, match=message):
        load_settings(**given)


def test_everything_is_in_the_schema_that_is_named(empty_postgres_url: str) -> None:
    upgrade(empty_postgres_url)
    url = settings_of(empty_postgres_url).leader_database_url
    upgrade(url)
    with closing(Database(url)) as database, database.write() as connection:
        assert set(connection.scalars(SCHEMAS)) == {"public", "sched"}
        assert connection.scalar(text("SELECT current_schema()")) == "sched"
    with closing(PgWakeups(url)) as wakeups:
        assert wakeups.wait(0)


@pytest.mark.parametrize("schema", ["Sched", "user", "select", "_x9"])
def test_a_schema_has_exactly_the_name_that_is_given(empty_postgres_url: str, schema: str) -> None:
    url = settings_of(empty_postgres_url, schema).leader_database_url
    upgrade(url)
    upgrade(url)
    with closing(Database(url)) as database, database.write() as connection:
        assert set(connection.scalars(SCHEMAS)) == {schema}
        enqueue_in(connection, "t", schema=schema)
        assert connection.scalar(text("SELECT count(*) FROM runs")) == 1


@pytest.mark.skipif(find_pgbouncer() is None, reason=ABSENT)
def test_a_pooler_that_takes_no_options_leads_to_the_schema_all_the_same(empty_postgres_url: str) -> None:
    upgrade(settings_of(empty_postgres_url).database_url)
    with PgBouncer(empty_postgres_url) as pooler:
        url = settings_of(pooler.url).database_url
        with closing(Database(url)) as database:
            for opened in (database.read, database.write):
                with opened() as connection:
                    assert connection.scalar(text("SELECT count(*) FROM jobs")) == 0


def test_a_role_that_may_not_create_the_schema_is_told_what_to_run(empty_postgres_url: str) -> None:
    with psycopg.connect(make_url(empty_postgres_url).set(drivername="postgresql").render_as_string(False)) as admin:
        admin.execute("DROP ROLE IF EXISTS poor")
        admin.execute("CREATE ROLE poor LOGIN")
    poor = make_url(empty_postgres_url).set(username="poor").render_as_string(False)
    with pytest.raises(StoreUnavailable, match=r'schema sched is missing.*CREATE SCHEMA "sched" AUTHORIZATION'):
        upgrade(settings_of(poor).database_url)
    with psycopg.connect(make_url(empty_postgres_url).set(drivername="postgresql").render_as_string(False)) as admin:
        admin.execute("CREATE SCHEMA sched")
    with pytest.raises(StoreUnavailable, match=r'may not use the schema sched.*GRANT USAGE, CREATE ON SCHEMA "sched"'):
        upgrade(settings_of(poor).database_url)


def test_no_schema_is_created_for_a_search_path_of_several(empty_postgres_url: str) -> None:
    with psycopg.connect(make_url(empty_postgres_url).set(drivername="postgresql").render_as_string(False)) as admin:
        admin.execute("DROP SCHEMA public")
    with pytest.raises(StoreUnavailable, match='no schema of the search path "\\$user", public is there'):
        upgrade(empty_postgres_url)


def test_the_first_host_that_may_be_written_to_is_used(postgres_url: str) -> None:
    at = make_url(postgres_url)
    hosts = f"127.0.0.1:{free_port()},127.0.0.1:{at.port}"
    url = f"postgresql://{at.username}@{hosts}/{at.database}?target_session_attrs=read-write"
    with closing(Database(load_settings(database_url=url).database_url)) as database, database.read() as connection:
        assert connection.scalar(text("SELECT count(*) FROM jobs")) == 0
    with closing(PgWakeups(url)) as wakeups:
        assert wakeups.wait(0)
