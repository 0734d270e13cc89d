"""Reported failures of leaders, their locks and their definitions, each replayed to its right outcome."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from itinerary.protocol.errors import BadValue, BadValues, LeaseLost
from itinerary.protocol.instants import HOUR, MINUTE, SECOND, Instant
from scheduler_service.config.settings import load_settings
from scheduler_service.core.contract.job_json import read_job
from scheduler_service.core.leader.poll_state import ReadDue
from scheduler_service.core.leader.state import CoreSettings
from scheduler_service.core.run_state import RunState
from scheduler_service.loops.election import Leader
from scheduler_service.loops.lease_renewer import renewed_every
from scheduler_service.loops.mailbox import monotonic
from scheduler_service.loops.scheduler_loop import Adapters
from scheduler_service.metrics.leader import PrometheusMeter
from tests.support.fake_rows import LeaseRow
from tests.support.fake_store import FakeStore
from tests.support.fakes_redis import FakeClaims, FakeDispatcher, FakeInbox, FakeMarks
from tests.support.moments import at
from tests.support.processes import wait_until
from tests.support.replay import cron, starts_of, world_at

START: Instant = at("2026-11-30T10:00:00Z")


@contextmanager
def candidate(store: FakeStore, holder: str, ttl: int) -> Iterator[Leader]:
    """A process that stands by and leads when it may."""
    outside = Adapters(store.leader, FakeInbox(), FakeClaims(), FakeDispatcher(), PrometheusMeter(), store.zone_rules)
    leader = Leader(CoreSettings(), store.leases, outside, FakeMarks(), holder=holder, ttl=ttl, inbox_buffer=10)
    thread = threading.Thread(target=leader.run)
    thread.start()
    try:
        yield leader
    finally:
        leader.stop()
        thread.join(60)


def _holder(store: FakeStore) -> str:
    view = store.leases.peek(0)
    return "" if view is None or not view.live else view.holder


@pytest.mark.slow
def test_a_leader_whose_host_slept_goes_back_into_the_election_by_itself() -> None:
    """B49, sibson/redbeat#218, sibson/redbeat#230."""
    shift = [0]
    store = FakeStore(lambda: START + monotonic() + shift[0])
    with candidate(store, "the one that slept", SECOND):
        wait_until(lambda: _holder(store) == "the one that slept", what="it leads")
        other = None
        while other is None:  # 60 s of sleep: the lease lapsed and somebody else took it
            shift[0] += 60 * SECOND
            other = store.leases.acquire(0, "another", HOUR)
        assert _holder(store) == "another"
        shift[0] += 2 * HOUR
        wait_until(lambda: _holder(store) == "the one that slept", what="it leads again")
        view = store.leases.peek(0)
        assert view is not None
        # A process that gets no core for a second loses a lease of a second, and may lead again by a later term.
        led = {one.term: one.holder for one in store.tables.ended_terms} | {view.term: view.holder}
        assert led[other.term + 1] == "the one that slept"


def test_what_fell_due_while_the_host_slept_is_taken_up_within_a_tick_of_the_new_term() -> None:
    """B49, sibson/redbeat#218, sibson/redbeat#230."""
    world = world_at("2026-11-30T10:00:01Z")
    world.every("poll", "5s")
    world.advance(20 * SECOND)
    world.now += MINUTE
    assert not world.renewer.trusted()
    with pytest.raises(LeaseLost):  # nothing is done by a lease that is not confirmed
        world.carry_out([ReadDue(world.now, 1)])
    world.lead()
    woken = world.now
    world.advance(10 * SECOND)
    after = [at(text) for text in starts_of(world, "poll") if at(text) >= woken]
    assert after[0] - woken <= SECOND
    assert len(after) == 3


@pytest.mark.parametrize("ttl", ["0", "0s", "-1s", "200ms", "25m"])
def test_a_lease_that_cannot_serve_is_refused_at_start_by_name(ttl: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """B50, mozilla/telemetry-analysis-service#417, sibson/redbeat#50."""
    monkeypatch.setenv("ITINERARY_LEASE_TTL", ttl)
    with pytest.raises(BadValues) as refused:
        load_settings()
    (error,) = refused.value.errors
    assert isinstance(error, BadValue)
    assert error.field == "ITINERARY_LEASE_TTL"
    assert "give" in error.allowed


def test_a_renamed_setting_is_refused_and_not_read_as_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """B50, mozilla/telemetry-analysis-service#417, sibson/redbeat#50."""
    monkeypatch.setenv("ITINERARY_LOCK_TTL", "25s")
    with pytest.raises(BadValues, match="no such setting"):
        load_settings()


def test_the_lease_is_renewed_several_times_in_its_life() -> None:
    """B50, mozilla/telemetry-analysis-service#417, sibson/redbeat#50."""
    ttl = load_settings().lease_ttl
    assert 3 * renewed_every(ttl) < ttl


@pytest.mark.slow
def test_a_lease_that_a_dead_leader_left_for_25_minutes_is_taken_after_it_stood_still_for_a_ttl() -> None:
    """B51, jalantechnologies/flask-react-template#656."""
    store = FakeStore(lambda: START + monotonic())
    now = store.tables.clock()
    store.tables.leases[0] = LeaseRow(7, "dead", now, now + 25 * MINUTE, SECOND)
    with candidate(store, "new", SECOND):
        wait_until(lambda: _holder(store) == "new", what="the new one leads")
    view = store.leases.peek(0)
    assert view is not None
    assert view.term == 8


def test_after_a_leader_was_killed_the_next_one_leads_within_its_ttl_and_missed_slots_follow_the_policy() -> None:
    """B51, jalantechnologies/flask-react-template#656."""
    world = world_at("2026-11-30T10:00:30Z")
    world.job("often", cron("* * * * *"))
    world.advance(28 * SECOND)
    killed = world.now
    world.lead()
    assert world.now - killed <= 30 * SECOND
    world.advance(2 * MINUTE)
    assert world.states("often")[:2] == ["completed", "completed"]
    (first, second) = starts_of(world, "often")[:2]
    assert at(first) - at("2026-11-30T10:01:00Z") <= 5 * SECOND
    assert second == "2026-11-30T10:02:00Z"


def test_jobs_of_every_service_run_whoever_leads() -> None:
    """B53, riverqueue/river#342, riverqueue/river#658."""
    world = world_at("2026-11-30T09:30:00Z", MINUTE)
    world.job("of-b", cron("0 * * * *"))
    job, _ = read_job({"job_id": "of-a", "task": "a.task", "schedule": cron("0 * * * *")}, created_at=world.now)
    world.store.jobs.create(job)  # by service A, which leads nothing and tells nobody
    world.lead(wait=MINUTE)
    world.advance(3 * HOUR)
    hours = [f"2026-11-30T{hour}:00:00Z" for hour in (10, 11, 12)]
    assert (starts_of(world, "of-a"), starts_of(world, "of-b")) == (hours, hours)


@pytest.mark.slow
def test_the_leader_s_memory_of_what_is_over_does_not_grow_with_time() -> None:
    """B83, mher/flower#134, mher/flower#770, mher/flower#1305."""
    world = world_at("2026-11-30T10:00:01Z", 5 * SECOND)
    world.every("poll", "1s")
    sizes = []
    for _ in range(10):
        world.advance(MINUTE)
        sizes.append(sum(1 for _ in world.state.runs))
    assert max(sizes[1:]) <= sizes[0] + 5
    assert sum(run.state is RunState.COMPLETED for run in world.runs("poll")) == 600
