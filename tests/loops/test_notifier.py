"""What is told, by whom and how often, over real databases and to a real receiver."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from itinerary.protocol.errors import StoreUnavailable
from itinerary.protocol.instants import HOUR, MINUTE, SECOND
from scheduler_service.config.notify import signing_key
from scheduler_service.core.leader.commands import Apply, Transition
from scheduler_service.core.model import Lease, NewRun
from scheduler_service.core.notifications.notices import Notice
from scheduler_service.core.notifications.topics import TOPICS, Topic
from scheduler_service.core.run_state import Event, RunState
from scheduler_service.loops import notifier
from scheduler_service.loops.delivery_worker import DeliveryWorker
from scheduler_service.loops.notifier import AbsenceMonitor, LeadersNotifier, Rules
from scheduler_service.metrics.notices import NoticeMetrics
from scheduler_service.notify import webhook
from scheduler_service.notify.webhook import Webhook
from scheduler_service.ports.notices import Backlog, Delivery, Target
from scheduler_service.sql.conditions import SqlConditions
from scheduler_service.sql.database import Database, host_now
from scheduler_service.sql.leader.store import SqlLeaderStore
from scheduler_service.sql.lease import SqlLeaseStore
from scheduler_service.sql.notice_tables import deliveries, notices
from scheduler_service.sql.outbox import SqlOutbox
from tests.support.processes import PATIENCE, wait_until
from tests.support.store_bed import a_job, occurrence, one_off, sql_bed
from tests.support.webhook_receiver import SECRET, WebhookReceiver, is_signed

RULES = Rules(TOPICS, late_after=MINUTE, long_after=HOUR, absent_after=0)


@dataclass
class Process:
    """The parts of one process that notifies."""

    database: Database
    outbox: Any
    delivery_worker: DeliveryWorker
    leases: SqlLeaseStore
    registry: CollectorRegistry

    def figure(self, series: str) -> float:
        return next(
            float(line.split()[1])
            for line in generate_latest(self.registry).decode().splitlines()
            if line.startswith(f"{series} ")
        )

    def tell(self, subject: str = "leader") -> None:
        """Something to be told."""
        self.outbox.hold(Topic.LEADER_ABSENT, [Notice(Topic.LEADER_ABSENT, subject, 1, 1, 1, {})], subject, subject)

    def due_now(self) -> None:
        """What waits for another try, or whose claim is not over, is due."""
        with self.database.write() as connection:
            waits = deliveries.update().where(deliveries.c.next_at.is_not(None))
            connection.execute(waits.values(next_at=self.outbox.now() - 1))

    def quiet_is_over(self) -> None:
        with self.database.write() as connection:
            connection.execute(notices.update().values(told_at=self.outbox.now() - 2 * HOUR))


@contextmanager
def process(url: str, *receivers: WebhookReceiver) -> Iterator[Process]:
    database, registry = Database(url, pool_size=2), CollectorRegistry()
    targets: list[Target] = [Webhook(one.url, signing_key(SECRET), private=True, clock=host_now) for one in receivers]
    numbers = count(1)
    name = id(database)
    outbox = SqlOutbox(database)
    delivery_worker = DeliveryWorker(outbox, targets, NoticeMetrics(registry), HOUR, lambda: f"{name}-{next(numbers)}")
    yield Process(database, outbox, delivery_worker, SqlLeaseStore(database), registry)
    database.close()


def test_a_receiver_that_fails_and_hangs_gets_the_same_message_until_it_takes_it(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with WebhookReceiver(500, "hang", 503, 200) as receiver, process(database_url, receiver) as mine:
        mine.tell()
        for number in range(1, 6):
            monkeypatch.setattr(webhook, "TIMEOUT", 0.3 if number == 2 else PATIENCE)
            mine.delivery_worker.round()
            mine.due_now()
            expected = min(number, 4)
            wait_until(lambda: len(receiver.posts) == expected, what="what hangs to be noted")  # noqa: B023
        assert [post.status for post in receiver.posts] == [500, 0, 503, 200]
        assert len({(post.message_id, post.raw) for post in receiver.posts}) == 1
        assert all(map(is_signed, receiver.posts))
        mine.delivery_worker.tidy()
        assert mine.figure('scheduler_notifications_total{outcome="failed"}') == 3
        assert mine.figure('scheduler_notifications_total{outcome="sent"}') == 1
        assert mine.figure("scheduler_notifications_waiting") == 0


def test_a_try_that_failed_is_not_repeated_before_its_time(sqlite_url: str) -> None:
    with WebhookReceiver(500) as receiver, process(sqlite_url, receiver) as mine:
        mine.tell()
        for _ in range(3):
            mine.delivery_worker.round()
        assert len(receiver.posts) == 1


def test_one_who_is_gone_keeps_nobody_else_waiting_and_is_given_up(sqlite_url: str) -> None:
    with WebhookReceiver(410) as gone, WebhookReceiver() as well, process(sqlite_url, gone, well) as mine:
        mine.tell()
        mine.delivery_worker.round()
        mine.delivery_worker.tidy()
        assert (len(gone.posts), len(well.posts)) == (1, 1)
        assert mine.figure("scheduler_notifications_dead") == 1
        last = mine.outbox.backlog().last_dead
        assert last.startswith("127.0.0.1#")
        assert "answered 410" in last
        mine.delivery_worker.round()
        assert len(gone.posts) == 1


class Broken(Target):
    """A target that raises what no target should."""

    name = "a"  # before any other

    def deliver(self, delivery: Delivery) -> str:
        return "\xe4".encode("ascii").decode()


def test_a_target_that_raises_anything_else_has_failed_and_keeps_nobody_waiting(sqlite_url: str) -> None:
    with WebhookReceiver() as receiver, process(sqlite_url, receiver) as mine:
        delivery_worker = replace(mine.delivery_worker, targets=[Broken(), *mine.delivery_worker.targets])
        mine.tell()
        delivery_worker.round()
        assert len(receiver.posts) == 1
        assert mine.outbox.backlog() == Backlog(1, 0, last_failed="a: UnicodeEncodeError")
        assert delivery_worker.outbox.claim(["a"], MINUTE) is None


def test_who_dies_between_sending_and_noting_it_sends_the_same_id_again(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        WebhookReceiver() as receiver,
        process(database_url, receiver) as mine,
        process(database_url, receiver) as next_,
    ):
        mine.tell()
        with monkeypatch.context() as patch:
            patch.setattr(SqlOutbox, "sent", lambda *_: (_ for _ in ()).throw(StoreUnavailable("we die here")))
            with pytest.raises(StoreUnavailable):
                mine.delivery_worker.round()
        next_.delivery_worker.round()
        assert len(receiver.posts) == 1
        next_.due_now()  # the claim is over
        next_.delivery_worker.round()
        assert len(receiver.posts) == 2
        assert len({post.message_id for post in receiver.posts}) == 1
        next_.due_now()
        next_.delivery_worker.round()
        assert len(receiver.posts) == 2


def test_nobody_leads_is_told_once_by_however_many_processes_see_it(database_url: str) -> None:
    with WebhookReceiver() as receiver, ExitStack() as stack:
        processes = [stack.enter_context(process(database_url, receiver)) for _ in range(2)]
        watchmen = [AbsenceMonitor(one.leases, one.delivery_worker, RULES) for one in processes]
        together = threading.Barrier(2)

        def watch(absence_monitor: AbsenceMonitor) -> None:
            together.wait(60)
            for _ in range(3):
                absence_monitor.round(None)

        threads = [threading.Thread(target=watch, args=(absence_monitor,)) for absence_monitor in watchmen]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert [post.body["text"] for post in receiver.posts] == ["nobody leads: nothing is started"]


def test_a_watchman_delivers_only_while_nobody_leads_and_tells_again_only_after_somebody_led(sqlite_url: str) -> None:
    with WebhookReceiver() as receiver, process(sqlite_url, receiver) as mine:
        absence_monitor = AbsenceMonitor(mine.leases, mine.delivery_worker, RULES)
        lease = mine.leases.acquire(0, "leader", MINUTE)
        assert lease is not None
        mine.tell("something else")
        absence_monitor.round(mine.leases.peek(0))
        assert receiver.posts == []
        mine.leases.resign(lease)
        for _ in range(2):
            absence_monitor.round(mine.leases.peek(0))
        (post,) = receiver.posts
        assert {item.get("term") for item in post.body["data"]["items"]} == {None, 1}
        assert mine.leases.acquire(0, "another", MINUTE) is not None
        absence_monitor.round(mine.leases.peek(0))
        mine.quiet_is_over()
        AbsenceMonitor(mine.leases, mine.delivery_worker, RULES).round(None)
        assert len(receiver.posts) == 2


def test_a_short_absence_is_not_told(sqlite_url: str) -> None:
    with WebhookReceiver() as receiver, process(sqlite_url, receiver) as mine:
        rules = Rules(TOPICS, MINUTE, HOUR, absent_after=HOUR)
        absence_monitor = AbsenceMonitor(mine.leases, mine.delivery_worker, rules)
        for _ in range(2):
            absence_monitor.round(None)
        assert receiver.posts == []


def test_a_leader_tells_of_late_and_overlong_runs_and_of_jobs_that_ended_and_another_says_nothing(
    sqlite_url: str,
) -> None:
    with WebhookReceiver() as receiver, process(sqlite_url, receiver) as mine, sql_bed(sqlite_url) as bed:
        lease: Lease = bed.lead("me")
        job = bed.planned_job(lease)
        bed.jobs.create(a_job("over", end_at="2026-01-01T00:00:00Z"))
        bed.jobs.create(a_job("goes.on"))
        bed.make(lease, occurrence(job, lease.now - 2 * MINUTE), one_off(lease.now - SECOND))
        (running,) = bed.dispatched(lease, one_off(lease.now - 2 * HOUR, timeout=SECOND))
        start = Transition(running.run_id, 1, Event.START, RunState.RUNNING, lease.now - HOUR)
        bed.leader.apply(lease, Apply((start,)))
        parts = (mine.leases, mine.delivery_worker, RULES, SqlConditions(mine.database))
        LeadersNotifier(*parts, "another").round(mine.leases.peek(0))
        assert receiver.posts == []
        leaders = LeadersNotifier(*parts, "me")
        for _ in range(2):
            leaders.round(mine.leases.peek(0))
        mine.due_now()
        mine.delivery_worker.meter.backlogged(Backlog(3, 2, "x: y"))
        LeadersNotifier(*parts, "another").round(mine.leases.peek(0))
        assert mine.figure("scheduler_notifications_dead") == 0
        told = {post.body["type"]: [item["job_id"] or item["task"] for item in post.body["data"]["items"]]
                for post in receiver.posts}  # fmt: skip
        assert len(receiver.posts) == len(told)
        assert told == {"run.late": ["job"], "run.overlong": ["pkg.task"], "job.no_next_run": ["over"]}


def test_a_flood_of_late_runs_of_one_job_hides_no_other_and_what_is_not_seen_yet_is_not_over(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notifier, "_RUNS_A_PAGE", 2)
    monkeypatch.setattr(notifier, "_PAGES_A_POLL", 2)
    with process(sqlite_url) as mine, sql_bed(sqlite_url) as bed:
        lease = bed.lead("me")

        def run(task: str, minutes: int, **more: Any) -> NewRun:
            return replace(one_off(lease.now - minutes * MINUTE, **more), task=task)

        flood = [run("flood", 60, priority=0) for _ in range(9)]
        bed.make(lease, *flood, run("waits", 2, queue="z"))
        bed.dispatched(lease, run("sent", 2))
        parts = (mine.leases, mine.delivery_worker, RULES, SqlConditions(mine.database))
        walk = LeadersNotifier(*parts, "me")._polls[Topic.RUN_LATE]

        def look() -> set[str]:
            walk(lease.now)
            held = notices.select().where(notices.c.holds, notices.c.topic == Topic.RUN_LATE.value)
            with mine.database.read() as connection:
                return {row.subject.removeprefix("task:") for row in connection.execute(held)}

        everybody = {"flood", "waits", "sent"}
        assert [look() for _ in range(4)] == [{"flood"}, {"flood"}, everybody - {"sent"}, everybody]
        assert [look() for _ in range(3)] == [everybody] * 3, "a walk that begins anew ends nothing"
        ends = [Transition(one.run_id, 1, Event.CANCEL, RunState.CANCELLED, lease.now) for one in flood]
        bed.leader.apply(lease, Apply(tuple(ends)))
        assert [look() for _ in range(5)][-1] == everybody - {"flood"}, "once the walk in hand and another are done"


def test_a_look_that_fails_keeps_neither_another_nor_a_delivery_waiting(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        sql_bed(sqlite_url) as bed,
        WebhookReceiver() as receiver,
        process(sqlite_url, receiver) as mine,
    ):
        assert mine.leases.acquire(0, "me", MINUTE) is not None
        bed.jobs.create(a_job("over", end_at="2026-01-01T00:00:00Z"))
        monkeypatch.setattr(SqlConditions, "waiting", lambda *_: 1 / 0)
        monkeypatch.setattr(SqlConditions, "running", lambda *_: 1 / 0)
        leaders = LeadersNotifier(mine.leases, mine.delivery_worker, RULES, SqlConditions(mine.database), "me")
        mine.tell()
        leaders.round(mine.leases.peek(0))
        assert [post.body["type"] for post in receiver.posts] == ["leader.absent"]
        leaders.round(mine.leases.peek(0))
        assert [post.body["type"] for post in receiver.posts] == ["leader.absent", "job.no_next_run"]


def test_a_round_that_fails_is_logged_and_the_next_one_comes(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notifier, "_AFTER_AN_ERROR", 0.01)
    monkeypatch.setattr(notifier, "_EVERY_SECONDS", 0.01)
    with WebhookReceiver() as receiver, process(sqlite_url, receiver) as mine:
        absence_monitor = AbsenceMonitor(mine.leases, mine.delivery_worker, RULES)
        broken = iter([RuntimeError("a bug"), StoreUnavailable("away")])
        peek = mine.leases.peek

        def failing(shard: int) -> Any:
            for error in broken:
                raise error
            return peek(shard)

        monkeypatch.setattr(mine.leases, "peek", failing)
        absence_monitor.start()
        wait_until(lambda: receiver.taken, what="a message after two failed rounds")
        absence_monitor.stop(60)


def test_what_was_committed_before_a_kill_is_told_by_the_next_process(database_url: str) -> None:
    with sql_bed(database_url) as bed:
        assert bed.database is not None
        lease = bed.lead()
        (run,) = bed.dispatched(lease, one_off(lease.now))
        failure = Transition(run.run_id, 1, Event.FAIL, RunState.FAILED, lease.now, reason="it failed")
        SqlLeaderStore(bed.database, TOPICS).apply(lease, Apply((failure,)))
    with WebhookReceiver() as receiver, process(database_url, receiver) as following:
        following.delivery_worker.round()
        (post,) = receiver.posts
        assert post.body["data"]["items"][0]["run_id"] == run.run_id
