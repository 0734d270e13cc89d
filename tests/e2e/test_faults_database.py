"""PostgreSQL is stopped, away, read-only, and cut off in the middle of a commit: nothing is lost or doubled."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import make_url, text

from scheduler_service.sql.migrations import upgrade
from tests.support.fault_bed import LOST_SECONDS, TTL_SECONDS, FaultBed
from tests.support.postgres_server import PostgresServer, create_database
from tests.support.processes import wait_until
from tests.support.proxy import FaultProxy
from tests.support.redis_server import RedisServer

pytestmark = [pytest.mark.e2e, pytest.mark.postgres, pytest.mark.redis]


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A PostgreSQL of this module's own, to be stopped and started."""
    with PostgresServer() as server:
        yield server


@pytest.fixture(scope="module")
def bed(
    tmp_path_factory: pytest.TempPathFactory, server: PostgresServer, module_redis: RedisServer
) -> Iterator[FaultBed]:
    url = create_database(server.admin_url, "faults")
    upgrade(url)
    with FaultBed(tmp_path_factory.mktemp("database faults"), url, module_redis.url) as bed:
        bed.begin().worker()
        yield bed


@pytest.fixture
def running(bed: FaultBed) -> Iterator[tuple[str, Path]]:
    """A run that is under way when the fault comes; afterwards everything must have ended at its first attempt."""
    gate = bed.folder / f"gate-{time.monotonic_ns()}"
    (run_id,) = bed.enqueue(1, gate=str(gate))
    bed.sole_leader()
    bed.started(run_id)
    yield run_id, gate
    gate.touch()
    bed.reconcile()
    assert set(bed.endings()) == {("completed", 1)}, bed.endings()


@pytest.mark.usefixtures("running")
def test_a_database_stopped_inside_a_move_and_started_again_is_led_on(bed: FaultBed, server: PostgresServer) -> None:
    held = bed.sole_leader("moving runs, before COMMIT", "hold")
    held.arm()
    (moved, *_) = bed.enqueue(5)
    held.at_the_point()
    server.stop_immediately()
    held.free()
    held.child.wait_for_line("database away")
    server.start()
    bed.wait_state(moved, "completed")


def test_while_the_database_is_away_running_tasks_finish_and_their_reports_wait(
    bed: FaultBed, server: PostgresServer, running: tuple[str, Path]
) -> None:
    run_id, gate = running
    leader = bed.sole_leader()
    server.stop_immediately()
    gate.touch()
    leader.child.wait_for_line("stepped down")
    away_until = time.monotonic() + TTL_SECONDS + LOST_SECONDS
    wait_until(lambda: time.monotonic() > away_until)
    server.start()
    bed.wait_state(run_id, "completed")


@pytest.mark.usefixtures("running")
def test_a_read_only_database_stops_the_leading_and_nothing_else(bed: FaultBed, server: PostgresServer) -> None:
    name = make_url(bed.database_url).database
    leader = bed.sole_leader()
    with bed.database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        (held,) = bed.enqueue(1)
        connection.execute(text(f'ALTER DATABASE "{name}" SET default_transaction_read_only = on'))
        connection.execute(text("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"))
        leader.child.wait_for_line("read-only transaction")
        leader.child.wait_for_line("left the lead")
        connection.execute(text("SET default_transaction_read_only = off"))
        connection.execute(text(f'ALTER DATABASE "{name}" RESET default_transaction_read_only'))
        connection.execute(text("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"))
    bed.wait_state(held, "completed")


@pytest.mark.usefixtures("running")
@pytest.mark.parametrize("point", ["moving runs, before COMMIT", "inbox read, before COMMIT"])
def test_a_connection_cut_between_a_commit_and_its_reply_changes_nothing(
    bed: FaultBed, server: PostgresServer, point: str
) -> None:
    with FaultProxy(server.port) as proxy:
        through = make_url(bed.database_url).set(port=proxy.port).render_as_string(hide_password=False)
        held = bed.sole_leader(point, "hold", ITINERARY_DATABASE_URL=through)
        held.arm()
        run_ids = bed.enqueue(5)
        proxy.cut_next_reply(held.at_the_point())
        held.free()
        held.child.wait_for_line("database away, trying again")
        for run_id in run_ids:
            bed.wait_state(run_id, "completed")
        bed.sole_leader()
