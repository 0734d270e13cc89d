"""The rights that the manual asks for are enough, and not more: narrow users of Redis and roles of PostgreSQL.

The store contract in tests/contract and deployments on PostgreSQL (tests/support/deployment.py) run with these roles.
"""

import re
import sys
from contextlib import closing

import psycopg
import pytest

from itinerary import enqueue_in
from itinerary.protocol.errors import StoreRefused
from itinerary.protocol.identity import adhoc_run_id
from itinerary.protocol.instants import MINUTE
from scheduler_service.core.model import NewRun, RunKind
from scheduler_service.core.run_state import RunState
from scheduler_service.sql.database import Database
from scheduler_service.sql.database_url import libpq_options, read_url
from scheduler_service.sql.lease import SqlLeaseStore
from scheduler_service.sql.runs import SqlRunStore
from tests.support.leading import LeaderThread
from tests.support.processes import MANUAL, Child, project_env, wait_until
from tests.support.redis_server import RedisServer
from tests.support.roles import PAGE, narrow_roles

ENQUEUEING = (MANUAL / "enqueueing.md").read_text("utf-8")


def redis_user(server: RedisServer, name: str) -> str:
    """Make the user as the page says; its address."""
    (rules,) = re.findall(rf"^ACL SETUSER {name} +(.+?) +#", PAGE, re.MULTILINE)
    with server.client() as client:
        client.execute_command("ACL", "SETUSER", name, *rules.replace("PASSWORD", "secret").split())
    return server.url.replace("redis://", f"redis://{name}:secret@")


@pytest.mark.slow
@pytest.mark.redis
@pytest.mark.postgres
def test_a_run_needs_no_more_rights_than_the_page_asks_for(redis_server: RedisServer, postgres_url: str) -> None:
    leader, worker = redis_user(redis_server, "itinerary"), redis_user(redis_server, "worker")
    run_id = adhoc_run_id("one")
    with (
        narrow_roles(postgres_url) as roles,
        Child([sys.executable, "-m", "itinerary", "-c", "1"], env=project_env(ITINERARY_REDIS_URL=worker)) as child,
        closing(Database(roles["api"])) as api,
        LeaderThread(roles["leader"], leader),
    ):
        runs = SqlRunStore(api)
        runs.enqueue([NewRun(run_id, RunKind.ADHOC, "itinerary.echo", 0, 0)])
        wait_until(lambda: runs.get(run_id).state is RunState.COMPLETED, 30, lambda: child.output)
    with redis_server.client() as client:
        assert client.execute_command("ACL", "LOG") == []


@pytest.mark.slow
@pytest.mark.postgres
def test_an_api_can_neither_lead_nor_change_what_the_audit_log_says(postgres_url: str) -> None:
    advice = "permission denied for table {}; grant this role what the manual lists under Security"
    with narrow_roles(postgres_url) as roles, closing(Database(roles["api"])) as api:
        with pytest.raises(StoreRefused, match=advice.format("leases")):
            SqlLeaseStore(api).acquire(0, "an API", MINUTE)
        for words in ("UPDATE audit_log SET actor = 'me'", "DELETE FROM audit_log", "TRUNCATE audit_log"):
            with pytest.raises(StoreRefused, match=advice.format("audit_log")), api.write() as connection:
                connection.exec_driver_sql(words)
        with pytest.raises(StoreRefused, match="permission denied for schema public"), api.write() as connection:
            connection.exec_driver_sql("CREATE TABLE mine (id int)")


@pytest.mark.slow
@pytest.mark.postgres
def test_a_program_that_only_enqueues_reads_and_changes_nothing(postgres_url: str) -> None:
    (grants,) = re.findall(r"^GRANT INSERT ON runs TO shop;\n(GRANT .+?);", ENQUEUEING, re.MULTILINE)
    with psycopg.connect(**libpq_options(read_url(postgres_url)), autocommit=True) as owner:
        owner.execute(f"CREATE ROLE shop LOGIN; GRANT INSERT ON runs TO shop; {grants}")
        shop = libpq_options(read_url(postgres_url).set(username="shop"))
        with psycopg.connect(**shop, autocommit=True) as connection:
            asked = {"idempotency_key": "order-17"}
            assert enqueue_in(connection, "pkg.task", **asked) == enqueue_in(connection, "pkg.task", **asked)
            for words in ("SELECT kwargs FROM runs", "UPDATE runs SET state = 'x'", "DELETE FROM runs", "TABLE jobs"):
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    connection.execute(words)
        owner.execute("DROP OWNED BY shop; DROP ROLE shop")
