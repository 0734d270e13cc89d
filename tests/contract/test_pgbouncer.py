"""Through a real PgBouncer: nothing is prepared by name, the bounds hold, and nothing of a session is left behind."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import replace
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import psycopg
import pytest
from sqlalchemy import text

from itinerary import enqueue_many_in_async
from itinerary.client.sync import enqueue_in
from itinerary.protocol.errors import StoreUnavailable
from itinerary.protocol.instants import MILLISECOND, SECOND
from scheduler_service.ports.stores import RunFilter
from scheduler_service.sql import wakeups
from scheduler_service.sql.database import Database
from scheduler_service.sql.migrations import upgrade
from scheduler_service.sql.postgres import is_direct
from scheduler_service.sql.schema_version import check_schema
from scheduler_service.sql.wakeups import PgWakeups
from tests.support.app_connections import plain
from tests.support.pgbouncer import ABSENT, PgBouncer, find_pgbouncer
from tests.support.processes import wait_until
from tests.support.store_bed import PATIENT, one_off, sql_bed

pytestmark = [pytest.mark.postgres, pytest.mark.skipif(find_pgbouncer() is None, reason=ABSENT)]
IGNORES = "ignore_startup_parameters = options,extra_float_digits"
SETTINGS = {
    "statement_timeout": "10s", "lock_timeout": "2s", "TimeZone": "UTC", "jit": "off", "random_page_cost": "1.1",
}  # fmt: skip


@pytest.fixture(params=["transaction", "session", "transaction, options ignored"])
def pooler(request: pytest.FixtureRequest, emptied_postgres_url: str) -> Iterator[PgBouncer]:
    mode, _, ignoring = request.param.partition(", ")
    size = 2 if mode == "transaction" else 20  # in session mode each client has a server of its own
    with PgBouncer(emptied_postgres_url, mode, size=size, more=IGNORES if ignoring else "") as running:
        yield running


@pytest.fixture
def transactions(emptied_postgres_url: str) -> Iterator[PgBouncer]:
    with PgBouncer(emptied_postgres_url) as running:
        yield running


def on_server(url: str, query: str) -> Any:
    with psycopg.connect(plain(url), autocommit=True) as connection:
        row = connection.execute(query).fetchone()  # type: ignore[call-overload]  # a query of ours, not a literal
        return row and row[0]


def settings_in(connection: Any) -> dict[str, str]:
    return {name: connection.execute(text(f"SHOW {name}")).scalar_one() for name in SETTINGS}


def test_nobody_is_answered_by_another_clients_statement(pooler: PgBouncer) -> None:
    with ExitStack() as stack:
        first, second, third = (stack.enter_context(closing(Database(pooler.url, pool_size=2))) for _ in range(3))
        for number in range(12):  # one more than after which psycopg prepares, on servers that are handed around
            with first.write() as a, second.write() as b:
                a.execute(text("SELECT 'a', CAST(:n AS integer)"), {"n": number})
                b.execute(text("SELECT 'b', CAST(:n AS integer)"), {"n": number})
            with third.write() as held, second.read() as b:
                held.execute(text("SELECT 1"))
                assert b.execute(text("SELECT 'b', CAST(:n AS integer)"), {"n": number}).one() == ("b", number)
            with first.read() as a:
                assert a.execute(text("SELECT 'a', CAST(:n AS integer)"), {"n": number}).one() == ("a", number)


def test_the_bounds_hold_and_stay_with_nobody_else(pooler: PgBouncer) -> None:
    with closing(Database(pooler.url)) as database:
        for _ in range(2):
            with database.read() as connection:
                assert not is_direct(connection)
                assert settings_in(connection) == SETTINGS
            with database.write() as connection:
                assert settings_in(connection) == SETTINGS
                idle = connection.execute(text("SHOW idle_in_transaction_session_timeout")).scalar_one()
                assert idle == "2500ms", "a frozen leader must not block a takeover"
    with psycopg.connect(plain(pooler.url)) as other:
        row = other.execute("SHOW statement_timeout", prepare=False).fetchone()
        assert row == ("0",), "what was set is gone with its transaction"


def test_a_lock_is_waited_for_no_longer_than_its_bound(transactions: PgBouncer) -> None:
    bounds = replace(PATIENT, lock=100 * MILLISECOND)
    with (
        closing(Database(transactions.url, bounds=bounds)) as one,
        closing(Database(transactions.url, bounds=bounds)) as other,
        one.write() as holds,
    ):
        holds.execute(text("LOCK TABLE cursors"))
        with pytest.raises(StoreUnavailable, match="lock timeout"), other.write() as waits:
            waits.execute(text("UPDATE cursors SET shard = shard"))


def test_a_direct_connection_prepares_as_before(emptied_postgres_url: str) -> None:
    with closing(Database(emptied_postgres_url)) as database, database.read() as connection:
        assert is_direct(connection)
        for number in range(8):
            connection.execute(text("SELECT CAST(:n AS integer)"), {"n": number})
        prepared = "SELECT count(*) FROM pg_prepared_statements"
        assert connection.exec_driver_sql(prepared).scalar_one() >= 1
        assert settings_in(connection) == SETTINGS


def test_the_options_of_the_url_hold_too(emptied_postgres_url: str) -> None:
    with closing(Database(f"{emptied_postgres_url}?options=-csearch_path%3Dsched")) as database, database.read() as one:
        assert one.execute(text("SHOW search_path")).scalar_one() == "sched"
        assert settings_in(one) == SETTINGS


def test_stores_and_a_leader_do_their_work_through_it(pooler: PgBouncer) -> None:
    with sql_bed(pooler.url) as bed:
        lease = bed.lead()
        for number in range(8):
            (run,) = bed.make(lease, one_off(lease.now))
            assert bed.runs.get(run.run_id).run_id == run.run_id, number
            bed.runs.request_cancel(run.run_id)
        assert len(bed.runs.list(RunFilter(), 50, None).items) == 8
        job = bed.planned_job(lease)
        assert [history.job_id for history in bed.leader.job_histories(None)] == [job.job_id]


def test_a_run_is_enqueued_in_a_transaction_through_it(transactions: PgBouncer) -> None:
    with ExitStack() as stack:
        mine, other = (stack.enter_context(psycopg.connect(plain(transactions.url))) for _ in range(2))
        for number in range(8):  # more than after which psycopg prepares
            for connection in (mine, other):
                enqueue_in(connection, "demo.task", idempotency_key=f"{number}-{connection.info.backend_pid}")
            mine.commit()
            other.rollback()
    assert on_server(transactions.url, "SELECT count(*) FROM runs") == 8


def test_asyncpg_enqueues_through_it_without_its_cache(transactions: PgBouncer) -> None:
    async def program() -> None:
        connections = [await asyncpg.connect(plain(transactions.url), statement_cache_size=0) for _ in range(2)]
        for number in range(8):
            for name, connection in enumerate(connections):
                async with connection.transaction():
                    await enqueue_many_in_async(
                        connection, [{"task": "t", "idempotency_key": f"{name}-{n}"} for n in (number, number + 1)]
                    )
        for connection in connections:
            await connection.close()

    asyncio.run(program())
    assert on_server(transactions.url, "SELECT count(*) FROM runs") == 18


def test_news_are_asked_for_where_they_cannot_be_heard(
    pooler: PgBouncer, emptied_postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(PgWakeups(pooler.url)) as through:
        assert through.wait(0) == {"runs", "jobs"}, "at first"
        wait_until(lambda: through.wait(SECOND // 10) == {"runs", "jobs"}, what="what is asked for each second")
        monkeypatch.setattr(wakeups, "_POLLED_SECONDS", 3600.0)
        wait_until(lambda: through.wait(SECOND // 10) == {"runs", "jobs"}, what="what is asked for each second")
        assert through.wait(0) == frozenset(), "and not more often"
        listening = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'"
        assert on_server(emptied_postgres_url, listening) == 0


def test_migrations_take_turns_through_it_and_leave_no_lock(empty_postgres_url: str) -> None:
    with PgBouncer(empty_postgres_url, size=6) as pooler:
        with ThreadPoolExecutor(2) as pool:
            for done in [pool.submit(upgrade, pooler.url) for _ in range(2)]:
                done.result(timeout=120)
        with closing(Database(pooler.url)) as database:
            check_schema(database)
        assert on_server(empty_postgres_url, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'") == 0
