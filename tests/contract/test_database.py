"""The border to the database: its errors in our words, its waits bounded, SQLite's writers in turn."""

import sqlite3
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import select, text

from itinerary.protocol.errors import BadValue, RowRefused, StoreUnavailable
from itinerary.protocol.instants import HOUR, MILLISECOND, MINUTE, SECOND
from scheduler_service.core.leader.commands import Apply, CreateRuns
from scheduler_service.sql import postgres
from scheduler_service.sql.database import Bounds, Database, WriterQueue, host_now
from scheduler_service.sql.database_url import read_url
from scheduler_service.sql.fence import fenced
from scheduler_service.sql.sqlite import Gate
from tests.support.postgres_server import PostgresServer
from tests.support.processes import free_port, wait_until
from tests.support.store_bed import PATIENT, StoreBed, one_off, release, sql_bed

# Only the one wait that a test needs ends soon: a process that gets no core goes over every bound.
SOON = 200 * MILLISECOND
CONNECTS_SOON = replace(PATIENT, connect=SOON)


@contextmanager
def opened(url: str, bounds: Bounds = PATIENT, pool_size: int = 2) -> Iterator[Database]:
    with closing(Database(url, pool_size=pool_size, bounds=bounds)) as database:
        yield database


def touch(database: Database) -> None:
    """A write that changes nothing."""
    with database.write() as connection:
        connection.execute(text("UPDATE cursors SET shard = shard"))


def assert_unavailable(database: Database, why: str | None = None) -> None:
    with pytest.raises(StoreUnavailable, match=why):
        touch(database)


@pytest.mark.parametrize(
    ("given", "driver"),
    [
        ("postgres://u:p@h/d", "postgresql+psycopg"),
        ("postgresql://u:p@h:5433/d?sslmode=require", "postgresql+psycopg"),
        ("postgresql+psycopg://h/d", "postgresql+psycopg"),
        ("sqlite:///relative.db", "sqlite+pysqlite"),
        ("sqlite:////absolute.db", "sqlite+pysqlite"),
    ],
)
def test_a_database_is_named_by_its_usual_url(given: str, driver: str) -> None:
    assert read_url(given).drivername == driver


@pytest.mark.parametrize("folder", ["m\u00fcller", "somebody's", "a (b) + c", "100%25", "a#b & [c]"])
def test_a_file_in_an_odd_folder_is_the_same_one_for_each_connection(folder: str, tmp_path: Path) -> None:
    (tmp_path / folder).mkdir()
    with opened(f"sqlite:///{tmp_path / folder}/itinerary.db") as database, closing(database.beside()) as other:
        with database.write() as connection:
            connection.execute(text("CREATE TABLE seen (n INTEGER)"))
        with other.read() as connection:
            assert connection.execute(text("SELECT count(*) FROM seen")).scalar_one() == 0


@pytest.mark.parametrize("given", ["sqlite:////a?b/itinerary.db", "sqlite:////a?b/c?mode=ro"])
def test_a_question_mark_in_the_path_is_refused_and_not_cut_off(given: str) -> None:
    with pytest.raises(BadValue, match="give a path without"):
        read_url(given)
    assert read_url("sqlite:////a/b.db?mode=ro").query == {"mode": "ro"}


@pytest.mark.parametrize("given", ["", "nonsense", "mysql://u:secret@h/d", "sqlite://", "sqlite:///:memory:", "sqlite"])
def test_other_databases_are_refused_without_showing_a_password(given: str) -> None:
    with pytest.raises(BadValue) as refused:
        read_url(given)
    assert "secret" not in str(refused.value)


def test_the_databases_clock_is_close_to_this_hosts_and_moves_on(sql_stores: StoreBed) -> None:
    assert sql_stores.database is not None
    began = host_now()
    with sql_stores.database.write() as connection:
        first, later, second = (
            connection.execute(select(sql_stores.database.now(plus))).scalar_one() for plus in (0, HOUR, 0)
        )
    assert began - SECOND < first < host_now() + SECOND
    assert first < second < later < second + HOUR


def test_a_database_that_is_not_there_is_unavailable() -> None:
    with opened(f"postgresql://nobody@127.0.0.1:{free_port()}/nothing") as database:
        assert_unavailable(database)


def test_a_file_that_cannot_be_opened_is_unavailable(tmp_path: Path) -> None:
    with opened(f"sqlite:///{tmp_path / 'no-such-folder' / 'x.db'}") as database:
        assert_unavailable(database)


def test_a_missing_schema_is_unavailable_and_not_a_refused_row(empty_database_url: str) -> None:
    with sql_bed(empty_database_url) as bed, pytest.raises(StoreUnavailable):
        bed.runs.enqueue([one_off(0)])


@pytest.mark.postgres
def test_every_connection_in_use_is_unavailable_in_bounded_time(emptied_postgres_url: str) -> None:
    with opened(emptied_postgres_url, CONNECTS_SOON, pool_size=1) as database, database.read():
        assert_unavailable(database, "in use")


def test_a_locked_sqlite_file_is_unavailable_in_bounded_time(sqlite_url: str) -> None:
    path = sqlite_url.removeprefix("sqlite:///")
    with opened(sqlite_url, CONNECTS_SOON) as database, closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert_unavailable(database, "locked")
        other.execute("ROLLBACK")
        touch(database)


def test_a_full_sqlite_disk_is_unavailable_and_leaves_everything_as_it_was(sqlite_url: str) -> None:
    with sql_bed(sqlite_url) as stores:  # of its own: it stays full
        lease = stores.lead()
        assert stores.database is not None
        (before,) = stores.make(lease, one_off(lease.now))
        with stores.database.read() as connection:
            raw = connection.connection.dbapi_connection
            assert raw is not None
            pages = raw.execute("PRAGMA page_count").fetchone()[0]
            raw.execute(f"PRAGMA max_page_count = {pages + 2}")
        many = tuple(one_off(lease.now, args=["x" * 5_000]) for _ in range(200))
        with pytest.raises(StoreUnavailable, match="full"):
            stores.leader.create_runs(lease, CreateRuns(many, cursor=lease.now + 5))
        asked = [before.run_id, *(run.run_id for run in many)]
        assert [run.run_id for run in stores.leader.read_runs(asked)] == [before.run_id]
        assert stores.leader.cursor(lease).materialised_until == lease.now
        assert stores.leader.dispatch_runs(lease, [release(before)], lease.now).dispatched


def test_sqlite_writes_are_synced_to_the_disk_before_they_are_acknowledged(sqlite_stores: StoreBed) -> None:
    assert sqlite_stores.database is not None
    expected = {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1}
    with sqlite_stores.database.read() as connection:
        found = {name: connection.exec_driver_sql(f"PRAGMA {name}").scalar_one() for name in expected}
    assert found == expected


def test_writers_of_one_process_take_turns_in_the_order_they_came() -> None:
    queue = WriterQueue()
    order: list[int] = []

    def write(number: int) -> None:
        with queue.turn(MINUTE):
            order.append(number)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    with queue.turn(MINUTE):
        for before, thread in enumerate(threads):
            thread.start()
            wait_until(partial(_queued, queue, before + 1), what="the writer to queue up")
    for thread in threads:
        thread.join(60)
    assert order == list(range(8))


def _queued(queue: WriterQueue, writers: int) -> bool:
    return queue.waiting == writers


def test_a_writer_whose_turn_does_not_come_gives_up_and_lets_the_others_pass() -> None:
    queue = WriterQueue()
    with queue.turn(0), ThreadPoolExecutor(1) as pool:
        with pytest.raises(StoreUnavailable):
            pool.submit(_take_a_turn, queue).result(60)
        assert queue.waiting == 0
    _take_a_turn(queue)


def _take_a_turn(queue: WriterQueue) -> None:
    with queue.turn(10 * MILLISECOND):
        pass


def test_a_lease_renewal_shares_the_writers_queue_of_its_process(sqlite_url: str) -> None:
    with opened(sqlite_url) as database, ThreadPoolExecutor(1) as pool:
        beside = database.beside()
        with database.write():
            waiting = pool.submit(touch, beside)
            wait_until(partial(_queued, database.queue, 1), what="the second writer to queue up")
            assert not waiting.done()
        waiting.result(60)


@pytest.mark.postgres
def test_whoever_goes_first_writes_before_the_writers_of_other_processes_that_came_after_it(sqlite_url: str) -> None:
    """SQLite lets whoever asks at the right moment in: a leader among busy writers waited for seconds."""
    wrote: list[str] = []
    file = read_url(sqlite_url).database

    def write(name: str, database: Database) -> None:
        with database.write() as connection:
            connection.execute(text("UPDATE cursors SET shard = shard"))
            wrote.append(name)

    def gate_is_closed() -> bool:
        gate = Gate(file)
        closed = not gate.hold()
        gate.let_go()
        return closed

    with (
        closing(Database(sqlite_url, bounds=PATIENT, goes_first=True)) as leader,
        opened(sqlite_url) as holder,
        ThreadPoolExecutor() as pool,
        closing(Database(sqlite_url, bounds=PATIENT)) as other,
    ):
        for _ in range(5):
            wrote.clear()
            with holder.write():
                first = pool.submit(write, "leader", leader)
                wait_until(gate_is_closed)
                second = pool.submit(write, "other", other)
                wait_until(lambda: other.queue._waiting)  # its turn in its own process
            first.result(60)
            second.result(60)
            assert wrote == ["leader", "other"]
        assert not gate_is_closed()


def test_a_gate_that_stays_closed_keeps_no_writer_waiting_for_long(sqlite_url: str) -> None:
    """A leader that was frozen while it held the gate must not stop everybody else."""
    gate = Gate(read_url(sqlite_url).database)
    assert gate.hold()
    with opened(sqlite_url, CONNECTS_SOON) as other:
        touch(other)
    gate.let_go()


@pytest.mark.postgres
def test_a_statement_that_takes_too_long_is_ended(emptied_postgres_url: str) -> None:
    def sleep() -> None:
        bounds = replace(PATIENT, statement=SOON)
        with opened(emptied_postgres_url, bounds) as database, database.read() as connection:
            connection.execute(text("SELECT pg_sleep(10)"))

    with pytest.raises(StoreUnavailable, match="statement timeout"):
        sleep()


def lose_connection(database: Database) -> None:
    """The server ends the connection that this pool has used last."""
    with database.read() as connection:
        pid = connection.execute(text("SELECT pg_backend_pid()")).scalar_one()
    with opened(database.url) as another, another.read() as connection:
        connection.execute(text("SELECT pg_terminate_backend(:pid)"), {"pid": pid})
        left = text("SELECT count(*) FROM pg_stat_activity WHERE pid = :pid")
        wait_until(lambda: not connection.execute(left, {"pid": pid}).scalar_one(), what="the connection to be gone")


@pytest.mark.postgres
def test_a_connection_that_died_while_it_was_idle_is_replaced(
    emptied_postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "_FRESH_SECONDS", 0)
    with opened(emptied_postgres_url) as database:
        touch(database)
        lose_connection(database)
        touch(database)


@pytest.mark.postgres
def test_a_connection_that_was_just_used_is_not_asked_whether_it_lives(
    emptied_postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "_FRESH_SECONDS", 60)
    with opened(emptied_postgres_url) as database:
        touch(database)
        lose_connection(database)
        assert_unavailable(database)
        touch(database)


@pytest.mark.postgres
def test_a_transaction_that_does_nothing_is_ended_in_bounded_time(emptied_postgres_url: str) -> None:
    bounds = replace(PATIENT, idle=61_234 * MILLISECOND)
    shown = text("SHOW idle_in_transaction_session_timeout")
    with opened(emptied_postgres_url, bounds) as database:
        with database.write() as connection:
            assert connection.execute(shown).scalar_one() == "61234ms"
        with database.read() as connection:
            assert connection.execute(shown).scalar_one() == "61234ms"


@pytest.mark.postgres
def test_a_lock_that_is_held_too_long_is_given_up(emptied_postgres_url: str) -> None:
    bounds = replace(PATIENT, lock=SOON)
    with opened(emptied_postgres_url, bounds) as database, database.write() as connection:
        connection.execute(text("LOCK TABLE cursors"))
        assert_unavailable(database, "lock timeout")


@pytest.mark.postgres
def test_a_leader_that_freezes_in_a_transaction_does_not_block_a_takeover(emptied_postgres_url: str) -> None:
    def freeze_and_be_replaced(bed: StoreBed, leader: Database) -> None:
        lease = bed.lead()
        with fenced(leader, lease):
            bed.leases.resign(lease)
            successor = bed.leases.acquire(0, "standby", MINUTE)
            assert successor is not None
            assert successor.term == lease.term + 1

    with (
        sql_bed(emptied_postgres_url) as bed,
        opened(emptied_postgres_url, replace(PATIENT, idle=SOON)) as leader,
        pytest.raises(StoreUnavailable),
    ):
        freeze_and_be_replaced(bed, leader)


@pytest.mark.postgres
def test_a_value_that_postgresql_never_takes_is_a_refused_row(emptied_postgres_url: str) -> None:
    with opened(emptied_postgres_url) as database:
        for statement in ("SELECT 1 / 0", "SELECT 'x'::int", "INSERT INTO cursors VALUES (1, NULL, NULL)"):
            with pytest.raises(RowRefused), database.write() as connection:
                connection.execute(text(statement))


@pytest.mark.postgres
@pytest.mark.slow
def test_a_server_that_is_killed_and_comes_back_loses_nothing_that_was_acknowledged() -> None:
    from scheduler_service.sql.migrations import upgrade

    with PostgresServer() as server:
        url = server.create_database()
        upgrade(url)
        with sql_bed(url) as bed:
            lease = bed.lead()
            runs = bed.dispatched(lease, *(one_off(lease.now) for _ in range(10)))
            server.kill()
            for call in (lambda: bed.leader.apply(lease, Apply(())), lambda: bed.leases.renew(lease, HOUR)):
                with pytest.raises(StoreUnavailable):
                    call()
            server.start()
            assert len(bed.leader.active_runs()) == len(runs)
            assert bed.leases.renew(lease, HOUR).term == lease.term
            assert bed.leader.dispatch_runs(lease, [release(run) for run in runs], lease.now).dispatched == ()
