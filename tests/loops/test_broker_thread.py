"""What the dispatcher thread does first: no message waits for what only tidies up."""

import queue
import threading
from collections.abc import Sequence

import pytest

from itinerary.protocol.errors import BrokerUnavailable, LeaseLost
from itinerary.protocol.instants import SECOND
from scheduler_service.core.leader.commands import ForgetAttempts, Publish
from scheduler_service.core.leader.results import Published, PublishUncertain
from scheduler_service.core.model import DispatchedRun, Lease
from scheduler_service.loops import broker_thread
from scheduler_service.loops.broker_thread import BrokerThread
from scheduler_service.loops.lease_renewer import LeaseRenewer
from scheduler_service.loops.mailbox import Mailbox, monotonic
from scheduler_service.metrics.leader import PrometheusMeter
from tests.support.fake_store import FakeStore
from tests.support.fakes_redis import FakeClaims, FakeDispatcher, FakeInbox

FORGET = ForgetAttempts((("old", 1),))


def publish(run_id: str) -> Publish:
    return Publish((DispatchedRun(run_id, 1, 1, 1, None, "pkg.task", [], {}, "default", 5, 0, 0, None),))


class _Redis:
    """Notes in which order it is asked."""

    def __init__(self) -> None:
        self.asked: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.dispatcher, self.claims = FakeDispatcher(), FakeClaims()
        self.dispatcher.publish = self._publish  # type: ignore[method-assign]
        self.claims.forget = self._forget  # type: ignore[method-assign]

    def _publish(self, runs: Sequence[DispatchedRun]) -> None:
        self.asked.put(runs[0].run_id)

    def _forget(self, task_ids: Sequence[str]) -> None:
        self.asked.put("forget")

    def next(self) -> str:
        return self.asked.get(timeout=10)


@pytest.fixture
def redis() -> _Redis:
    return _Redis()


@pytest.fixture
def broker(redis: _Redis) -> BrokerThread:
    renewer = LeaseRenewer(FakeStore(lambda: 1).leases, Lease(0, 1, "a", 1), monotonic(), 60 * SECOND, lambda: None)
    return BrokerThread(
        redis.dispatcher, redis.claims, FakeInbox(), PrometheusMeter(), renewer, Mailbox(), threading.Event(), print
    )  # fmt: skip


def test_messages_go_out_before_what_was_to_be_tidied_up_first(broker: BrokerThread, redis: _Redis) -> None:
    broker.carry_out([publish("a"), FORGET, publish("b")])
    assert [redis.next() for _ in range(3)] == ["a", "b", "forget"]


def test_tidying_up_waits_while_more_is_queued_and_is_not_forgotten(broker: BrokerThread, redis: _Redis) -> None:
    broker.thread.put(publish("b"))
    broker.carry_out([FORGET, publish("a")])
    assert redis.next() == "a"
    assert redis.asked.empty()
    broker.thread.start()
    assert [redis.next(), redis.next()] == ["b", "forget"]
    broker.thread.stop(10)


class Led:
    """A dispatcher whose leader is trusted until its hand-moved clock passes four seconds."""

    def __init__(self, redis: _Redis) -> None:
        self.now, self.mailbox = 0, Mailbox()
        lease = Lease(0, 1, "a", 1)
        renewer = LeaseRenewer(
            FakeStore(lambda: 1).leases, lease, 0, 5 * SECOND, lambda: None, clock=lambda: self.now
        )  # fmt: skip
        self.thread = BrokerThread(
            redis.dispatcher, redis.claims, FakeInbox(), PrometheusMeter(), renewer, self.mailbox, threading.Event(),
            print,
        )  # fmt: skip


def test_nothing_more_is_published_or_tidied_up_once_the_lease_is_not_trusted(redis: _Redis) -> None:
    led = Led(redis)

    def lapses_meanwhile(runs: Sequence[DispatchedRun]) -> None:
        redis._publish(runs)
        led.now = 4 * SECOND

    redis.dispatcher.publish = lapses_meanwhile  # type: ignore[method-assign]
    with pytest.raises(LeaseLost):
        led.thread.carry_out([publish("a"), publish("b")])
    led.now = 0
    with pytest.raises(LeaseLost):
        led.thread.carry_out([FORGET, publish("c")])
    assert [redis.next(), redis.next()] == ["a", "c"]
    assert redis.asked.empty()
    assert [len(read.runs) for read in led.mailbox.drain(0) if isinstance(read, Published)] == [1, 1]


def test_a_broker_that_is_away_is_waited_for_only_while_the_lease_is_trusted(redis: _Redis) -> None:
    led = Led(redis)

    def away(*_: object) -> None:
        led.now += SECOND
        raise BrokerUnavailable("away")

    redis.dispatcher.publish = redis.dispatcher.ping = away  # type: ignore[method-assign,assignment]
    led.thread.carry_out([publish("a")])
    (uncertain,) = led.mailbox.drain(0)
    assert isinstance(uncertain, PublishUncertain)
    assert led.now == 4 * SECOND


def test_tidying_up_is_done_in_time_however_much_else_is_queued(
    broker: BrokerThread, redis: _Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.thread.put(publish("never empty"))
    broker.carry_out([FORGET, publish("a")])
    assert redis.next() == "a"
    monkeypatch.setattr(broker_thread, "_TIDY_WITHIN_SECONDS", 0)  # its time has come
    broker.carry_out([publish("b")])
    assert [redis.next(), redis.next()] == ["b", "forget"]
