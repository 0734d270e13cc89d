"""Reported failures of clocks that jump, drift or differ, each replayed to its right outcome."""

import re
from itertools import pairwise
from pathlib import Path
from typing import Final

import pytest

from itinerary.protocol.errors import LeaseLost
from itinerary.protocol.instants import DAY, HOUR, MILLISECOND, MINUTE, SECOND, format_instant
from scheduler_service.core.leader.commands import Dispatch
from scheduler_service.core.run_state import RunState
from tests.support.moments import at
from tests.support.replay import cron, starts_of, world_at
from tests.support.world import World

ROOT: Final = Path(__file__).parents[2]
YEARS: Final = 2 * 365 * DAY


@pytest.mark.slow
def test_a_clock_that_is_set_back_stops_no_rhythm_and_repeats_no_cron_run() -> None:
    """B32, celery/celery#3685, celery/celery#6742, celery/celery#4920, quartznet/quartznet#1440."""
    world = world_at("2026-11-30T10:59:50Z")
    world.every("rhythm", "20s")
    world.job("fixed", cron("*/5 * * * *"))
    world.advance(HOUR + 11 * SECOND)
    assert len(starts_of(world, "fixed")) == 13
    world.database_ahead = -HOUR
    world.advance(2 * MINUTE)
    starts = [at(text) for text in starts_of(world, "rhythm")]
    assert {later - earlier for earlier, later in pairwise(starts)} == {20 * SECOND}
    assert world.now - starts[-1] < 20 * SECOND
    world.lead()  # nor does a new leader, who goes by the clock as it is now
    world.advance(30 * MINUTE)
    assert len(starts_of(world, "fixed")) == 13
    runs = [run.scheduled_at for run in world.runs("fixed") if run.state is RunState.COMPLETED]
    assert len(runs) == len(set(runs))


def _jump_and_back(world: World) -> None:
    """The clock is two years ahead for a moment; its leader begins a new term by the true one."""
    world.database_ahead = YEARS
    world.reconcile()
    world.advance(2 * SECOND)
    world.database_ahead = 0
    with pytest.raises(LeaseLost):
        world.advance(SECOND)
    world.lead()


@pytest.mark.slow
def test_a_clock_that_jumps_two_years_ahead_and_back_costs_one_catch_up_and_stops_nothing() -> None:
    """B33, celery/celery#5892."""
    world = world_at("2026-11-30T10:00:30Z")
    world.job("often", cron("*/5 * * * *"))
    world.advance(5 * MINUTE)
    before = len(starts_of(world, "often"))
    _jump_and_back(world)
    assert len(starts_of(world, "often")) <= before + 1
    world.advance(20 * MINUTE)
    world.lead(wait=7 * MINUTE)
    world.advance(10 * MINUTE)
    real = [run.scheduled_at for run in world.runs("often") if run.scheduled_at < world.now + DAY]
    first = at("2026-11-30T10:05:00Z")
    assert [moment for moment in real if moment <= world.now] == list(range(first, world.now, 5 * MINUTE))
    assert all(
        world.starts(run.run_id)[0] - run.scheduled_at < 8 * MINUTE
        for run in world.runs("often")
        if run.scheduled_at <= world.now
    )


def test_an_outage_after_a_jump_is_caught_up_like_any_other() -> None:
    """B33, celery/celery#5892."""
    world = world_at("2026-11-30T10:00:30Z")
    world.job("hourly", cron("0 * * * *"))
    world.advance(SECOND)
    _jump_and_back(world)
    world.advance(10 * MINUTE)
    world.lead(wait=HOUR)
    world.advance(5 * SECOND)
    assert at("2026-11-30T11:00:00Z") in [run.scheduled_at for run in world.runs("hourly") if world.starts(run.run_id)]


@pytest.mark.slow
def test_a_cursor_from_the_future_is_put_aside_and_the_run_of_today_is_caught_up() -> None:
    """B34, Szotasz/marveen#781."""
    world = world_at("2026-11-30T03:59:30Z", MINUTE)
    world.job("morning", cron("0 5 * * *"))
    world.advance(MINUTE)
    world.database_ahead = HOUR  # it is four, the clock says five
    world.lead()
    world.advance(10 * SECOND)
    world.database_ahead = 0
    world.now = at("2026-11-30T05:10:00Z")
    world.lead()
    world.advance(DAY)
    days = [format_instant(run.scheduled_at) for run in world.runs("morning") if world.starts(run.run_id)]
    assert days == ["2026-11-30T05:00:00Z", "2026-12-01T05:00:00Z"]
    assert all(len(world.starts(run.run_id)) <= 1 for run in world.runs("morning"))


def test_three_nodes_with_unequal_clocks_run_each_slot_once() -> None:
    """B35, quartz-scheduler/quartz#548, kagkarlsson/db-scheduler#433."""
    world = world_at("2026-11-30T10:00:30Z")
    world.job("often", cron("* * * * *"))
    for _ in range(5):
        for holder in ("in time", "70 s ahead", "70 s behind"):
            assert world.store.leases.acquire(0, holder, MINUTE) is None  # one leads, by the database's clock
        former = world.renewer.lease
        world.advance(2 * MINUTE - 5 * SECOND)
        world.lead()
        with pytest.raises(LeaseLost):  # who led before can write nothing, whatever it takes the time to be
            world.store.leader.dispatch_runs(former, [Dispatch("any", 1, 1)], world.now + 70 * SECOND)
    starts = starts_of(world, "often")
    assert len(starts) == len(set(starts)) == 10
    assert world.states("often")[:10] == ["completed"] * 10


def test_no_rule_and_no_loop_reads_the_host_s_wall_clock() -> None:
    """B35, quartz-scheduler/quartz#548, kagkarlsson/db-scheduler#433."""
    reads = re.compile(r"\btime\.time\b|(?<!monotonic_ns)(?<!monotonic)\btime_ns\b|\.now\(UTC\)|datetime\.now|utcnow")
    for part in ("core", "loops"):
        for file in sorted((ROOT / "scheduler_service" / part).glob("*.py")):
            assert not reads.search(file.read_text()), file.name


@pytest.mark.slow
def test_a_late_run_moves_no_later_one() -> None:
    """B37, rq/rq-scheduler#57, agronholm/apscheduler#320, kelektiv/node-cron#279."""
    world = world_at("2026-11-30T09:00:00Z", 15 * MINUTE)
    world.job("daily", {"kind": "interval", "every": "1d", "anchor": "2026-11-30T10:00:00Z"})
    world.advance(30 * MINUTE)
    world.lead(wait=HOUR)
    world.advance(3 * DAY)
    assert starts_of(world, "daily") == [
        "2026-11-30T10:30:00Z", "2026-12-01T10:00:00Z", "2026-12-02T10:00:00Z", "2026-12-03T10:00:00Z",
    ]  # fmt: skip


@pytest.mark.slow
def test_a_thousand_runs_of_a_rhythm_add_up_no_error() -> None:
    """B37, rq/rq-scheduler#57, agronholm/apscheduler#320, kelektiv/node-cron#279."""
    world = world_at("2026-11-30T10:00:01Z", 5 * SECOND)
    world.every("poll", "5s")
    world.advance(5000 * SECOND)
    first = at("2026-11-30T10:00:05Z")
    assert [at(text) for text in starts_of(world, "poll")] == [first + n * 5 * SECOND for n in range(1000)]


@pytest.mark.slow
def test_another_zone_for_a_job_moves_its_next_run_and_starts_none() -> None:
    """B66, celery/celery#3219, celery/django-celery-beat#133."""
    world = world_at("2016-05-01T04:59:00Z", HOUR)
    world.job("monthly", cron("0 5 1 * *"))
    world.advance(HOUR)
    world.lead(wait=at("2016-05-17T10:00:00Z") - world.now)
    world.job("monthly", cron("0 5 1 * *", "Europe/Berlin"))
    world.advance(20 * DAY)
    assert starts_of(world, "monthly") == ["2016-05-01T05:00:00Z", "2016-06-01T03:00:00Z"]


def test_a_restart_in_summer_time_goes_on_within_a_period() -> None:
    """B67, celery/django-celery-beat#798, celery/django-celery-beat#577."""
    for zone, clock in (("Europe/London", "2024-08-28T12:00:00+01:00"), ("Asia/Shanghai", "2024-08-28T12:00:00+08:00")):
        world = world_at(clock)
        world.job("poll", {"kind": "interval", "every": "60s", "timezone": zone})
        world.advance(3 * MINUTE)
        world.lead()
        world.advance(3 * MINUTE)
        starts = [at(text) for text in starts_of(world, "poll")]
        assert max(later - earlier for earlier, later in pairwise(starts)) == MINUTE
        assert world.now - starts[-1] <= MINUTE
        assert all(run.run_id == f"poll_{format_instant(run.scheduled_at)}" for run in world.runs("poll"))


def test_no_run_is_early_after_a_restart_at_night() -> None:
    """B75, kubernetes/kubernetes#127678.

    It is the database that refuses a run before its time, at the move that every message needs: a worker's own clock
    would be one more that can be wrong.
    """
    world = world_at("2024-09-27T09:00:00+09:00", HOUR)
    world.job("daily", cron("0 9 * * *", "Asia/Seoul"))
    world.advance(HOUR)
    world.lead(wait=at("2024-09-28T03:00:00+09:00") - world.now)
    world.advance(5 * HOUR + 59 * MINUTE)
    assert len(world.workers.started) == 1
    coming = world.runs("daily")[-1]
    assert coming.scheduled_at == at("2024-09-28T09:00:00+09:00")
    moved = world.store.leader.dispatch_runs(world.renewer.lease, [Dispatch(coming.run_id, 1, 99)], world.now)
    assert (moved.dispatched, moved.refused) == ((), (coming.run_id,))
    world.advance(MINUTE)
    assert starts_of(world, "daily") == ["2024-09-27T00:00:00Z", "2024-09-28T00:00:00Z"]
    assert world.starts(coming.run_id)[0] - coming.scheduled_at <= MILLISECOND
