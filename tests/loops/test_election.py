"""The leader's threads over a real database and a real Redis: election, clean stop, a broker that goes away."""

import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import insert, make_url, text
from structlog.testing import capture_logs

from itinerary.protocol.identity import adhoc_run_id
from itinerary.protocol.instants import HOUR, SECOND
from scheduler_service.broker.claims import RedisClaims
from scheduler_service.core.contract.job_json import read_job
from scheduler_service.core.contract.run_json import run_body
from scheduler_service.core.leader.state import CoreSettings
from scheduler_service.core.model import NewRun, RunKind
from scheduler_service.core.run_state import RunState
from scheduler_service.core.schedules.zone_rules import installed_rules
from scheduler_service.ports.stores import RunFilter
from scheduler_service.sql.tables import runs
from scheduler_service.sql.zone_rules import SqlZoneRulesStore
from tests.support.fault_bed import answered
from tests.support.leading import LeaderThread
from tests.support.processes import wait_until
from tests.support.proxy import FaultProxy
from tests.support.redis_server import RedisServer
from tests.support.store_bed import one_off

pytestmark = [pytest.mark.redis, pytest.mark.slow]


def leads(contender: LeaderThread) -> bool:
    return "scheduler_is_leader 1.0" in contender.meter.exposition()


def enqueue(contender: LeaderThread, name: str) -> str:
    new = [NewRun(adhoc_run_id(name), RunKind.ADHOC, "demo.task", 0, 0)]
    ((run, _),) = answered(lambda: contender.runs.enqueue(new))
    contender.inbox.send("run_enqueued", 0, {"run_ids": [run.run_id]})
    return run.run_id


def state_of(contender: LeaderThread, run_id: str) -> Callable[[], RunState]:
    return lambda: contender.runs.get(run_id).state


def test_a_run_that_is_enqueued_is_out_in_a_moment(database_url: str, redis_url: str) -> None:
    with LeaderThread(database_url, redis_url) as one:
        wait_until(lambda: leads(one), what="a leader")
        run_id = enqueue(one, "first")
        wait_until(lambda: one.runs.get(run_id).published_at, what="the run to be published and marked")
        assert one.runs.get(run_id).state is RunState.PENDING


def test_planned_occurrences_are_released_at_their_time(database_url: str, redis_url: str) -> None:
    settings = CoreSettings(due_poll_interval=HOUR)  # nothing else makes it look
    with LeaderThread(database_url, redis_url, settings=settings) as one:
        wait_until(lambda: leads(one), what="a leader")
        body = {"job_id": "a", "task": "demo.task", "schedule": {"kind": "interval", "every": "1s"}, "overlap": "allow"}
        one.jobs.create(read_job(body, created_at=time.time_ns() // 1000)[0])

        def pending() -> list[object]:
            return one.runs.list(RunFilter(job_id="a", states=(RunState.PENDING,)), 100, None).items

        wait_until(lambda: len(pending()) >= 3, what="three occurrences to be released, though nobody told the leader")
        for run in one.runs.list(RunFilter(job_id="a", states=(RunState.PENDING,)), 100, None).items:
            assert run.pending_at is not None
            assert run.pending_at >= run.due_at


def test_only_one_of_two_leads_and_a_clean_stop_hands_over_without_waiting_for_the_ttl(
    database_url: str, redis_url: str
) -> None:
    with LeaderThread(database_url, redis_url, holder="one") as one:
        wait_until(lambda: leads(one), what="the first to lead")
        with LeaderThread(database_url, redis_url, holder="two") as two:
            run_id = enqueue(one, "before")
            wait_until(lambda: state_of(one, run_id)() is RunState.PENDING, what="the run to go out")
            assert not leads(two)
            one.stop()
            # Its ttl is not awaited: the lease was resigned.
            wait_until(lambda: leads(two), what="the second to lead")
            again = enqueue(two, "after")
            wait_until(lambda: state_of(two, again)() is RunState.PENDING, what="the next run to go out")


def test_a_leader_whose_lease_was_taken_steps_down(database_url: str, redis_url: str) -> None:
    with LeaderThread(database_url, redis_url, holder="one") as one:
        wait_until(lambda: leads(one), what="a leader")
        with one.database.write() as connection:
            connection.execute(text("UPDATE leases SET term = term + 7, holder = 'thief'"))
        wait_until(lambda: not leads(one), what="it to step down")


def test_a_broker_that_is_away_leaves_runs_pending_and_publishing_resumes_by_itself(
    sqlite_url: str, redis_server: RedisServer
) -> None:
    with LeaderThread(sqlite_url, redis_server.url) as one:
        wait_until(lambda: leads(one), what="a leader")
        redis_server.kill()
        ((run, _),) = one.runs.enqueue([NewRun(adhoc_run_id("away"), RunKind.ADHOC, "demo.task", 0, 0)])
        wait_until(lambda: state_of(one, run.run_id)() is RunState.PENDING, what="the poll to find and move it")
        assert leads(one)
        assert one.runs.get(run.run_id).published_at is None
        redis_server.start()
        wait_until(lambda: one.runs.get(run.run_id).published_at, what="publishing to resume")


def test_a_row_that_no_program_of_ours_would_write_ends_by_itself_and_no_leader_by_it(
    database_url: str, redis_url: str
) -> None:
    wrong: list[dict[str, Any]] = [
        {"args": 7}, {"kwargs": [1]}, {"kwargs": "x"}, {"run_id": "x" * 400}, {"timeout": -5}, {"headers": [1]},
        {"headers": {"id": "of another"}},
        {"queue": "itinerary:inbox"}, {"queue": "_kombu.binding.celery.pidbox"}, {"job_id": "nowhere"},
    ]  # fmt: skip
    odd: list[dict[str, Any]] = [{"retry": "nonsense"}, {"retry": '{"tries": 3}'}, {"overlap": "never"}]
    plain = {"kind": "adhoc", "task": "shop.ship", "args": [], "kwargs": {}, "queue": "default", "priority": 5}
    with LeaderThread(database_url, redis_url) as one:
        wait_until(lambda: leads(one), what="a leader")
        at = dict.fromkeys(("scheduled_at", "due_at", "created_at"), one.now())
        rows = [{"run_id": f"adhoc_{n}", **plain, **at, **more} for n, more in enumerate([*wrong, *odd])]
        with one.database.write() as connection:
            for row in rows:
                connection.execute(insert(runs).values(row))
        for row in rows[: len(wrong)]:
            wait_until(lambda r=row: state_of(one, r["run_id"])() is RunState.FAILED, what=f"{row} to fail")
            assert run_body(one.runs.get(row["run_id"]))["reason"] == "malformed"
        for row in rows[len(wrong) :]:
            wait_until(lambda r=row: one.runs.get(r["run_id"]).published_at, what=f"{row} to go out")
        assert leads(one)


def test_a_clean_stop_leaves_nothing_half_done(database_url: str, redis_url: str) -> None:
    with LeaderThread(database_url, redis_url) as one:
        wait_until(lambda: leads(one), what="a leader")
        ids = [enqueue(one, f"n{number}") for number in range(50)]
        one.stop()
        with LeaderThread(database_url, redis_url, holder="two") as two:
            wait_until(lambda: all(two.runs.get(i).published_at for i in ids), what="all to be published")


def test_a_standby_with_other_zone_rules_is_logged_measured_and_named(database_url: str, redis_url: str) -> None:
    with LeaderThread(database_url, redis_url, holder="one") as one, capture_logs() as logs:
        wait_until(lambda: leads(one), what="the first to lead")
        wait_until(SqlZoneRulesStore(one.database).adopted, what="its rules to be adopted")
        assert f'scheduler_zone_rules_info{{source="{installed_rules().source}"' in one.meter.exposition()
        with one.database.write() as connection:
            connection.execute(text("UPDATE leases SET zone_rules = '2019c'"))
            connection.execute(text("UPDATE zone_rules SET version = '2019c', digest = 'of long ago'"))
        with LeaderThread(database_url, redis_url, holder="two") as two:
            wait_until(lambda: "scheduler_zone_rules_differ 1.0" in two.meter.exposition(), what="the standby to warn")
            named = f"{installed_rules().version} on two"
            wait_until(lambda: standby_rules(one) == named, what="the standby to be named")
            assert "scheduler_zone_rules_differ 0.0" in one.meter.exposition()
            one.stop()
            wait_until(lambda: leads(two), what="the second to lead")
            assert "scheduler_zone_rules_differ 0.0" in two.meter.exposition()
            assert standby_rules(two) is None
    warned = [entry["event"] for entry in logs if entry["log_level"] == "warning" and "zone rules" in entry["event"]]
    assert [text.split()[:3] for text in warned] == [["zone", "rules", "of"], ["zone", "rules", "changed"]]


def standby_rules(contender: LeaderThread) -> str | None:
    view = contender.leases.peek(0)
    return None if view is None else view.standby_zone_rules


def test_a_run_that_no_worker_begins_in_time_is_withdrawn_from_its_queue_and_missed(
    database_url: str, redis_url: str
) -> None:
    with LeaderThread(database_url, redis_url) as one:
        wait_until(lambda: leads(one), what="a leader")
        first = enqueue(one, "before it, so that all is at work")
        wait_until(lambda: one.runs.get(first).published_at, what="a run to be published")
        ((run, _),) = one.runs.enqueue([replace(one_off(0), start_within=5 * SECOND)])
        one.inbox.send("run_enqueued", 0, {"run_ids": [run.run_id]})
        wait_until(lambda: one.runs.get(run.run_id).published_at, what="the run to be published")
        wait_until(lambda: state_of(one, run.run_id)() is RunState.MISSED, what="its deadline")
        ended = one.runs.get(run.run_id)
        assert ended.reason is not None
        assert ended.reason.endswith("it was sent to queue default and no worker started it")
        assert ended.started_at is None
        assert ended.finished_at is not None
        assert run.start_by is not None
        assert run.start_by <= ended.finished_at
        with closing(RedisClaims(redis_url)) as claims:
            assert claims.take([f"{run.run_id}~1"]) == [True], "the leader's own claim is there, and no worker's"


def _without_redis(contender: LeaderThread) -> bool:
    return "scheduler_without_redis 1.0" in contender.meter.exposition()


def test_a_leader_cut_off_from_redis_keeps_the_lease_until_a_standby_reaches_it(
    database_url: str, redis_url: str
) -> None:
    target = make_url(redis_url)
    with FaultProxy(target.port or 6379) as proxy, FaultProxy(target.port or 6379) as other:
        via, beside = (redis_url.replace(f":{target.port}", f":{one.port}", 1) for one in (proxy, other))
        with LeaderThread(database_url, via, ttl=2 * SECOND) as one:
            wait_until(lambda: leads(one), what="the first to lead")
            other.become("refuse")
            with LeaderThread(database_url, beside, holder="two", ttl=2 * SECOND) as two:
                proxy.become("refuse")
                told = lambda: (view := one.leases.peek(0)) is not None and view.without_redis  # noqa: E731
                wait_until(told, what="the leader to say that it has no Redis")
                wait_until(lambda: _without_redis(one), what="its metric to say so")
                assert (leads(one), leads(two)) == (True, False)  # the standby would do no better
                before = one.leases.peek(0)
                assert before is not None
                other.become("none")
                wait_until(lambda: leads(two), what="the standby that reaches Redis to take over")
                wait_until(lambda: not leads(one), what="the first to find that its term is over")
                wait_until(lambda: not _without_redis(one), what="the first to be no leader any more")
                assert not two.leases.peek(0).without_redis  # type: ignore[union-attr]
                run_id = enqueue(two, "dispatched")
                wait_until(lambda: state_of(two, run_id)() is RunState.PENDING, what="the new leader to dispatch")
                assert two.leases.peek(0).term == before.term + 1  # type: ignore[union-attr]
