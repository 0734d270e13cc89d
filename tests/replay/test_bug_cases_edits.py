"""Reported failures of edits, pauses, deletes and cancels, each replayed to its right outcome."""

import pytest

from itinerary.protocol.instants import DAY, HOUR, MINUTE, SECOND
from scheduler_service.core.contract.job_json import read_job
from scheduler_service.core.leader.results import UnplannedJobs
from scheduler_service.core.run_state import RunState
from tests.support.moments import at
from tests.support.replay import cron, starts_of, world_at
from tests.support.world import World


def test_of_three_waiting_runs_the_one_that_is_cancelled_never_starts() -> None:
    """B28, celery/celery#1007, celery/celery#4300."""
    world = world_at("2026-11-30T10:00:00Z")
    world.workers.listening = False
    world.workers.seconds = 10
    first, second, third = (world.enqueue() for _ in range(3))
    attempt = world.dispatcher.pop("default")
    assert attempt is not None
    world.workers.deliver(attempt)  # one slot: the others are reserved behind it
    world.reconcile()
    assert world.cancel(third).state is RunState.CANCELLED
    world.advance(10 * SECOND)
    world.workers.listening = True
    world.advance(MINUTE)
    assert [len(world.starts(run_id)) for run_id in (first, second, third)] == [1, 1, 0]
    assert world.run(third).state is RunState.CANCELLED


@pytest.mark.parametrize("told", [True, False], ids=["the leader is told", "the word is lost"])
def test_a_run_that_is_cancelled_while_no_worker_lives_never_runs(told: bool) -> None:
    """B29, celery/django-celery-results#423, readthedocs/common#109, celery/celery#1246."""
    world = world_at("2026-11-30T10:00:00Z")
    world.workers.listening = False
    later, now = world.enqueue(after=5 * MINUTE), world.enqueue()
    world.advance(MINUTE)
    for run_id in (later, now):
        world.store.runs.request_cancel(run_id)
        if told:
            world.tell("cancel_run", run_id=run_id)
    world.lead(wait=3 * MINUTE)
    world.workers.listening = True
    world.advance(10 * MINUTE)
    assert world.starts(later) == []
    assert world.run(later).state is RunState.CANCELLED
    # What was released already is taken back as soon as a leader hears of it, before any worker comes.
    assert (world.starts(now), world.run(now).state) == ([], RunState.CANCELLED)


def _edit_unseen(world: World, body: dict[str, object]) -> None:
    """The job is replaced and nobody tells the leader; its watcher looks two seconds later."""
    job, _ = read_job({"task": "demo.task", **body}, created_at=world.now)
    world.store.jobs.replace(job, None)
    world.advance(2 * SECOND)
    world.mailbox.put(UnplannedJobs(tuple(world.store.leader.unplanned_jobs(100))))
    world.reconcile()


@pytest.mark.parametrize("told", [True, False], ids=["by the API", "behind the leader's back"])
def test_a_shorter_interval_holds_from_the_edit_without_a_restart(told: bool) -> None:
    """B56, celery/celery#3683, celery/django-celery-beat#7, celery/django-celery-beat#694."""
    world = world_at("2026-11-30T10:00:30Z")
    world.every("sync", "1h")
    world.advance(5 * MINUTE)
    edited = world.now
    if told:
        world.every("sync", "60s")
    else:
        _edit_unseen(world, {"job_id": "sync", "schedule": {"kind": "interval", "every": "60s"}})
    world.advance(3 * MINUTE)
    starts = [at(text) for text in starts_of(world, "sync")]
    assert len(starts) == 3
    assert starts[0] - edited <= MINUTE
    world.pause("sync")
    world.advance(2 * MINUTE)
    world.resume("sync")
    world.delete("sync")
    world.advance(2 * MINUTE)
    assert len(starts_of(world, "sync")) == 3


def test_moving_today_s_run_to_a_later_hour_starts_nothing_now() -> None:
    """B57, celery/django-celery-beat#683, celery/celery#2531, celery/django-celery#264."""
    world = world_at("2026-11-30T12:00:00Z", MINUTE)
    world.job("report", cron("30 13 * * *"))
    world.advance(20 * MINUTE)
    world.job("report", cron("0 16 * * *"))
    world.advance(5 * HOUR)
    assert starts_of(world, "report") == ["2026-11-30T16:00:00Z"]


@pytest.mark.slow
def test_moving_today_s_run_to_an_hour_that_is_over_starts_nothing_now() -> None:
    """B57, celery/django-celery-beat#683, celery/celery#2531, celery/django-celery#264."""
    world = world_at("2026-11-30T12:00:00Z", MINUTE)
    world.job("report", cron("30 13 * * *"))
    world.advance(20 * MINUTE)
    world.job("report", cron("19 12 * * *"))
    world.advance(DAY)
    assert starts_of(world, "report") == ["2026-12-01T12:19:00Z"]


def test_the_slots_of_a_pause_are_neither_run_nor_missed() -> None:
    """B58, celery/django-celery-beat#537, celery/django-celery-beat#383."""
    world = world_at("2026-11-30T00:30:00Z", MINUTE)
    world.job("report", cron("0 * * * *"))
    world.advance(25 * MINUTE)
    world.pause("report")
    world.advance(HOUR)
    world.resume("report")
    world.advance(10 * MINUTE)
    assert starts_of(world, "report") == ["2026-11-30T02:00:00Z"]
    assert world.states("report") == ["completed"]
    assert not world.store.tables.missed_ranges


def test_after_a_delete_nothing_starts_and_what_waited_is_cancelled() -> None:
    """B59, sibson/redbeat#11, celery/django-celery-beat#706."""
    world = world_at("2026-11-30T10:00:01Z")
    world.every("poll", "10s", overlap="allow")
    world.workers.listening = False
    world.advance(25 * SECOND)
    world.delete("poll")
    world.workers.listening = True
    world.advance(MINUTE)
    world.lead(wait=MINUTE)
    world.advance(MINUTE)
    assert starts_of(world, "poll") == []
    assert world.states("poll") == ["cancelled", "cancelled"]
