"""The rights that the manual asks for are enough: a whole run with narrow users of Redis and PostgreSQL."""

import re
import sys
from collections.abc import Iterator

import psycopg
import pytest
from sqlalchemy import make_url

from itinerary.protocol.identity import adhoc_run_id
from scheduler_service.core.model import NewRun, RunKind
from scheduler_service.core.run_state import RunState
from tests.support.leading import LeaderThread
from tests.support.processes import MANUAL, Child, project_env, wait_until
from tests.support.redis_server import RedisServer

PAGE = (MANUAL / "security.md").read_text("utf-8")


def redis_user(server: RedisServer, name: str) -> str:
    """Make the user as the page says; its address."""
    (rules,) = re.findall(rf"^ACL SETUSER {name} +(.+?) +#", PAGE, re.MULTILINE)
    with server.client() as client:
        client.execute_command("ACL", "SETUSER", name, *rules.replace("PASSWORD", "secret").split())
    return server.url.replace("redis://", f"redis://{name}:secret@")


@pytest.fixture
def database_role(postgres_url: str) -> Iterator[str]:
    """The address of a database for a role that was made as the page says."""
    (lines,) = re.findall(r"```sql\n(.+?)```", PAGE, re.DOTALL)
    owner = make_url(postgres_url)
    role = f"app_of_{owner.database}"
    with psycopg.connect(owner.set(drivername="postgresql").render_as_string(hide_password=False)) as connection:
        connection.execute(lines.replace("itinerary_app", role).replace("...", "secret"))
        connection.commit()
        yield owner.set(username=role, password="secret").render_as_string(hide_password=False)
        connection.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")


@pytest.mark.slow
@pytest.mark.redis
@pytest.mark.postgres
def test_a_run_needs_no_more_rights_than_the_page_asks_for(redis_server: RedisServer, database_role: str) -> None:
    leader, worker = redis_user(redis_server, "itinerary"), redis_user(redis_server, "worker")
    run_id = adhoc_run_id("one")
    with (
        Child([sys.executable, "-m", "itinerary", "-c", "1"], env=project_env(ITINERARY_REDIS_URL=worker)) as child,
        LeaderThread(database_role, leader) as one,
    ):
        one.runs.enqueue([NewRun(run_id, RunKind.ADHOC, "itinerary.echo", 0, 0)])
        wait_until(lambda: one.runs.get(run_id).state is RunState.COMPLETED, 30, lambda: child.output)
    with redis_server.client() as client:
        assert client.execute_command("ACL", "LOG") == []
