"""LeaseStore: one holder for each term, by the database's clock; and the fence that a takeover waits for."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from sqlalchemy import Connection, event, select, text, update

from itinerary.protocol.errors import LeaseLost
from itinerary.protocol.instants import HOUR, MINUTE, SECOND
from scheduler_service.core.leader.commands import Apply
from scheduler_service.core.model import Lease
from scheduler_service.core.redis_marks import Marks
from scheduler_service.core.schedules.zone_rules import installed_rules
from scheduler_service.sql.fence import fenced
from scheduler_service.sql.lease import SqlLeaseStore
from scheduler_service.sql.record_tables import leaderships
from scheduler_service.sql.tables import cursors, leases
from tests.support.processes import wait_until
from tests.support.store_bed import StoreBed
from tests.support.work import calls_made


def test_before_the_first_leader_there_is_no_lease(bed: StoreBed) -> None:
    assert bed.leases.peek(0) is None


def test_the_first_to_ask_gets_term_one_and_is_seen(bed: StoreBed) -> None:
    lease = bed.leases.acquire(0, "a", MINUTE)
    assert lease is not None
    assert (lease.shard, lease.term, lease.holder) == (0, 1, "a")
    view = bed.leases.peek(0)
    assert view is not None
    assert (view.term, view.holder, view.renewals, view.live) == (1, "a", 0, True)
    assert abs(view.expires_at - lease.now - MINUTE) < MINUTE
    assert view.acquired_at <= view.now


def test_a_held_lease_is_not_given_to_anybody_else_nor_again_to_its_holder(bed: StoreBed) -> None:
    bed.leases.acquire(0, "a", MINUTE)
    assert bed.leases.acquire(0, "b", MINUTE) is None
    assert bed.leases.acquire(0, "a", MINUTE) is None


def test_a_lapsed_lease_goes_to_the_next_with_the_next_term(bed: StoreBed) -> None:
    bed.leases.acquire(0, "a", 0)
    lease = bed.leases.acquire(0, "b", MINUTE)
    assert lease is not None
    assert (lease.term, lease.holder) == (2, "b")


def test_a_standby_that_would_hold_it_for_a_shorter_time_waits_as_long_as_the_holder_asked_for(bed: StoreBed) -> None:
    assert bed.leases.acquire(0, "a", MINUTE) is not None
    assert bed.leases.acquire(0, "b", 0) is None


def test_a_renewal_tells_the_time_after_its_commit(sql_stores: StoreBed) -> None:
    database = sql_stores.database
    assert database is not None
    assert isinstance(sql_stores.leases, SqlLeaseStore)
    lease = sql_stores.leases.acquire(0, "a", MINUTE)
    assert lease is not None
    spent: list[float] = []

    def committing(_: Connection) -> None:
        began = time.monotonic()
        with database.read() as connection:
            database.read_clock(connection)
        spent.append(time.monotonic() - began)

    event.listen(sql_stores.leases._database.engine, "commit", committing, once=True)
    renewed = sql_stores.leases.renew(lease, MINUTE)
    told_before = sql_stores.leases.peek(0)
    assert told_before is not None
    late = "the leader's clock, and each run, would be late by the disk's time"
    assert renewed.now - (told_before.expires_at - MINUTE) >= int(spent[0] * SECOND) > 0, late


def test_a_lease_that_was_renewed_since_it_looked_stalled_is_not_taken(
    sqlite_stores: StoreBed, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = sqlite_stores.leases.acquire(0, "a", MINUTE)
    stalled = sqlite_stores.leases.peek(0)
    assert lease is not None
    assert stalled is not None
    sqlite_stores.leases.renew(lease, MINUTE)
    monkeypatch.setattr(
        sqlite_stores.leases, "peek", lambda shard: stalled
    )  # the renewal comes between its look and its UPDATE
    assert sqlite_stores.leases.acquire(0, "b", MINUTE, stalled) is None


def test_a_new_term_counts_its_own_renewals(bed: StoreBed) -> None:
    """By them a standby sees whether a leader that looks stalled still renews."""
    lease = bed.leases.acquire(0, "a", MINUTE)
    assert lease is not None
    for _ in range(3):
        bed.leases.renew(lease, MINUTE)
    bed.leases.resign(lease)
    assert bed.leases.acquire(0, "b", MINUTE) is not None
    view = bed.leases.peek(0)
    assert view is not None
    assert (view.term, view.renewals) == (2, 0)


def test_a_resigned_lease_is_free_at_once(bed: StoreBed) -> None:
    lease = bed.lead("a")
    bed.leases.resign(lease)
    view = bed.leases.peek(0)
    assert view is not None
    assert not view.live
    successor = bed.leases.acquire(0, "b", MINUTE)
    assert successor is not None
    assert successor.term == 2


def test_resigning_a_lease_that_is_over_does_not_touch_the_successors(bed: StoreBed) -> None:
    lease = bed.lead("a")
    bed.take_over(lease)
    bed.leases.resign(lease)
    view = bed.leases.peek(0)
    assert view is not None
    assert view.live


def test_a_renewal_confirms_the_lease_and_is_counted(bed: StoreBed) -> None:
    lease = bed.lead("a")
    renewed = bed.leases.renew(lease, HOUR)
    assert (renewed.term, renewed.holder) == (lease.term, "a")
    assert renewed.now >= lease.now
    view = bed.leases.peek(0)
    assert view is not None
    assert view.renewals >= 1
    assert view.expires_at > lease.now + MINUTE


@pytest.mark.parametrize("wrong", [Lease(0, 1, "b", 0), Lease(0, 2, "a", 0), Lease(1, 1, "a", 0)])
def test_a_renewal_by_another_term_or_holder_is_refused(bed: StoreBed, wrong: Lease) -> None:
    bed.leases.acquire(0, "a", MINUTE)
    with pytest.raises(LeaseLost):
        bed.leases.renew(wrong, MINUTE)


def test_a_resigned_holder_can_neither_renew_nor_write(bed: StoreBed) -> None:
    lease = bed.lead("a")
    bed.leases.resign(lease)
    with pytest.raises(LeaseLost):
        bed.leases.renew(lease, MINUTE)
    with pytest.raises(LeaseLost):
        bed.leader.apply(lease, Apply((), position="1-1"))


def test_a_lapsed_lease_that_nobody_took_can_be_renewed(bed: StoreBed) -> None:
    lease = bed.leases.acquire(0, "a", 0)
    assert lease is not None
    assert bed.leases.renew(lease, MINUTE).term == 1
    assert bed.leases.acquire(0, "b", MINUTE) is None


def test_shards_are_led_apart(bed: StoreBed) -> None:
    first, second = bed.leases.acquire(0, "a", MINUTE), bed.leases.acquire(1, "b", MINUTE)
    assert first is not None
    assert second is not None
    bed.leader.cursor(first)
    bed.leader.cursor(second)
    bed.leader.apply(first, Apply((), position="1-1"))
    assert bed.leader.cursor(second).inbox_position == "0-0"


def test_of_many_who_ask_at_once_one_gets_each_term(bed: StoreBed) -> None:
    askers = [bed.beside() for _ in range(6)]
    together = threading.Barrier(len(askers))

    def ask(number: int) -> list[Lease]:
        won: list[Lease] = []
        for _ in range(5):
            together.wait(60)
            lease = askers[number].leases.acquire(0, f"holder-{number}", MINUTE)
            together.wait(60)
            if lease is not None:
                won.append(lease)
                askers[number].leases.resign(lease)
        return won

    with ThreadPoolExecutor(len(askers)) as pool:
        terms = sorted(lease.term for won in pool.map(ask, range(len(askers))) for lease in won)
    assert terms == [1, 2, 3, 4, 5]


@contextmanager
def open_write(bed: StoreBed, lease: Lease) -> Iterator[Connection]:
    """A write transaction of the leader that has not ended yet."""
    assert bed.database is not None
    with fenced(bed.database, lease) as connection:
        yield connection


@pytest.mark.postgres
def test_a_renewal_does_not_wait_for_an_open_write_of_the_leader(postgres_stores: StoreBed) -> None:
    lease = postgres_stores.lead()
    with open_write(postgres_stores, lease):
        assert postgres_stores.leases.renew(lease, MINUTE).term == lease.term


@pytest.mark.postgres
def test_a_takeover_waits_for_an_open_write_and_comes_after_its_commit(postgres_stores: StoreBed) -> None:
    lease = postgres_stores.lead()
    assert postgres_stores.database is not None
    with ThreadPoolExecutor(1) as pool:
        with open_write(postgres_stores, lease) as connection:
            postgres_stores.beside().leases.resign(lease)
            taking = pool.submit(postgres_stores.beside().leases.acquire, 0, "b", MINUTE)
            wait_until(lambda: _is_waited_for(postgres_stores), what="the takeover to wait for the lease row")
            assert not taking.done()
            connection.execute(cursors.update().values(inbox_position="9-9"))
        successor = taking.result(60)
    assert successor is not None
    assert successor.term == lease.term + 1
    assert postgres_stores.leader.cursor(successor).inbox_position == "9-9"


@pytest.mark.postgres
def test_a_write_that_meets_a_takeover_in_progress_is_refused(postgres_stores: StoreBed) -> None:
    lease = postgres_stores.lead()
    assert postgres_stores.database is not None
    with ThreadPoolExecutor(1) as pool:
        with postgres_stores.database.write() as takeover:
            takeover.execute(text("UPDATE leases SET term = term + 1, holder = 'b'"))
            writing = pool.submit(postgres_stores.beside().leader.apply, lease, Apply((), position="9-9"))
            wait_until(lambda: _is_waited_for(postgres_stores), what="the write to wait for the lease row")
        with pytest.raises(LeaseLost):
            writing.result(60)


def test_on_sqlite_every_commit_of_the_leader_renews(sqlite_stores: StoreBed) -> None:
    lease = sqlite_stores.leases.acquire(0, "a", 0)
    assert lease is not None
    before = sqlite_stores.leases.peek(0)
    sqlite_stores.leader.apply(lease, Apply(()))
    after = sqlite_stores.leases.peek(0)
    assert before is not None
    assert after is not None
    assert after.renewals == before.renewals + 1
    assert after.expires_at > before.expires_at


def _is_waited_for(bed: StoreBed) -> bool:
    """Whether some session waits for a row of `leases`."""
    assert bed.database is not None
    waiting = text(
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    )
    with bed.database.read() as connection:
        return int(connection.execute(waiting).scalar_one()) > 0


def test_a_write_does_not_build_the_statement_of_its_fence_again(sql_stores: StoreBed) -> None:
    database, lease = sql_stores.database, sql_stores.leases.acquire(0, "a", MINUTE)
    assert database is not None
    assert lease is not None

    def write() -> None:
        with fenced(database, lease):
            pass

    write()
    assert min(calls_made(write) for _ in range(5)) < 700, "423; building it takes 630 more"


def test_a_lease_that_stands_still_is_taken_before_it_lapses_unless_it_was_renewed(bed: StoreBed) -> None:
    lease = bed.leases.acquire(0, "a", MINUTE)
    seen = bed.leases.peek(0)
    assert lease is not None
    assert seen is not None
    bed.leases.renew(lease, MINUTE)
    assert bed.leases.acquire(0, "b", MINUTE, seen) is None
    successor = bed.leases.acquire(0, "b", MINUTE, bed.leases.peek(0))
    assert successor is not None
    assert successor.term == lease.term + 1
    with pytest.raises(LeaseLost):
        bed.leases.renew(lease, MINUTE)


def test_a_term_says_its_zone_rules_and_a_standby_that_has_others_is_seen_until_the_next_term(bed: StoreBed) -> None:
    lease = bed.lead("a")
    view = bed.leases.peek(0)
    assert view is not None
    assert (view.zone_rules, view.standby_zone_rules) == (installed_rules().version, None)
    bed.leases.mark_standby(0, lease.term + 1, "1999a on nobody")
    bed.leases.mark_standby(0, lease.term, "2025b on b")
    view = bed.leases.peek(0)
    assert view is not None
    assert view.standby_zone_rules == "2025b on b"
    bed.leases.resign(lease)
    bed.lead("b")
    view = bed.leases.peek(0)
    assert view is not None
    assert view.standby_zone_rules is None


def test_a_standby_that_says_nothing_any_more_is_forgotten_and_the_ended_term_keeps_its_rules(
    sql_stores: StoreBed,
) -> None:
    assert sql_stores.database is not None
    lease = sql_stores.lead("a")
    sql_stores.leases.mark_standby(0, lease.term, "2025b on b")
    with sql_stores.database.write() as connection:
        connection.execute(update(leases).values(standby_seen_at=lease.now - 4 * MINUTE, zone_rules="2025b"))
    view = sql_stores.leases.peek(0)
    assert view is not None
    assert view.standby_zone_rules is None
    sql_stores.leases.resign(lease)
    sql_stores.lead("b")
    with sql_stores.database.read() as connection:
        kept = connection.execute(select(leaderships.c.term, leaderships.c.zone_rules)).all()
    assert [tuple(row) for row in kept] == [(1, "2025b")]


def test_a_leader_without_redis_and_a_standby_with_it_hear_of_each_other_through_the_lease(bed: StoreBed) -> None:
    lease = bed.lead()
    assert not bed.leases.peek(0).without_redis  # type: ignore[union-attr]
    assert bed.leases.tell_without_redis(lease) is False
    assert bed.leases.peek(0).without_redis  # type: ignore[union-attr]
    bed.leases.offer_relief(0, lease.term + 1)
    assert bed.leases.tell_without_redis(lease) is False  # that was said of another term
    bed.leases.offer_relief(0, lease.term)
    assert bed.leases.tell_without_redis(lease) is True
    bed.leases.resign(lease)
    following = bed.leases.acquire(0, "next", 5_000_000)
    assert following is not None
    assert not bed.leases.peek(0).without_redis  # type: ignore[union-attr]
    assert bed.leases.tell_without_redis(following) is False


def test_the_marks_of_a_leaders_redis_and_broker_stand_beside_its_lease_alone(bed: StoreBed) -> None:
    lease = bed.lead()
    assert bed.leases.peek(0).marks == Marks()  # type: ignore[union-attr]
    bed.leases.record_marks(lease, Marks("one", "two"))
    bed.leases.renew(lease, 5_000_000)
    assert bed.leases.peek(0).marks == Marks("one", "two")  # type: ignore[union-attr]
    bed.leases.resign(lease)
    following = bed.leases.acquire(0, "next", 5_000_000)
    assert following is not None
    assert bed.leases.peek(0).marks == Marks()  # type: ignore[union-attr]
    bed.leases.record_marks(lease, Marks("late", "late"))
    assert bed.leases.peek(0).marks == Marks()  # type: ignore[union-attr]
