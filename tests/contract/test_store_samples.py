"""Samples in the database: one writer, one row for each step, time and term, and nothing that grows."""

from dataclasses import replace

import pytest
from sqlalchemy import func, select

from itinerary.protocol.errors import LeaseLost
from itinerary.protocol.instants import DAY, MINUTE
from scheduler_service.core.samples import DELAY_BOUNDS, QueueSample, Sample, Step
from scheduler_service.sql.record_tables import samples
from scheduler_service.sql.samples import SqlSampleStore
from tests.support.store_bed import StoreBed

NOW = 20_000 * DAY
DELAYS = (3,) + (0,) * len(DELAY_BOUNDS)
ONE = Sample(
    NOW, 1, "1.0", QueueSample(5, 1, 2, 3, 4, 5, 6), DELAYS, 2, 7, {"mäils": QueueSample(started=1)}, ("0.9", "1.0")
)


@pytest.fixture
def store(sql_stores: StoreBed) -> SqlSampleStore:
    return SqlSampleStore(sql_stores.by_role.get("leader") or sql_stores.database)  # type: ignore[arg-type]


def test_a_sample_is_read_as_it_was_written_and_a_repeat_replaces_it(
    sql_stores: StoreBed, store: SqlSampleStore
) -> None:
    lease = sql_stores.lead()
    ten = replace(ONE, at=NOW - NOW % Step.TEN_MINUTES.length)
    store.keep(lease, [(Step.MINUTE, ONE), (Step.TEN_MINUTES, ten)])
    more = replace(ONE, workers=1)
    store.keep(lease, [(Step.MINUTE, more), (Step.TEN_MINUTES, ten)])
    assert store.read(Step.MINUTE, NOW, NOW + 1) == [more]
    assert store.read(Step.TEN_MINUTES, NOW - 10 * MINUTE, NOW + 1) == [ten]
    assert store.read(Step.MINUTE, NOW + 1, NOW + DAY) == []


def test_the_figures_of_one_queue_are_read_alone(sql_stores: StoreBed, store: SqlSampleStore) -> None:
    times = [NOW - n * Step.TEN_MINUTES.length for n in range(3)]
    store.keep(sql_stores.lead(), [(Step.TEN_MINUTES, replace(ONE, at=at)) for at in times])
    read = store.read(Step.TEN_MINUTES, times[1], NOW + 1)
    assert store.read_queue(Step.TEN_MINUTES, times[1], NOW + 1, None) == [(one.at, one.total) for one in read]
    of_one = [(one.at, one.queues["mäils"]) for one in read]
    assert store.read_queue(Step.TEN_MINUTES, times[1], NOW + 1, "mäils") == of_one
    assert store.read_queue(Step.TEN_MINUTES, NOW, NOW + 1, "other") == [(NOW, QueueSample())]


def test_each_term_has_its_own_row_of_a_minute(sql_stores: StoreBed, store: SqlSampleStore) -> None:
    store.keep(sql_stores.lead(), [(Step.MINUTE, replace(ONE, term=term)) for term in (2, 1)])
    assert [sample.term for sample in store.read(Step.MINUTE, NOW, NOW + 1)] == [1, 2]


def test_a_leader_of_the_past_writes_no_sample(sql_stores: StoreBed, store: SqlSampleStore) -> None:
    lease = sql_stores.lead()
    sql_stores.leases.resign(lease)
    sql_stores.lead("another")
    with pytest.raises(LeaseLost):
        store.keep(lease, [(Step.MINUTE, ONE)])
    assert store.read(Step.MINUTE, NOW, NOW + 1) == []


def test_what_is_old_goes_with_the_next_sample(sql_stores: StoreBed, store: SqlSampleStore) -> None:
    lease = sql_stores.lead()
    for days in range(40, -1, -1):
        old = replace(ONE, at=NOW - days * DAY)
        store.keep(lease, [(Step.MINUTE, old), (Step.TEN_MINUTES, old)])
    assert sql_stores.database is not None
    with sql_stores.database.read() as connection:
        by_step = select(samples.c.step, func.count()).group_by(samples.c.step).order_by(samples.c.step)
        assert [tuple(row) for row in connection.execute(by_step)] == [(1, 3), (10, 31)]


def test_terms_are_told_newest_first_with_their_beginning_and_their_last_confirmation(
    sql_stores: StoreBed, store: SqlSampleStore
) -> None:
    first = sql_stores.lead()
    sql_stores.leases.resign(first)
    second = sql_stores.lead("another")
    newest, older = store.terms(0, 10)
    assert (newest.term, newest.confirmed_at, older.term) == (second.term, None, first.term)
    assert older.confirmed_at is not None
    assert older.began_at <= older.confirmed_at <= newest.began_at
    assert [one.term for one in store.terms(second.now + DAY, 10)] == [second.term]
    assert [one.term for one in store.terms(0, 1)] == [second.term]
