"""enqueue_in: a run in the caller's own transaction goes out if, and only if, that commits."""

import sqlite3
import sys
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from opentelemetry.sdk.trace import TracerProvider
from sqlalchemy import create_engine, text

from itinerary.client.sync import enqueue_in
from itinerary.protocol.errors import BadValue, BadValues, Conflict, NotFound
from itinerary.protocol.instants import MILLISECOND, SECOND, parse_instant
from scheduler_service.core.contract.run_requests import read_run
from scheduler_service.core.run_state import RunState
from scheduler_service.sql.wakeups import PgWakeups
from tests.support.app_connections import Way, an_earlier_clock, by_psycopg, each_way, plain
from tests.support.processes import Child, project_env, wait_until
from tests.support.store_bed import StoreBed

pytestmark = pytest.mark.postgres


@pytest.fixture
def url(emptied_postgres_url: str) -> str:
    return plain(emptied_postgres_url)


@each_way
def test_what_commits_is_there_as_it_was_asked_for(url: str, postgres_stores: StoreBed, opened: Way) -> None:
    with opened(url) as mine:
        run_id = enqueue_in(
            mine, "shop.send", [1], {"order": 17, "note": "50 % off: 'now'"}, run_at=datetime(2099, 1, 1, tzinfo=UTC),
            queue="mail", priority=2, timeout="5m", retry={"max_attempts": 3}, start_within="90s", must_end_within="1h",
            headers={"tenant": "ä", "n": 1}, limits=["api", {"name": "tenant", "key": "ä 50 %"}],
        )  # fmt: skip
        mine.commit()
    run = postgres_stores.runs.get(run_id)
    assert (run.task, run.args, run.kwargs) == ("shop.send", [1], {"order": 17, "note": "50 % off: 'now'"})
    assert (run.state, run.queue, run.priority) == (RunState.SCHEDULED, "mail", 2)
    assert run.due_at == run.scheduled_at == parse_instant("2099-01-01T00:00:00Z")
    assert (run.timeout, run.retry.max_attempts) == (300 * SECOND, 3)
    assert run.start_by == run.due_at + 90 * SECOND
    assert run.end_by == run.due_at + 3600 * SECOND
    assert run.headers == {"tenant": "ä", "n": 1}
    assert run.limits == (("api", None), ("tenant", "ä 50 %"))
    assert run.lane == 'limits:[["tenant","ä 50 %"]]'


@each_way
def test_a_deadline_that_is_over_is_refused_unless_the_run_is_there(
    url: str, postgres_stores: StoreBed, opened: Way
) -> None:
    over: dict[str, Any] = {"run_at": "2020-01-01T00:00:00Z", "start_within": "1h"}
    with opened(url) as mine:
        for key in ({}, {"idempotency_key": "k"}):
            with pytest.raises(BadValues, match="run_at plus start_within is over"):
                enqueue_in(mine, "t", **over, **key)
        late = {**over, "run_at": datetime.now(UTC) - timedelta(hours=2), "idempotency_key": "late"}
        with an_earlier_clock(hours=2):
            run_id = enqueue_in(mine, "t", **late)
        mine.commit()
        assert enqueue_in(mine, "t", **late) == run_id
    assert postgres_stores.runs.get(run_id).state is RunState.SCHEDULED


@each_way
def test_a_run_goes_on_with_the_trace_of_its_caller(url: str, postgres_stores: StoreBed, opened: Way) -> None:
    with opened(url) as mine:
        with TracerProvider().get_tracer("shop").start_as_current_span("checkout") as checkout:
            run_id = enqueue_in(mine, "shop.send", idempotency_key="order-17")
        mine.commit()
    caller = checkout.get_span_context()
    traced = f"00-{caller.trace_id:032x}-{caller.span_id:016x}-{caller.trace_flags:02x}"
    assert postgres_stores.runs.get(run_id).traceparent == traced


@each_way
def test_what_is_rolled_back_never_was(url: str, postgres_stores: StoreBed, opened: Way) -> None:
    with opened(url) as mine:
        run_id = enqueue_in(mine, "shop.send")
        mine.rollback()
    with pytest.raises(NotFound):
        postgres_stores.runs.get(run_id)


def test_before_the_commit_nobody_sees_it_and_the_commit_wakes_the_leader(url: str, postgres_stores: StoreBed) -> None:
    with closing(PgWakeups(url)) as wakeups, by_psycopg(url) as mine:
        wakeups.wait(SECOND)
        run_id = enqueue_in(mine, "shop.send")
        assert wakeups.wait(50 * MILLISECOND) == frozenset()
        with pytest.raises(NotFound):
            postgres_stores.runs.get(run_id)
        mine.commit()
        assert wait_until(lambda: wakeups.wait(SECOND), what="the notice") == {"runs"}
    assert postgres_stores.leader.due_runs(postgres_stores.runs.get(run_id).due_at + 1, 10)[0].run_id == run_id


CRASHING = """
import os, signal, sys, psycopg
from itinerary.client.sync import enqueue_in
with psycopg.connect(sys.argv[1]) as mine:
    mine.execute("CREATE TABLE IF NOT EXISTS orders (id int)")
    mine.execute("INSERT INTO orders VALUES (1)")
    print("enqueued", enqueue_in(mine, "shop.send", kwargs={"order": 1}), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_process_that_is_killed_before_it_commits_enqueued_nothing(url: str, postgres_stores: StoreBed) -> None:
    with Child([sys.executable, "-c", CRASHING, url], env=project_env()) as crashing:
        run_id = crashing.wait_for_line("enqueued").split()[1]
        assert crashing.wait() == -9
    with pytest.raises(NotFound):
        postgres_stores.runs.get(run_id)
    with by_psycopg(url) as looking:
        assert looking.execute("SELECT to_regclass('orders')").fetchone() == (None,)


@each_way
def test_the_same_key_and_request_is_the_same_run_and_another_request_a_conflict(
    url: str, postgres_stores: StoreBed, opened: Way
) -> None:
    with opened(url) as mine:
        first = enqueue_in(mine, "shop.send", kwargs={"order": 1}, idempotency_key="order-1")
        assert enqueue_in(mine, "shop.send", kwargs={"order": 1}, idempotency_key="order-1") == first
        mine.commit()
        assert enqueue_in(mine, "shop.send", kwargs={"order": 1}, idempotency_key="order-1") == first
        with pytest.raises(Conflict, match="another request"):
            enqueue_in(mine, "shop.send", kwargs={"order": 2}, idempotency_key="order-1")
    body = {"task": "shop.send", "kwargs": {"order": 1}, "idempotency_key": "order-1"}
    ((over_http, made),) = postgres_stores.runs.enqueue([read_run(body, "1", 0)])
    assert (over_http.run_id, made) == (first, False), "the key means the same over HTTP"


def test_times_are_those_of_the_insert_not_of_the_transactions_start(url: str, postgres_stores: StoreBed) -> None:
    with by_psycopg(url) as mine:
        began = parse_instant(
            mine.execute("SELECT to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')").fetchone()[0]
        )
        mine.execute("SELECT pg_sleep(0.05)")
        run_id = enqueue_in(mine, "t")
        mine.commit()
    assert postgres_stores.runs.get(run_id).due_at >= began + 50 * MILLISECOND


def test_what_cannot_be_enqueued_is_said_before_the_transaction_is_touched(url: str) -> None:
    with by_psycopg(url) as mine:
        for wrong in (
            {"priority": 11},
            {"kwargs": {"x": object()}},
            {"kwargs": {"x": float("nan")}},
            {"run_at": "soon"},
        ):
            with pytest.raises(BadValues):
                enqueue_in(mine, "t", **wrong)  # type: ignore[arg-type]  # wrong on purpose
        with pytest.raises(BadValues, match="zone"):
            enqueue_in(mine, "t", run_at=datetime(2099, 1, 1))  # noqa: DTZ001
        with pytest.raises(BadValue, match="schema"):
            enqueue_in(mine, "t", schema='a"; DROP TABLE runs')
        assert mine.info.transaction_status == psycopg.pq.TransactionStatus.IDLE


def test_the_schema_can_be_named(url: str, postgres_stores: StoreBed) -> None:
    with by_psycopg(url) as mine:
        mine.execute("SET search_path TO pg_catalog")
        run_id = enqueue_in(mine, "t", idempotency_key="k", schema="public")
        assert enqueue_in(mine, "t", idempotency_key="k", schema="public") == run_id
        mine.commit()
    assert postgres_stores.runs.get(run_id).run_id == run_id


def test_anything_but_a_synchronous_connection_to_postgresql_is_refused() -> None:
    with closing(sqlite3.connect(":memory:")) as lite, create_engine("sqlite://").connect() as lite_too:
        for wrong in (lite, lite_too, "postgresql://", None):
            with pytest.raises(BadValue, match="a connection of psycopg or Django"):
                enqueue_in(wrong, "t")

    class AsyncConnection:
        """What psycopg and SQLAlchemy call theirs."""

    with pytest.raises(BadValue, match="in async code use enqueue_in_async"):
        enqueue_in(AsyncConnection(), "t")


def test_a_role_that_may_only_insert_can_enqueue_and_nothing_else(url: str, postgres_stores: StoreBed) -> None:
    with by_psycopg(url) as admin:
        admin.execute("DROP ROLE IF EXISTS enqueuer")
        admin.execute("CREATE ROLE enqueuer")
        admin.execute("GRANT INSERT ON runs TO enqueuer")
        admin.commit()
        admin.execute("SET ROLE enqueuer")
        run_id = enqueue_in(admin, "t")
        admin.commit()
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            admin.execute("SELECT run_id FROM runs")
        admin.rollback()
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            admin.execute("UPDATE runs SET state = 'completed'")
        admin.rollback()
        admin.execute("RESET ROLE")
        admin.execute("GRANT SELECT (run_id, idempotency_key, request_hash) ON runs TO enqueuer")
        admin.execute("SET ROLE enqueuer")
        assert enqueue_in(admin, "t", idempotency_key="k") == enqueue_in(admin, "t", idempotency_key="k")
        admin.commit()
        admin.execute("RESET ROLE")
        admin.execute("DROP OWNED BY enqueuer")
        admin.execute("DROP ROLE enqueuer")
        admin.commit()
    assert postgres_stores.runs.get(run_id).task == "t"


def test_a_plain_insert_of_any_program_is_an_enqueue(url: str, postgres_stores: StoreBed) -> None:
    """The statement that the manual gives to other languages."""
    with by_psycopg(url) as mine:
        mine.execute(
            """INSERT INTO runs (run_id, kind, task, args, kwargs, queue, priority, scheduled_at, due_at, created_at)
               VALUES ('adhoc_' || gen_random_uuid(), 'adhoc', 'shop.send', '[]', '{"order": 17}', 'default', 5,
                       now(), now(), now())"""
        )
        mine.commit()
    assert postgres_stores.database is not None
    with postgres_stores.database.read() as connection:
        now = postgres_stores.database.read_clock(connection)
        run_id = connection.execute(text("SELECT run_id FROM runs")).scalar_one()
    assert [run.run_id for run in postgres_stores.leader.due_runs(now, 10)] == [run_id]
    assert postgres_stores.runs.get(run_id).kwargs == {"order": 17}
