"""Reported failures in which a run, a worker, the broker or a report was lost, each replayed to its right outcome."""

import threading
from itertools import pairwise

import pytest

from itinerary.protocol.instants import HOUR, MINUTE, SECOND, format_instant
from itinerary.protocol.run_fields import RetryPolicy
from itinerary.protocol.wire import entry
from itinerary.worker.celery_app import create_app
from scheduler_service.broker.client import connect
from scheduler_service.broker.dispatcher import publishing_app
from scheduler_service.core.contract.fields import unread_retry
from scheduler_service.core.model import ActiveRun, RunKind
from scheduler_service.core.policies import backoff, next_attempt
from scheduler_service.core.run_state import RunState
from scheduler_service.loops.lease_renewer import LeaseRenewer
from tests.support.moments import at
from tests.support.replay import InDoubt, beating, cron, starts_of, world_at
from tests.support.world import attempt_of

ERROR = {"error": {"type": "ValueError", "message": "no", "traceback": None}}


def test_runs_that_wait_are_in_the_queue_for_any_worker_and_never_inside_a_busy_one() -> None:
    """B20, celery/celery#2541, celery/celery#2731."""
    world = world_at("2026-11-30T10:00:00Z")
    world.workers.listening = False  # A is busy, and reserves nothing:
    conf = create_app("redis://127.0.0.1:1/0").conf
    assert (conf.worker_disable_prefetch, conf.worker_prefetch_multiplier) == (True, 1)
    runs = [world.enqueue(after=MINUTE) for _ in range(10)]
    world.advance(MINUTE - SECOND)
    assert not world.dispatcher.published  # nothing is sent before its time, so nothing waits in a worker
    world.advance(2 * SECOND)
    world.workers.listening = True  # B joins
    world.advance(SECOND)
    assert all(world.starts(run_id)[0] - world.run(run_id).due_at <= 2 * SECOND for run_id in runs)


@pytest.mark.parametrize(("attempts", "state"), [(1, "failed"), (2, "completed")])
def test_a_run_whose_worker_is_killed_is_lost_and_retried_or_failed_by_its_policy(attempts: int, state: str) -> None:
    """B21, celery/celery#1628, celery/celery#7924."""
    world = world_at("2026-11-30T10:00:00Z")
    world.workers.seconds = 60
    world.job("sync", cron("5 * * * *"), retry={"max_attempts": attempts, "initial": "1s"})
    world.advance(5 * MINUTE + 10 * SECOND)
    world.workers.beat()
    world.workers.die()
    world.advance(45 * SECOND)
    world.workers.listening = True
    beating(world, 2 * MINUTE)
    run = world.run(world.runs("sync")[0].run_id)
    assert (run.state.value, run.attempt) == (state, attempts)
    ends = [run.reason, *(attempt.reason for attempt in run.attempts)]
    assert "lost" in ends
    assert len(world.starts(run.run_id)) == attempts


def test_what_a_killed_worker_had_reserved_is_sent_again() -> None:
    """B21, celery/celery#1628, celery/celery#7924."""
    world = world_at("2026-11-30T10:00:00Z")
    world.workers.listening = False
    run_id = world.enqueue()
    assert world.dispatcher.pop("default") == attempt_of(run_id)
    world.workers.listening = True
    world.advance(MINUTE)
    assert world.run(run_id).state is RunState.COMPLETED
    assert len(world.starts(run_id)) == 1


def test_a_task_that_kills_its_process_fails_after_its_attempts_and_disturbs_no_other_job() -> None:
    """B22, celery/celery#10462, celery/celery#3053."""
    world = world_at("2026-11-30T10:00:01Z")
    world.every("other", "10s")
    world.workers.behave = lambda attempt: None if "adhoc" in attempt else ("succeeded", {"result": 1})
    run_id = world.enqueue(retry=RetryPolicy(max_attempts=3, initial=SECOND))
    for _ in range(60):
        for attempt in [one for one in world.workers.running if one.startswith(run_id)]:
            del world.workers.running[attempt]
        beating(world, 5 * SECOND, 5 * SECOND)
    run = world.run(run_id)
    assert (run.state, run.reason, run.attempt) == (RunState.FAILED, "lost", 3)
    assert len(world.starts(run_id)) == 3
    assert set(world.states("other")[:-1]) == {"completed"}


def test_a_retry_policy_that_cannot_be_read_keeps_its_attempts_and_is_named_in_the_reason() -> None:
    world = world_at("2026-11-30T10:00:01Z")
    world.workers.behave = lambda attempt: ("failed", {"error": {"type": "E", "message": "m"}})
    run_id = world.enqueue(retry=unread_retry('{"max_attempts":2,"added_later":true}'))
    world.advance(MINUTE)
    run = world.run(run_id)
    assert (run.state, run.attempt) == (RunState.FAILED, 2)
    unread = 'its stored retry policy cannot be read: {"max_attempts":2,"added_later":true}'
    assert [run.reason, *(ended.reason for ended in run.attempts)] == [unread, unread]


def test_after_the_broker_restarted_runs_go_on_at_once() -> None:
    """B24, celery/celery#8030, celery/celery#8091, celery/celery#10205, celery/celery#9054."""
    world = world_at("2026-11-30T10:00:01Z")
    world.every("poll", "10s")
    world.advance(58 * SECOND)
    world.dispatcher.unanswered = 3  # down for three publishes; what was sent then never arrived
    world.advance(5 * MINUTE)
    runs = [run for run in world.runs("poll") if run.scheduled_at < world.now]
    assert [run.state for run in runs] == [RunState.COMPLETED] * 35
    assert all(world.starts(run.run_id)[0] - run.scheduled_at < 30 * SECOND for run in runs)


def test_a_broker_that_lost_everything_loses_no_run() -> None:
    """B25, celery/celery#1307, celery/kombu#533, sibson/redbeat#224."""
    world = world_at("2026-11-30T10:29:00Z", MINUTE)
    world.job("hourly", cron("0 * * * *"))
    later = world.enqueue(after=30 * MINUTE)
    world.workers.listening = False
    waiting = world.enqueue()
    world.advance(MINUTE)
    world.dispatcher.lose_everything()
    world.workers.listening = True
    world.advance(HOUR)
    assert starts_of(world, "hourly") == ["2026-11-30T11:00:00Z"]
    assert world.starts(later) == [at("2026-11-30T10:59:00Z")]
    assert len(world.starts(waiting)) == 1


def test_a_full_broker_stops_neither_the_loop_nor_marks_anything_as_sent() -> None:
    """B26, celery/celery#5716, celery/celery#2205, rhesis-ai/rhesis#1769."""
    world = world_at("2026-11-30T10:00:00Z", publish_window=50)
    world.workers.listening = False
    world.dispatcher.unanswered = 4
    for n in range(120):
        world.enqueue(after=n * SECOND)
    first = world.run("adhoc_0001")
    assert (first.state, first.published_at) == (RunState.PENDING, None)
    world.advance(3 * MINUTE)
    assert world.dispatcher.depth("default") <= 50
    assert "scheduler_oldest_due_seconds 1" in world.meter.exposition()  # a hundred seconds and more: alarmed
    world.workers.listening = True
    world.advance(MINUTE)
    assert len(world.workers.started) == 120
    assert {world.run(f"adhoc_{n:04}").state for n in range(1, 121)} == {RunState.COMPLETED}


def test_a_report_that_comes_late_because_its_way_was_closed_is_the_run_s_end_with_its_own_times() -> None:
    """B27, celery/celery#8588."""
    world = world_at("2026-11-30T10:00:00Z")
    world.workers.behave = lambda attempt: None
    run_id = world.enqueue()
    beating(world, 30 * SECOND)
    world.deaf = True
    world.advance(MINUTE)
    world.deaf = False
    started, ended = world.starts(run_id)[0], world.starts(run_id)[0] + MINUTE
    body = {"task_id": attempt_of(run_id), "worker": "w1", "started_at": format_instant(started), "result": 7}
    world.inbox.append(entry("succeeded", ended, body))
    world.reconcile()
    run = world.run(run_id)
    assert (run.state, run.result, run.attempt) == (RunState.COMPLETED, 7, 1)
    assert (run.started_at, run.finished_at) == (started, ended)


@pytest.mark.slow
def test_a_killed_run_blocks_its_job_only_until_it_is_known_to_be_lost() -> None:
    """B45, procrastinate-org/procrastinate#307, agronholm/apscheduler#474, jcass77/django-apscheduler#173,
    kagkarlsson/db-scheduler#565.
    """
    world = world_at("2026-11-30T10:04:50Z", lost_after=6 * MINUTE)
    world.workers.seconds = 1
    world.job("sync", cron("*/5 * * * *"), overlap="skip")
    world.workers.behave = lambda attempt: None
    world.advance(15 * SECOND)
    world.workers.die()
    world.workers.behave = lambda attempt: ("succeeded", {"result": 1})
    world.workers.listening = True
    world.advance(30 * MINUTE)
    states = world.states("sync")
    assert states[:2] == ["failed", "skipped"]
    assert set(states[2:7]) == {"completed"}
    lost, blocked = world.runs("sync")[:2]
    assert lost.reason == "lost"
    assert blocked.reason == f"overlap skip: {lost.run_id} is not final"


def test_a_worker_that_wakes_after_its_run_was_given_away_changes_nothing() -> None:
    """B55, kagkarlsson/db-scheduler#402, apache/airflow#7925."""
    world = world_at("2026-11-30T10:00:00Z")
    world.workers.behave = lambda attempt: None
    run_id = world.enqueue(retry=RetryPolicy(max_attempts=2, initial=SECOND))
    world.advance(10 * SECOND)
    world.workers.beat()
    world.workers.running.clear()  # frozen
    world.advance(35 * SECOND)
    beating(world, 25 * SECOND, 5 * SECOND)
    first, second = attempt_of(run_id), attempt_of(run_id, 2)
    assert list(world.workers.running) == [second]  # a peer has it
    beating(world, 20 * SECOND)
    world.tell("succeeded", task_id=first, worker="frozen", result="of the first attempt")
    world.workers.beat()
    world.reconcile()
    assert world.run(run_id).state is RunState.RUNNING
    world.tell("succeeded", task_id=second, worker="w1", result="of the second attempt")
    world.tell("succeeded", task_id=first, worker="frozen", result="of the first attempt")
    world.reconcile()
    run = world.run(run_id)
    assert (run.state, run.result, run.attempt) == (RunState.COMPLETED, "of the second attempt", 2)
    assert first in world.claims.flagged  # and it is told to stop


@pytest.mark.parametrize("lost", ["create_runs", "dispatch_runs", "apply"])
def test_a_commit_whose_answer_was_lost_is_neither_repeated_nor_forgotten(lost: str) -> None:
    """B68, celery/django-celery-beat#158, celery/django-celery-beat#159, celery/django-celery#363."""
    world = world_at("2026-11-30T10:00:01Z")
    world.every("poll", "10s")
    doubtful = InDoubt(world.store.leader, [lost])
    world.store.leader = doubtful  # type: ignore[assignment]
    world.lead()
    world.advance(2 * MINUTE)
    assert doubtful.lost == [lost]
    runs = [run for run in world.runs("poll") if run.scheduled_at < world.now]
    assert {run.state for run in runs} == {RunState.COMPLETED}
    assert [len(world.starts(run.run_id)) for run in runs] == [1] * len(runs)
    starts = [at(text) for text in starts_of(world, "poll")]
    assert max(later - earlier for earlier, later in pairwise(starts)) <= 15 * SECOND


def test_after_the_database_was_away_a_leader_takes_up_where_it_was() -> None:
    """B68, celery/django-celery-beat#158, celery/django-celery-beat#159, celery/django-celery#363."""
    world = world_at("2026-11-30T10:00:01Z")
    world.every("poll", "10s")
    world.advance(MINUTE)
    world.lead(wait=5 * SECOND)  # unconfirmed for five seconds is not leader; then it is elected anew
    world.advance(2 * MINUTE)
    runs = [run for run in world.runs("poll") if run.scheduled_at < world.now]
    assert [run.scheduled_at for run in runs] == [
        at("2026-11-30T10:00:10Z") + n * 10 * SECOND for n in range(len(runs))
    ]
    assert all(world.starts(run.run_id)[0] - run.scheduled_at < 15 * SECOND for run in runs)


def test_no_call_to_the_broker_waits_without_a_limit() -> None:
    """B69, sibson/redbeat#201, sibson/redbeat#263."""
    options = publishing_app("redis://127.0.0.1:1/0").conf.broker_transport_options
    assert 0 < options["socket_timeout"] <= 10
    assert 0 < options["socket_connect_timeout"] <= 10
    kwargs = connect("redis://127.0.0.1:1/0").connection_pool.connection_kwargs
    assert 0 < kwargs["socket_timeout"] <= 10


def test_a_leader_whose_loop_stands_still_gives_up_its_lease() -> None:
    """B69, sibson/redbeat#201, sibson/redbeat#263."""
    world = world_at("2026-11-30T10:00:00Z")
    gone = threading.Event()
    lease = world.renewer.lease
    renewer = LeaseRenewer(world.store.leases, lease, world.now, 50_000, gone.set, clock=lambda: world.now)
    renewer.loop_passed()
    renewer.start()
    assert renewer.trusted()
    world.now += 2 * MINUTE
    assert gone.wait(60)
    assert not renewer.trusted()
    renewer.stop(resign=True)
    assert world.store.leases.peek(0).live is False  # a standby takes over, and readiness says that nobody leads


def _failing(attempt: str) -> tuple[str, dict[str, object]]:
    return "failed", dict(ERROR)


@pytest.mark.slow
def test_forty_failures_in_a_row_are_pauses_of_the_longest_length_and_the_loop_lives() -> None:
    """B78, getredash/redash#3899."""
    world = world_at("2026-11-30T10:00:01Z", MINUTE)
    world.workers.behave = _failing
    run_id = world.enqueue(retry=RetryPolicy(max_attempts=41, initial=SECOND, factor=10, max=10 * MINUTE, jitter=False))
    world.every("other", "1h")
    world.advance(8 * HOUR)
    run = world.run(run_id)
    assert (run.state, run.attempt) == (RunState.FAILED, 41)
    starts = world.starts(run_id)
    pauses = [later - earlier for earlier, later in pairwise(starts)]
    assert max(pauses) < 11 * MINUTE
    assert len(starts_of(world, "other")) == 8


@pytest.mark.parametrize("attempt", [1, 31, 64, 1_000, 10**9])
@pytest.mark.parametrize("factor", [1.0, 2.0, 100.0])
def test_no_number_of_failures_makes_a_pause_longer_than_the_longest(attempt: int, factor: float) -> None:
    """B78, getredash/redash#3899."""
    retry = RetryPolicy(max_attempts=1000, initial=HOUR, factor=factor, max=24 * HOUR)
    assert 0 < backoff(retry, "run", attempt) <= 24 * HOUR
    run = ActiveRun("run", RunKind.ADHOC, None, None, "default", 5, 0, 0, RunState.RUNNING, attempt, retry)
    assert next_attempt(run, at("2026-11-30T10:00:00Z") + backoff(retry, "run", attempt)).due_at > 0
