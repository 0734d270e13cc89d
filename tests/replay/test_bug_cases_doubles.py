"""Reported failures in which one planned instant ran twice, each replayed to its right outcome."""

import pytest

from itinerary.protocol.identity import occurrence_run_id
from itinerary.protocol.instants import HOUR, MILLISECOND, MINUTE, SECOND
from tests.support.moments import at
from tests.support.replay import beating, cron, starts_of, world_at
from tests.support.world import attempt_of


@pytest.mark.slow
def test_a_run_of_four_hours_that_is_delivered_again_each_hour_is_started_once() -> None:
    """B18, celery/celery#5935, pretix/pretix#2058."""
    world = world_at("2026-11-30T20:59:50Z", MINUTE)
    world.workers.seconds = 4 * 3600
    world.job("mailing", cron("0 21 * * *"))
    world.advance(10 * SECOND)
    attempt = attempt_of(world.runs("mailing")[0].run_id)
    for _ in range(4):
        beating(world, HOUR)
        world.workers.deliver(attempt)
    world.advance(SECOND)
    assert starts_of(world, "mailing") == ["2026-11-30T21:00:00Z"]
    assert world.states("mailing") == ["completed"]


def test_a_one_off_that_ran_runs_never_again_however_soon_the_next_leader_comes() -> None:
    """B63, celery/django-celery-beat#828."""
    world = world_at("2026-11-30T11:59:50Z")
    world.job("once", {"kind": "once", "at": "2026-11-30T12:00:00Z"})
    run_id = world.enqueue(after=10 * SECOND)
    world.advance(11 * SECOND)
    world.lead(wait=4 * SECOND)
    world.advance(MINUTE)
    world.lead(wait=HOUR)
    world.advance(MINUTE)
    assert starts_of(world, "once") == ["2026-11-30T12:00:00Z"]
    assert world.starts(run_id) == [at("2026-11-30T12:00:00Z")]


def test_a_one_off_whose_leader_is_killed_before_it_knows_the_outcome_runs_once() -> None:
    """B63, celery/django-celery-beat#828."""
    world = world_at("2026-11-30T11:59:59Z")
    world.job("once", {"kind": "once", "at": "2026-11-30T12:00:00Z"})
    world.workers.listening = False
    world.advance(SECOND)
    world.lead()
    world.workers.listening = True
    world.advance(MINUTE)
    assert len(starts_of(world, "once")) == 1


def test_two_one_offs_of_the_same_instant_both_run() -> None:
    """B64, celery/django-celery-beat#283."""
    world = world_at("2026-11-30T11:59:50Z")
    for job_id in ("one", "other"):
        world.job(job_id, {"kind": "once", "at": "2026-11-30T12:00:00Z"})
    runs = [world.enqueue(after=10 * SECOND) for _ in range(2)]
    world.advance(MINUTE)
    noon = "2026-11-30T12:00:00Z"
    assert [starts_of(world, job_id) for job_id in ("one", "other")] == [[noon], [noon]]
    assert [world.starts(run_id) for run_id in runs] == [[at(noon)], [at(noon)]]


def test_a_very_fast_job_runs_once_though_the_loop_looks_many_times_in_its_minute() -> None:
    """B71, rq/rq-scheduler#317, celery/celery#4107, celery/celery#973."""
    world = world_at("2026-11-30T01:59:50Z")
    world.workers.seconds = 0.01
    world.job("fast", cron("0 2 * * *"))
    for _ in range(80):
        world.advance(SECOND)
        for _ in range(3):
            world.reconcile()
    assert starts_of(world, "fast") == ["2026-11-30T02:00:00Z"]


def test_a_job_that_is_registered_at_every_start_is_one_job() -> None:
    """B72, rq/rq-scheduler#231, rq/rq-scheduler#51."""
    world = world_at("2026-11-30T10:30:00Z", MINUTE)
    for _ in range(22):
        job = world.job("report", cron("0 * * * *"))
        world.lead(wait=SECOND)
    assert job.version == 1
    world.advance(3 * HOUR)
    assert starts_of(world, "report") == [f"2026-11-30T{hour}:00:00Z" for hour in (11, 12, 13)]


def test_a_leader_that_dies_between_publish_and_its_record_leads_to_a_second_message_and_one_start() -> None:
    """B74, kubernetes/kubernetes#62772, riverqueue/river#283, dkron-io/dkron#541."""
    world = world_at("2026-11-30T20:29:59Z")
    world.job("evening", cron("30 20 * * *"))
    world.workers.listening = False
    world.advance(SECOND)
    world.lead()
    world.advance(2 * MINUTE)
    world.workers.listening = True
    world.advance(MINUTE)
    run_id = occurrence_run_id("evening", at("2026-11-30T20:30:00Z"))
    messages = [(run.run_id, run.attempt) for run in world.dispatcher.published]
    assert len(messages) > 1
    assert set(messages) == {(run_id, 1)}
    assert len(starts_of(world, "evening")) == 1


def test_a_leader_that_woke_a_moment_early_starts_nothing_and_then_once() -> None:
    """B36, kelektiv/node-cron#243, kelektiv/node-cron#180, node-cron/node-cron#116, NineCollective/node-crontab#7."""
    world = world_at("2026-11-30T08:44:50Z")
    world.job("stops", cron("45 8,13 * * *"))
    world.now = at("2026-11-30T08:44:59Z") + 996 * MILLISECOND
    world.reconcile()
    assert not world.workers.started
    for _ in range(6):
        world.now += MILLISECOND
        world.reconcile()
    world.advance(MINUTE)
    assert starts_of(world, "stops") == ["2026-11-30T08:45:00Z"]
