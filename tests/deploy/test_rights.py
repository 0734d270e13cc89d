"""The rights that the manual asks for are enough, and not more: narrow users of Redis and roles of PostgreSQL.

The store contract in tests/contract and deployments on PostgreSQL (tests/support/deployment.py) run with these roles.
"""

import re
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from itinerary import enqueue_in
from itinerary.protocol.errors import StoreRefused
from itinerary.protocol.instants import MINUTE
from scheduler_service.broker.rights import SERVICE, WORKER
from scheduler_service.core.run_state import RunState
from scheduler_service.sql.database import Database, host_now
from scheduler_service.sql.database_url import libpq_options, read_url
from scheduler_service.sql.lease import SqlLeaseStore
from tests.support.installation import Installation
from tests.support.processes import MANUAL, WARM_STOP, Child, project_env, wait_until
from tests.support.redis_server import RedisServer
from tests.support.roles import PAGE, narrow_roles
from tests.support.worker_process import WORKER_PYTHON

ENQUEUEING = (MANUAL / "enqueueing.md").read_text("utf-8")


def redis_user(server: RedisServer, name: str, rules: str) -> str:
    """Make the user; its address."""
    with server.client() as client:
        client.execute_command("ACL", "SETUSER", name, "reset", "on", ">secret", *rules.split())
    return server.url.replace("redis://", f"redis://{name}:secret@")


def test_the_page_has_exactly_the_rights_of_the_list() -> None:
    shown = re.findall(r"^ACL SETUSER (\w+) on >PASSWORD (.+)$", PAGE, re.MULTILINE)
    assert shown == [("itinerary", SERVICE.rules()), ("worker", WORKER.rules())]


@pytest.mark.slow
@pytest.mark.redis
@pytest.mark.postgres
def test_every_part_works_with_no_more_rights_than_the_page_asks_for(
    redis_server: RedisServer, postgres_url: str, tmp_path: Path
) -> None:
    prefix, queues = "shop:", ["default", "own"]
    leader = redis_user(redis_server, "itinerary", SERVICE.rules(prefix, queues))
    worker = redis_user(redis_server, "worker", WORKER.rules(prefix, queues))
    variables = {"ITINERARY_REDIS_URL": worker, "ITINERARY_KEY_PREFIX": prefix}
    of_app = project_env(**variables, USERAPP_BROKER=worker, TRUTH=str(tmp_path / "truth"))
    app = ["-m", "celery", "-A", "tests.workers.userapp", "worker", "-n", "app@here", "-Q", "own", "-c", "1"]
    given = {"redis_url": leader, "key_prefix": prefix}
    with (
        narrow_roles(postgres_url) as roles,
        Installation(variables, api_database_url=roles["api"], database_url=roles["leader"], **given) as one,
        Child([WORKER_PYTHON, *app], env=of_app) as child,
    ):
        assert one.ended(one.enqueue("plain")).state is RunState.COMPLETED
        running = one.enqueue("long", "user.cooperative", (), queue="own")
        wait_until(lambda: one.stores.runs.get(running).state is RunState.RUNNING, what=lambda: child.output)
        one.stores.runs.request_cancel(running)
        one.stores.inbox.send("cancel_run", host_now(), {"run_id": running})
        assert one.ended(running).state is RunState.CANCELLED
        failed = one.enqueue("logging", "user.logs", (["one"],), queue="own")
        one.stores.live_logs.watch(f"{failed}~1")
        assert one.ended(failed).state is RunState.FAILED
        kept = wait_until(lambda: one.stores.logs.read(failed, 1), what=lambda: child.output)
        assert "userapp: one" in kept.text
        findings = one.doctor()
        child.stop(WARM_STOP)
        redis_user(redis_server, "itinerary", SERVICE.rules(prefix, ["elsewhere"]).replace("+xtrim", ""))
        refused = one.doctor()["rights"]
    assert findings["rights"] == "ok    rights      those of a leader"
    assert not [line for line in findings.values() if line.startswith("FAIL")]
    for call in ("XTRIM shop:itinerary:inbox MINID 0", "LPUSH default 1", "LLEN default"):
        assert call in refused
    assert "XADD" not in refused
    with redis_server.client() as client:
        log: list[Any] = client.execute_command("ACL", "LOG")
    objects = {(entry["username"], entry["object"]) for entry in log}
    denied = {(user, name) for user, name in objects if not name.startswith("client")}  # its name, from redis-py
    assert denied <= {("itinerary", "xtrim"), ("itinerary", "default"), ("itinerary", "shop:itinerary:inbox")}, log


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
