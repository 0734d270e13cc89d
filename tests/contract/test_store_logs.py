"""LogStore: logs of attempts, which live as long as their runs."""

import zlib
from dataclasses import replace

import pytest
from sqlalchemy import delete, select

from itinerary.protocol.attempt_logs import Tail
from scheduler_service.ports.logs import SentLog
from scheduler_service.sql.attempt_logs import SqlLogStore
from scheduler_service.sql.record_tables import attempt_logs
from scheduler_service.sql.tables import runs
from tests.support.store_bed import StoreBed, one_off


def sent(run_id: str, attempt: int, text: str, end: int | None = None) -> SentLog:
    return SentLog("1-0", run_id, attempt, len(text) if end is None else end, zlib.compress(text.encode()))


@pytest.fixture
def store(sql_stores: StoreBed) -> SqlLogStore:
    assert sql_stores.database is not None
    sql_stores.runs.enqueue([replace(one_off(0), run_id="one"), replace(one_off(0), run_id="two")])
    return SqlLogStore(sql_stores.database)


def test_a_log_comes_back_as_it_was_sent_and_the_first_stays(store: SqlLogStore) -> None:
    store.keep([sent("two", 1, "half \ufffd, a nul \x00\n", 1000), sent("one", 2, "second"), sent("one", 1, "first")])
    store.keep([sent("one", 1, "another")])
    assert store.read("one", 1) == Tail("first", 5)
    assert store.read("two", 1) == Tail("half \ufffd, a nul \x00\n", 1000)
    assert store.read("two", 2) is None
    assert (store.attempts("one"), store.attempts("absent")) == ([1, 2], [])


def test_logs_of_runs_that_are_gone_are_dropped_and_hold_no_other_one_up(store: SqlLogStore) -> None:
    store.keep([sent("absent", 1, "x"), sent("one", 1, "y"), sent("zzz", 1, "x")])
    assert (store.attempts("absent"), store.attempts("one")) == ([], [1])
    store.keep([sent("absent", 1, "x")])
    store.keep([])


def test_a_log_goes_with_its_run(store: SqlLogStore, sql_stores: StoreBed) -> None:
    store.keep([sent("one", 1, "x"), sent("two", 1, "x")])
    assert sql_stores.database is not None
    with sql_stores.database.write() as connection:
        connection.execute(delete(runs).where(runs.c.run_id == "one"))
        assert connection.execute(select(attempt_logs.c.run_id)).scalars().all() == ["two"]
