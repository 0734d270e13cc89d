"""Pings are stored with their run's event, sent in its order, and never more than one of each job and event waits."""

from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import event, insert, text, update

from itinerary.protocol.instants import HOUR, MINUTE, SECOND
from scheduler_service.core.leader.commands import Apply, Transition
from scheduler_service.core.model import NewRun
from scheduler_service.core.pings import Ping, PingState
from scheduler_service.core.run_state import Event, RunState
from scheduler_service.ports.pings import WaitingPing
from scheduler_service.sql.notice_tables import pings
from scheduler_service.sql.pings import SqlPingStore
from tests.contract.test_store_plans import assert_never_scans, plan_of
from tests.support.store_bed import StoreBed, one_off


@pytest.fixture
def bed(sql_stores: StoreBed) -> StoreBed:
    return sql_stores


@pytest.fixture
def store(bed: StoreBed) -> SqlPingStore:
    return SqlPingStore(bed.by_role["leader"])


def ping(state: PingState, job_id: str = "job") -> Ping:
    return Ping(job_id, state, f"https://ping.example.org/{job_id}/{state}")


def began(run: NewRun, at: int, job_id: str = "job") -> Transition:
    of_start = (ping(PingState.START, job_id),)
    return Transition(run.run_id, 1, Event.START, RunState.RUNNING, at, worker="w@h", pings=of_start)


def ended(run: NewRun, at: int, *of_run: PingState) -> Transition:
    return Transition(run.run_id, 1, Event.SUCCEED, RunState.COMPLETED, at, pings=tuple(map(ping, of_run)))


def claimed(store: SqlPingStore) -> list[WaitingPing]:
    return store.claim(10, MINUTE)


def states(waiting: list[WaitingPing]) -> list[str]:
    return [one.ping.state.value for one in waiting]


def due(bed: StoreBed) -> None:
    assert bed.database is not None
    with bed.database.write() as connection:
        connection.execute(update(pings).values(next_at=0))


def test_they_are_committed_with_what_happened_and_claimed_in_its_order(bed: StoreBed, store: SqlPingStore) -> None:
    lease = bed.lead()
    (run,) = bed.dispatched(lease, one_off(lease.now))
    bed.leader.apply(lease, Apply((ended(run, lease.now, PingState.START, PingState.SUCCESS),)))
    found = claimed(store)
    assert states(found) == ["start", "success"]
    assert found[0].ping.url == "https://ping.example.org/job/start"
    assert claimed(store) == []
    for one in found:
        store.sent(one)
    due(bed)
    assert claimed(store) == []


def test_an_event_that_was_refused_pings_nobody(bed: StoreBed, store: SqlPingStore) -> None:
    lease = bed.lead()
    (run,) = bed.dispatched(lease, one_off(lease.now))
    wrong = began(run, lease.now)._replace(attempt=2)
    assert bed.leader.apply(lease, Apply((wrong,))) == (run.run_id,)
    assert claimed(store) == []


def test_who_dies_before_the_commit_has_stored_neither_and_after_it_both(bed: StoreBed, store: SqlPingStore) -> None:
    lease = bed.lead()
    (run,) = bed.dispatched(lease, one_off(lease.now))
    engine = bed.by_role["leader"].engine

    def die(connection: Any) -> None:
        raise KeyboardInterrupt

    event.listen(engine, "commit", die)
    with pytest.raises(KeyboardInterrupt):
        bed.leader.apply(lease, Apply((began(run, lease.now),)))
    event.remove(engine, "commit", die)
    assert claimed(store) == []
    bed.leader.apply(lease, Apply((began(run, lease.now),)))
    # Claimed, and then the process died: it is due again when the claim ends.
    assert states(claimed(store)) == ["start"]
    due(bed)
    again = claimed(store)
    assert (states(again), again[0].attempts) == (["start"], 2)


def test_a_later_ping_takes_the_place_of_one_that_waits_and_survives_the_end_of_the_older(
    bed: StoreBed, store: SqlPingStore
) -> None:
    lease = bed.lead()
    first, second = bed.dispatched(lease, one_off(lease.now), one_off(lease.now))
    bed.leader.apply(lease, Apply((began(first, lease.now),)))
    (old,) = claimed(store)
    bed.leader.apply(lease, Apply((began(second, lease.now),)))
    store.sent(old)
    (new,) = claimed(store)
    assert (new.ping, new.attempts) == (old.ping, 1)
    assert new.created_at > old.created_at


def test_a_start_that_failed_does_not_arrive_after_the_end(bed: StoreBed, store: SqlPingStore) -> None:
    lease = bed.lead()
    (run,) = bed.dispatched(lease, one_off(lease.now))
    bed.leader.apply(lease, Apply((began(run, lease.now), began(run, lease.now, "other")._replace(run_id="gone"))))
    (start,) = claimed(store)
    assert store.failed(start)
    bed.leader.apply(lease, Apply((ended(run, lease.now, PingState.SUCCESS),)))
    due(bed)
    assert states(claimed(store)) == ["success"]


def test_one_that_nobody_sent_for_an_hour_is_not_sent(bed: StoreBed, store: SqlPingStore) -> None:
    lease = bed.lead()
    (run,) = bed.dispatched(lease, one_off(lease.now))
    bed.leader.apply(lease, Apply((ended(run, lease.now, PingState.START, PingState.SUCCESS),)))
    with bed.by_role["leader"].write() as connection:
        old = pings.c.state == PingState.START.value
        connection.execute(update(pings).where(old).values(made_at=lease.now - HOUR - SECOND))
    assert states(claimed(store)) == ["success"]
    due(bed)
    assert states(claimed(store)) == ["success"], "the old one is gone"


def test_a_claim_reads_none_that_wait_for_another_try(own_stores: StoreBed) -> None:
    database = own_stores.database
    assert database is not None
    store = SqlPingStore(own_stores.by_role["leader"])
    with database.write() as connection:
        now = database.read_clock(connection)
        row = {"state": "failure", "url": "https://ping.example.org/", "made_at": now - MINUTE, "attempts": 3}
        waiting = [{**row, "job_id": f"job{n}", "next_at": now + MINUTE} for n in range(5_000)]
        connection.execute(insert(pings), waiting)
        ahead = {"job_id": "ahead", "next_at": now + 2 * HOUR}
        connection.execute(insert(pings), [ahead | row, row | {"job_id": "due", "next_at": now - 1}])
    with database.write() as connection:
        connection.execute(text("ANALYZE"))
    found: list[WaitingPing] = []
    plan = plan_of(own_stores, lambda: found.extend(claimed(store)), "pings.")
    assert sorted(one.ping.job_id for one in found) == ["ahead", "due"]
    assert "ix_pings_next_at" in plan
    assert_never_scans(plan, "pings")
    assert "SCAN pings" not in plan, "an index read from its start reads all that wait"


def test_a_failure_is_tried_again_for_an_hour_and_then_forgotten(bed: StoreBed, store: SqlPingStore) -> None:
    lease = bed.lead()
    (run,) = bed.dispatched(lease, one_off(lease.now))
    bed.leader.apply(lease, Apply((began(run, lease.now),)))
    (one,) = claimed(store)
    assert store.failed(one)
    assert claimed(store) == []
    due(bed)
    (again,) = claimed(store)
    late = replace(again, created_at=again.created_at - HOUR - SECOND)
    assert not store.failed(late)
    due(bed)
    assert states(claimed(store)) == ["start"], "the other one is another ping"
