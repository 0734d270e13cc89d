"""Reported failures after an outage or under load: too many, too few or never any catch-up."""

import itertools

import pytest

from itinerary.protocol.instants import DAY, HOUR, MINUTE, SECOND, Instant
from scheduler_service.core.run_state import RunState
from tests.support.moments import at
from tests.support.replay import cron, starts_of, world_at
from tests.support.world import World


@pytest.mark.slow
def test_after_eight_hours_each_of_two_hundred_minutely_jobs_has_one_catch_up() -> None:
    """B38, celery/django-celery-beat#459, akvo/akvo-rsr#5248, Koed00/django-q#110."""
    world = world_at("2026-11-30T00:00:30Z", publish_window=50)
    jobs = [f"job{n}" for n in range(200)]
    for job_id in jobs:
        world.job(job_id, cron("* * * * *"))
    world.workers.listening = False
    world.lead(wait=8 * HOUR)
    assert len(world.dispatcher.published) == 50  # spread: the rest waits where it can be cancelled
    world.workers.listening = True
    world.advance(10 * SECOND)
    assert sorted(run.job_id or "" for run in world.dispatcher.published) == sorted(jobs)
    assert {(missed_range.job_id, missed_range.count) for missed_range in world.store.tables.missed_ranges} == {
        (job_id, 479) for job_id in jobs
    }
    world.advance(MINUTE)
    assert len(world.workers.started) == 400


@pytest.mark.parametrize(("policy", "ran"), [("skip", 0), ("fire_once", 1), ("fire_all", 7)])
def test_each_job_has_its_own_policy_for_what_was_missed(policy: str, ran: int) -> None:
    """B38, celery/django-celery-beat#459, akvo/akvo-rsr#5248, Koed00/django-q#110."""
    world = world_at("2026-11-30T00:00:30Z")
    misfire = {"policy": policy, "max_catch_up": 7}
    world.job("often", cron("* * * * *"), misfire=misfire, overlap="allow")
    world.lead(wait=8 * HOUR + 15 * SECOND)
    world.advance(5 * SECOND)
    assert len(starts_of(world, "often")) == ran
    ((count, reason),) = [
        (missed_range.count, missed_range.reason) for missed_range in world.store.tables.missed_ranges
    ]
    assert count == 480 - ran
    assert policy in reason


def test_more_than_a_hundred_missed_slots_stop_nothing() -> None:
    """B39, kubernetes/kubernetes#42649, kubernetes/kubernetes#83642."""
    world = world_at("2026-11-30T00:00:30Z")
    world.job("often", cron("* * * * *"))
    world.lead(wait=101 * MINUTE)
    world.advance(5 * MINUTE)
    expected = ["2026-11-30T01:41:30Z", *(f"2026-11-30T01:{minute}:00Z" for minute in range(42, 47))]
    assert [text.replace(":35Z", ":30Z") for text in starts_of(world, "often")] == expected


def test_a_run_that_was_done_before_the_crash_is_not_done_again_by_the_next_leader() -> None:
    """B41, openclaw/openclaw#42640, celery/celery#2746, NousResearch/hermes-agent#68211."""
    world = world_at("2026-11-30T21:00:00Z", MINUTE)
    world.job("nightly", cron("0 22 * * *"))
    world.advance(HOUR + SECOND)
    world.lead(wait=30 * MINUTE)
    world.advance(HOUR)
    # Even where the cursor was never saved after 22:00: what is there is not made anew.
    world.store.tables.cursors[0] = (at("2026-11-30T21:59:00Z"), "0-0")
    world.lead(wait=MINUTE)
    world.advance(HOUR)
    assert starts_of(world, "nightly") == ["2026-11-30T22:00:00Z"]
    assert world.states("nightly") == ["completed"]


@pytest.mark.slow
def test_a_daily_rhythm_runs_each_day_though_the_leader_is_restarted_every_ten_minutes() -> None:
    """B42, riverqueue/river#791, PostHog/posthog#42607, sibson/redbeat#151."""
    world = world_at("2026-11-30T10:00:00Z", MINUTE)
    world.every("daily", "1d")
    for _ in range(3 * 24 * 6):
        world.lead(wait=9 * MINUTE + 55 * SECOND)
        world.advance(MINUTE - 55 * SECOND)
    runs = [run.scheduled_at for run in world.runs("daily") if run.state is RunState.COMPLETED]
    assert runs == [at(f"2026-12-0{day}T00:00:00Z") for day in (1, 2, 3)]
    assert len(world.workers.started) == 3


def test_a_slot_within_a_short_stop_runs_at_once_and_nothing_runs_just_before_the_next() -> None:
    """B43, celery/celery#4493."""
    world = world_at("2026-11-30T09:39:00Z")
    world.job("often", cron("*/10 * * * *"))
    world.advance(30 * SECOND)
    world.lead(wait=40 * SECOND)
    world.advance(11 * MINUTE)
    assert starts_of(world, "often") == ["2026-11-30T09:40:10Z", "2026-11-30T09:50:00Z"]


class DiesInside:
    """A store whose process dies within the named transaction: nothing of it is kept."""

    def __init__(self, store: object, name: str) -> None:
        self._store = store
        self._name = name

    def __getattr__(self, name: str) -> object:
        if name == self._name:
            raise SystemExit("killed")
        return getattr(self._store, name)


def test_a_slot_and_its_run_are_one_transaction_so_that_a_crash_between_them_blocks_nothing() -> None:
    """B44, procrastinate-org/procrastinate#1495."""
    world = world_at("2026-11-30T09:29:30Z")
    world.job("often", cron("*/30 * * * *"))
    kept = world.store.leader
    world.store.leader = DiesInside(kept, "create_runs")  # type: ignore[assignment]
    with pytest.raises(SystemExit):
        world.lead(wait=25 * SECOND)
    world.store.leader = kept
    assert world.runs("often") == []
    world.lead()
    world.advance(MINUTE)
    (started,) = starts_of(world, "often")
    assert "2026-11-30T09:30:00Z" <= started <= "2026-11-30T09:30:10Z"


def _by_ten_slots(world: World, seconds: int) -> None:
    """Ten worker slots, two seconds a run."""
    world.workers.listening = False
    for _ in range(seconds // 2):
        for attempt in itertools.islice(iter(lambda: world.dispatcher.pop("default"), None), 10):
            assert attempt is not None
            world.workers.deliver(attempt)
        world.advance(2 * SECOND)


def test_waiting_for_a_free_worker_is_not_being_late() -> None:
    """B73, quartz-scheduler/quartz#652, quartz-scheduler/quartz#602, quartz-scheduler/quartz#1450."""
    world = world_at("2026-11-30T07:59:50Z", publish_window=20)
    world.workers.seconds = 2
    for n in range(150):
        world.job(f"job{n}", cron("0 8 * * *"), misfire={"policy": "skip", "grace": "5s"})
    world.advance(10 * SECOND)
    _by_ten_slots(world, 60)
    runs = [run for n in range(150) for run in world.runs(f"job{n}")]
    assert [run.state for run in runs] == [RunState.COMPLETED] * 150
    assert all(run.started_at is not None and run.started_at < at("2026-11-30T08:01:00Z") for run in runs)
    assert not world.store.tables.missed_ranges


def _after_stall(length: int) -> World:
    world = world_at("2026-11-30T00:00:30Z")
    policy = {"policy": "fire_all", "grace": "10m", "max_catch_up": 100}
    world.job("often", cron("*/1 * * * *"), misfire=policy, overlap="queue_all")
    world.advance(MINUTE)
    world.lead(wait=length)
    world.advance(30 * SECOND)
    return world


def test_a_short_stall_loses_nothing() -> None:
    """B77, temporalio/temporal#4332."""
    world = _after_stall(90 * SECOND)
    assert [run.scheduled_at for run in world.runs("often") if run.state is RunState.COMPLETED] == [
        at(f"2026-11-30T00:0{minute}:00Z") for minute in (1, 2, 3)
    ]
    assert not world.store.tables.missed_ranges


def test_a_long_stall_is_bounded_by_the_policy_and_what_is_left_out_is_recorded() -> None:
    """B77, temporalio/temporal#4332."""
    world = _after_stall(3 * DAY)
    ran = [run for run in world.runs("often") if run.state is RunState.COMPLETED]
    (missed_range,) = world.store.tables.missed_ranges
    late = [run for run in ran if world.now - run.due_at > 11 * MINUTE]
    assert len(late) <= 101  # the newest hundred, and the one before the stall
    missed = sum(run.state is RunState.MISSED for run in world.runs("often"))
    assert len(ran) + missed + missed_range.count == 3 * 24 * 60 + 1
    assert "fire_all" in missed_range.reason


@pytest.mark.slow
@pytest.mark.parametrize(
    ("overlap", "one_by_one"),
    [("skip", True), ("queue", True), ("queue_all", True), ("cancel_running", True), ("allow", False)],
)
def test_fire_all_runs_each_missed_occurrence_in_order_under_every_overlap_rule(overlap: str, one_by_one: bool) -> None:
    """An outage of 8 hours, a cap of 7: the newest seven run, each after the one before, then what is due now."""
    world = minutely(overlap)
    world.lead(wait=8 * HOUR + 15 * SECOND)
    world.advance(90 * SECOND)
    started = starts_in_order(world)
    assert [minute for minute, _ in started][:8] == [*MISSED, "08:01"]
    pauses = [later - before for (_, before), (_, later) in itertools.pairwise(started[:7])]
    assert all(pause >= 2 * SECOND for pause in pauses) is one_by_one
    assert [
        (missed_range.count, missed_range.reason.split(":")[0]) for missed_range in world.store.tables.missed_ranges
    ] == [(473, "misfire fire_all")]


@pytest.mark.parametrize("overlap", ["skip", "queue", "queue_all", "cancel_running"])
def test_the_next_leader_goes_on_with_a_catch_up_where_the_last_one_died(overlap: str) -> None:
    world = minutely(overlap)
    world.lead(wait=8 * HOUR + 15 * SECOND)
    for _ in range(3):
        world.advance(3 * SECOND)
        world.lead()
    world.advance(90 * SECOND)
    assert [minute for minute, _ in starts_in_order(world)][:7] == MISSED
    assert {run.state for run in world.runs("often")[-9:-2]} == {RunState.COMPLETED}


@pytest.mark.slow
@pytest.mark.parametrize("overlap", ["skip", "queue", "queue_all", "cancel_running"])
def test_rows_that_were_made_before_the_outage_are_caught_up_on_like_those_that_were_not(overlap: str) -> None:
    world = world_at("2026-11-30T00:00:00.5Z")
    world.workers.seconds = 0.5
    world.every("often", "1s", misfire={"policy": "fire_all", "grace": "3s"}, overlap=overlap)
    world.advance(5 * SECOND)
    last = len(world.workers.started)
    world.hold_builder = True
    world.lead(wait=39 * SECOND)
    world.advance(2 * SECOND)  # the index takes its time, and newer ones fall due meanwhile
    world.release_builder()
    world.advance(60 * SECOND)
    started = [world.run(attempt.split("~")[0]).scheduled_at for _, attempt in world.workers.started[last:]]
    assert started == sorted(started)
    missed = [at(f"2026-11-30T00:00:{second:02}Z") for second in range(7, 44)]
    assert [instant for instant in started if missed[0] <= instant <= missed[-1]] == missed


def minutely(overlap: str) -> World:
    world = world_at("2026-11-30T00:00:30Z")
    world.workers.seconds = 2.0
    world.job("often", cron("* * * * *"), misfire={"policy": "fire_all", "max_catch_up": 7}, overlap=overlap)
    return world


def starts_in_order(world: World) -> list[tuple[str, Instant]]:
    """The minute of each run that was started, and when."""
    return [(attempt.split("~")[0][-9:-4], at) for at, attempt in world.workers.started]


MISSED = ["07:54", "07:55", "07:56", "07:57", "07:58", "07:59", "08:00"]
