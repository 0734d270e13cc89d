"""What pool children tell their main process, and what it says again when Redis has lost data."""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
import redis

from itinerary.protocol.attempt_logs import PackedLog, Tail, packed
from itinerary.protocol.keys import Keys
from itinerary.protocol.wire import AGAIN_FIELD
from itinerary.worker import listing, outbox
from itinerary.worker.claim import Verdict
from itinerary.worker.connection import RedisConnection
from itinerary.worker.heartbeat import Heartbeater
from itinerary.worker.held import HeldRequests
from itinerary.worker.pending import PendingSend
from itinerary.worker.pool_registry import KEPT_SECONDS, PoolRegistry
from itinerary.worker.reporting import ANY_TOKEN, Report, ReportBuilder, send
from scheduler_service.core.leader.messages import Heartbeat, Succeeded, decode
from tests.support.processes import wait_until
from tests.workers.test_parts import FakeConsumer

KEYS = Keys()

pytestmark = pytest.mark.slow  # real processes, or many round trips

AT = 1_800_000_000_000_000


def report(name: str, result: object = None) -> Report:
    return ReportBuilder(f"{name}~1", "celery@here", AT).succeeded(result)


@pytest.fixture
def clock() -> list[float]:
    return [100.0]


@pytest.fixture
def registry(clock: list[float]) -> Iterator[PoolRegistry]:
    with closing(PoolRegistry(lambda: clock[0])) as opened:
        yield opened


@pytest.fixture
def connection(redis_url: str) -> Iterator[RedisConnection]:
    opened = RedisConnection(redis_url)
    yield opened
    opened.client.close()


def refused(handed_over: bool) -> None:
    assert not handed_over


def in_a_child(action: Callable[[], object]) -> None:
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            action()
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(pid, 0)[1] == 0


def test_a_claim_that_a_child_won_is_known_to_the_main_process(registry: PoolRegistry) -> None:
    in_a_child(lambda: registry.claimed("a~1"))
    assert registry.is_claimed("a~1")
    assert not registry.is_claimed("b~1")


def test_where_children_cannot_speak_every_attempt_may_have_its_claim(registry: PoolRegistry) -> None:
    """A pool of spawned processes has no way to the main process's board."""
    assert registry.is_claimed("a~1")
    assert registry.all_claimed() == set()


def test_a_claim_is_known_in_a_pool_without_processes_too(registry: PoolRegistry) -> None:
    registry.claimed("a~1")
    assert registry.all_claimed() == {"a~1"}
    registry.over(["a~1", "b~1"])
    assert registry.all_claimed() == set()


def test_reports_are_kept_in_order_whatever_their_length(registry: PoolRegistry) -> None:
    long = report("long", {"text": os.urandom(20_000).hex()})

    def tell() -> None:
        registry.report_sent(report("first", 1), "token-1")
        registry.report_sent(long, "token-2")

    in_a_child(tell)
    registry.report_sent(report("last", 3), "token-3")
    assert [(kept.report.task_id, kept.token) for kept in registry.recent_reports()] == [
        ("first~1", "token-1"), ("long~1", "token-2"), ("last~1", "token-3"),
    ]  # fmt: skip
    assert registry.recent_reports()[1].report == long


def test_reports_are_kept_for_a_minute_in_which_redis_is_known_to_be_there(
    registry: PoolRegistry, clock: list[float]
) -> None:
    registry.report_sent(report("old"), "token")
    clock[0] += 50
    registry.report_sent(report("new"), "token")
    clock[0] += 20
    assert len(registry.recent_reports()) == 2, "while Redis is away nothing is forgotten"
    registry.forget_old()
    assert [kept.report.task_id for kept in registry.recent_reports()] == ["new~1"]


def test_what_is_kept_is_bounded(registry: PoolRegistry) -> None:
    for number in range(3_000):
        registry.report_sent(report(f"r{number}", "x" * 30_000), "token")
    kept = registry.recent_reports()
    assert kept[-1].report.task_id == "r2999~1"
    assert sum(len(str(one.report.body)) for one in kept) <= 32 * 1024 * 1024


def test_a_report_is_handed_over_with_its_log_while_the_main_process_takes_some(registry: PoolRegistry) -> None:
    taken: list[tuple[Report, str, PackedLog | None]] = []
    registry.on_report = lambda *one: taken.append(one)
    kept = packed(Tail("a line", 6))
    assert not registry.hand_over(report("early"), "token-0", None), "nobody takes it yet"
    registry.take_reports(True)

    def hand_over() -> None:
        assert registry.hand_over(report("first", 1), "token-1", kept)
        assert registry.hand_over(report("second"), "token-2", None)

    in_a_child(hand_over)
    assert registry.hand_over(report("third"), "token-3", kept), "a pool of threads"
    shown = [(one.task_id, one.body["result"], token, log) for one, token, log in taken]
    assert shown == [
        ("first~1", 1, "token-1", kept), ("second~1", None, "token-2", None), ("third~1", None, "token-3", kept),
    ]  # fmt: skip
    assert [one.token for one in registry.recent_reports()] == ["token-1", "token-2", "token-3"]
    registry.take_reports(False)
    in_a_child(lambda: refused(registry.hand_over(report("late"), "token-4", None)))


def test_a_main_process_that_is_frozen_is_handed_nothing(registry: PoolRegistry, clock: list[float]) -> None:
    registry.on_report = lambda *_: None
    registry.take_reports(True)
    clock[0] += 6
    in_a_child(lambda: refused(registry.hand_over(report("late"), "token", None)))
    registry.take_reports(True)
    assert registry.hand_over(report("later"), "token", None)


def test_a_report_that_no_datagram_holds_is_left_to_its_process(registry: PoolRegistry) -> None:
    registry.on_report = lambda *_: None
    registry.take_reports(True)
    huge = PackedLog(os.urandom(2_000_000).hex(), 1)
    in_a_child(lambda: refused(registry.hand_over(report("long"), "token", huge)))
    assert registry.recent_reports() == []


def test_a_child_that_waits_wakes_the_main_process(registry: PoolRegistry) -> None:
    woken = threading.Event()
    registry.on_waiting = woken.set
    registry.start_listening()
    in_a_child(registry.waiting)
    assert woken.wait(60)
    in_a_child(lambda: registry.claimed("a~1"))
    wait_until(lambda: registry.is_claimed("a~1"))


def entries(connection: RedisConnection) -> list[tuple[object, bool]]:
    """The inbox: each message, and whether it says that it was sent before."""
    found: Any = connection.client.xrange(KEYS.inbox)
    return [(decode(fields), AGAIN_FIELD in fields) for _, fields in found]


def heartbeats(connection: RedisConnection) -> list[Heartbeat]:
    return [message for message, _ in entries(connection) if isinstance(message, Heartbeat)]


@pytest.mark.redis
def test_in_lost_data_the_heart_says_what_was_reported_before_it_names_the_epoch(
    connection: RedisConnection, registry: PoolRegistry
) -> None:
    heartbeater = Heartbeater(connection, registry, "celery@here", FakeConsumer(), HeldRequests())
    heartbeater.start()
    wait_until(lambda: heartbeats(connection))
    for name in ("a", "b"):
        registry.report_sent(report(name, name), f"token-{name}")
        assert send(connection, report(name, name), f"token-{name}", claimed=True)
    before = heartbeats(connection)[-1].epoch
    connection.client.flushdb()
    heartbeater.beat_soon()
    wait_until(lambda: heartbeats(connection))
    heartbeater.stop()
    said = entries(connection)
    names = [message.run_id for message, again in said if isinstance(message, Succeeded) and again]
    assert names == ["a", "b"]
    first = next(n for n, (message, _) in enumerate(said) if isinstance(message, Heartbeat) and message.epoch)
    assert first >= 2
    assert heartbeats(connection)[0].epoch not in (None, before)


def holding_the_second(
    connection: RedisConnection, registry: PoolRegistry, monkeypatch: pytest.MonkeyPatch
) -> Heartbeater:
    """A heart that has written the report of `first`, and rests with that of `second` in hand."""
    monkeypatch.setattr(outbox, "_SHORTEST_REST", 60.0)
    heartbeater = Heartbeater(connection, registry, "celery@here", FakeConsumer(), HeldRequests())
    heartbeater.start()
    wait_until(lambda: registry.hand_over(report("first"), "token", None))
    wait_until(lambda: any(isinstance(one, Succeeded) for one, _ in entries(connection)))
    assert registry.hand_over(report("second"), "token", None)
    return heartbeater


@pytest.mark.redis
def test_a_heart_that_stops_while_its_writes_rest_sends_what_it_has(
    connection: RedisConnection, registry: PoolRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    heartbeater = holding_the_second(connection, registry, monkeypatch)
    heartbeater.stop()
    names = [one.run_id for one, _ in entries(connection) if isinstance(one, Succeeded)]
    assert names == ["first", "second"]
    assert heartbeats(connection)[-1].leaving


@pytest.mark.redis
def test_a_heart_whose_reports_redis_refuses_beats_on_and_lists_them(
    connection: RedisConnection, registry: PoolRegistry
) -> None:
    for name in ("odd", "dead"):
        connection.client.set(KEYS.result(f"{name}~1"), "no hash")
    heartbeater = Heartbeater(connection, registry, "celery@here", FakeConsumer(), HeldRequests())
    death = ReportBuilder("dead~1", "celery@here", AT).failed(RuntimeError("lost"), "worker_lost")
    heartbeater.enqueue(PendingSend("dead~1", lambda: send(connection, death, ANY_TOKEN, True)))
    heartbeater.start()
    wait_until(lambda: registry.hand_over(report("odd"), "token", None))
    wait_until(lambda: len([one for one in heartbeats(connection) if one.running == (("odd", 1),)]) > 1)
    for name in ("odd", "dead"):
        connection.client.delete(KEYS.result(f"{name}~1"))
    wait_until(lambda: {"odd", "dead"} <= {getattr(one, "run_id", "") for one, _ in entries(connection)})
    heartbeater.stop()


@pytest.mark.redis
def test_a_report_that_was_held_for_over_a_minute_is_kept_for_one_more(
    connection: RedisConnection, caplog: pytest.LogCaptureFixture
) -> None:
    now = [1000.0]
    with closing(PoolRegistry(lambda: now[0])) as registry:
        heartbeater = Heartbeater(connection, registry, "celery@here", FakeConsumer(), HeldRequests())
        heartbeater.start()
        wait_until(lambda: heartbeats(connection))
        connection.client.execute_command("REPLICAOF", "127.0.0.1", "1")  # which takes no write
        registry.report_sent(report("held"), "token")
        wait_until(lambda: "redis is away, no heartbeat" in caplog.text)
        now[0] += KEPT_SECONDS + 1
        connection.client.execute_command("REPLICAOF", "NO", "ONE")
        before = len(heartbeats(connection))
        wait_until(lambda: len(heartbeats(connection)) > before + 1)
        assert [one.report.task_id for one in registry.recent_reports()] == ["held~1"]
        heartbeater.stop()


@pytest.mark.redis
def test_a_childs_own_report_is_sent_before_that_of_its_death(
    connection: RedisConnection, registry: PoolRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    heartbeater = holding_the_second(connection, registry, monkeypatch)
    lost = ReportBuilder("second~1", "celery@here", AT).failed(RuntimeError("lost"), "worker_lost")
    heartbeater.enqueue(PendingSend("second~1", lambda: send(connection, lost, ANY_TOKEN, True)))
    heartbeater.stop()
    kinds = [(type(one), one.run_id) for one, _ in entries(connection) if not isinstance(one, Heartbeat)]
    assert kinds == [(Succeeded, "first"), (Succeeded, "second")]


@pytest.mark.redis
def test_a_report_that_a_dead_child_left_unread_goes_before_that_of_its_death(
    connection: RedisConnection, registry: PoolRegistry
) -> None:
    heartbeater = Heartbeater(connection, registry, "celery@here", FakeConsumer(), HeldRequests())
    heartbeater.start()
    wait_until(lambda: registry.hand_over(report("first"), "token", None))
    in_a_child(lambda: registry.hand_over(report("ended"), "token", None))
    death = ReportBuilder("ended~1", "celery@here", AT).failed(RuntimeError("terminated"))
    gone = os.spawnlp(os.P_NOWAIT, "true", "true")
    os.waitpid(gone, 0)
    heartbeater.enqueue(PendingSend("ended~1", lambda: send(connection, death, ANY_TOKEN, True), gone))
    wait_until(lambda: connection.client.get(KEYS.claim("ended~1")) == "done")
    heartbeater.stop()
    assert [type(one) for one, _ in entries(connection) if getattr(one, "run_id", "") == "ended"] == [Succeeded]


@pytest.mark.redis
def test_what_is_sent_again_and_is_no_news_is_not_said_twice(
    connection: RedisConnection, registry: PoolRegistry
) -> None:
    assert send(connection, report("a"), "token", claimed=True)
    assert not send(connection, report("a"), "token", claimed=True, again=True)
    assert len(entries(connection)) == 1


@pytest.mark.redis
def test_what_is_sent_again_leaves_no_result_beside_the_stream(connection: RedisConnection) -> None:
    assert send(connection, report("a"), "token", claimed=True, again=True)
    assert not connection.client.exists(KEYS.result("a~1"))


@pytest.mark.redis
def test_only_what_has_its_claim_is_listed_as_running(
    connection: RedisConnection, registry: PoolRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Request:
        def __init__(self, name: str) -> None:
            self.id = f"{name}~1"
            self.request_dict = {"id": self.id, "itinerary_run_id": name, "itinerary_attempt": 1}

    requests = {name: Request(name) for name in ("runs", "waits")}
    monkeypatch.setattr(listing.state, "requests", requests)
    registry.claimed("runs~1")
    registry.claimed("over~1")
    heartbeater = Heartbeater(connection, registry, "celery@here", FakeConsumer(), HeldRequests())
    heartbeater.start()
    wait_until(lambda: heartbeats(connection))
    (first, *_) = heartbeats(connection)
    assert (first.running, first.received) == ((("runs", 1),), (("waits", 1),))
    heartbeater.beat_soon()
    wait_until(lambda: not registry.is_claimed("over~1"))
    heartbeater.stop()


@pytest.mark.redis
def test_what_may_not_be_claimed_yet_is_done_after_a_later_heartbeat(
    connection: RedisConnection, registry: PoolRegistry
) -> None:
    verdicts = iter([Verdict.WAIT, Verdict.WAIT, Verdict.WON])
    answers: list[Verdict] = []
    heartbeater = Heartbeater(connection, registry, "celery@here", FakeConsumer(), HeldRequests())

    def action() -> Verdict:
        answers.append(next(verdicts))
        heartbeater.beat_soon()
        return answers[-1]

    heartbeater.enqueue(PendingSend("a~1", action))
    heartbeater.start()
    wait_until(lambda: answers[-1:] == [Verdict.WON])
    heartbeater.stop()
    assert len(answers) == 3


def test_the_heart_tries_again_soon_while_redis_is_away(
    registry: PoolRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = RedisConnection("redis://127.0.0.1:1/0")
    tries: list[str] = []

    def refuse(*_: object) -> None:
        tries.append("tried")
        raise redis.ConnectionError("away")

    monkeypatch.setattr(away, "run_script", refuse)
    heartbeater = Heartbeater(away, registry, "celery@here", FakeConsumer(), HeldRequests())
    heartbeater.start()
    wait_until(lambda: len(tries) >= 3)
    heartbeater.stop()
