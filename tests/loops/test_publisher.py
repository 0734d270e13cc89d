"""What the dispatcher thread publishes together, and what a broker that refuses or is away costs."""

import queue
import threading
from collections.abc import Sequence

import pytest

from itinerary.protocol.errors import LeaseLost
from itinerary.protocol.instants import SECOND
from scheduler_service.core.leader.commands import Publish
from scheduler_service.core.leader.results import Feedback, Published, PublishUncertain
from scheduler_service.core.model import DispatchedRun, Lease
from scheduler_service.loops import publisher
from scheduler_service.loops.lease_renewer import LeaseRenewer
from scheduler_service.loops.mailbox import Mailbox
from scheduler_service.loops.publisher import Publisher
from scheduler_service.metrics.leader import PrometheusMeter
from tests.support.fake_store import FakeStore
from tests.support.fakes_redis import FakeDispatcher


def publish(*run_ids: str, queue: str = "default") -> Publish:
    return Publish(
        tuple(DispatchedRun(one, 1, 1, 1, None, "pkg.task", [], {}, queue, 5, 0, 0, None) for one in run_ids)
    )


class Led(FakeDispatcher):
    """The broker of a leader that is trusted until its hand-moved clock passes four seconds."""

    def __init__(self) -> None:
        super().__init__()
        self.now, self.mailbox = 0, Mailbox()
        self.sent: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.answers = threading.Semaphore(0)
        self.blocks = False
        self.moved_by = self.pinged = 0
        renewer = LeaseRenewer(
            FakeStore(lambda: 1).leases, Lease(0, 1, "a", 1), 0, 5 * SECOND, lambda: None, clock=lambda: self.now
        )  # fmt: skip
        self.publisher = Publisher(self, PrometheusMeter(), renewer, self.mailbox, threading.Event(), print)

    def publish(self, runs: Sequence[DispatchedRun]) -> None:
        self.sent.put(" ".join(run.run_id for run in runs))
        if self.blocks:
            assert self.answers.acquire(timeout=60)
        self.now += self.moved_by
        super().publish(runs)

    def ping(self) -> None:
        self.pinged += 1
        self.now += self.moved_by
        self.away = self.away and self.now < 6 * SECOND  # a leader that waits for too long is seen at once
        super().ping()

    def next(self) -> str:
        return self.sent.get(timeout=60)

    def told(self) -> list[tuple[type[Feedback], str]]:
        """What the loop is told, and of which runs."""
        answers = [one for one in self.mailbox.drain(0) if isinstance(one, Published | PublishUncertain)]
        return [(type(one), " ".join(run.run_id for run in one.runs)) for one in answers]


@pytest.fixture
def led() -> Led:
    return Led()


def test_what_is_commanded_during_a_publish_goes_in_the_next_one_round_trip(led: Led) -> None:
    led.blocks = True
    led.publisher.thread.start()
    led.publisher.thread.put(publish("a"))
    assert led.next() == "a"
    for command in (publish("b", "c"), publish("d", queue="other"), publish("e")):
        led.publisher.thread.put(command)
    led.answers.release()
    assert led.next() == "b c d e"
    led.answers.release()
    led.publisher.thread.stop(60)
    assert led.told() == [(Published, "a"), (Published, "b c d e")]


def test_no_more_go_together_than_are_well_sent_at_once(led: Led, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publisher, "_TOGETHER", 3)
    led.publisher.carry_out([publish("a", "b"), publish("c"), publish("d"), publish("e", "f", "g", "h")])
    assert [led.next() for _ in range(3)] == ["a b c", "d", "e f g h"]


def test_a_queue_that_is_refused_takes_the_others_with_it_once(led: Led) -> None:
    led.refused = {"bad"}
    both = [publish("a"), publish("b", queue="bad"), publish("c", queue="fine")]
    led.publisher.carry_out(both)
    assert led.told() == [(PublishUncertain, "a b c")]
    led.publisher.carry_out(both)
    assert led.told() == [(Published, "a"), (PublishUncertain, "b"), (Published, "c")]
    led.publisher.carry_out([publish("d"), publish("e", queue="fine"), publish("f", queue="bad"), publish("g")])
    assert led.told() == [(Published, "d e"), (PublishUncertain, "f"), (Published, "g")]
    led.refused = set()
    for expected in ([(Published, "a"), (Published, "b"), (Published, "c")], [(Published, "a b c")]):
        led.publisher.carry_out(both)
        assert led.told() == expected


def test_nothing_more_is_published_once_the_lease_is_not_trusted(led: Led, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publisher, "_TOGETHER", 1)
    led.moved_by = 4 * SECOND
    with pytest.raises(LeaseLost):
        led.publisher.carry_out([publish("a"), publish("b")])
    assert led.told() == [(Published, "a")]
    assert led.next() == "a"
    assert led.sent.empty()


def test_a_broker_that_is_away_is_waited_for_only_while_the_lease_is_trusted(led: Led) -> None:
    led.away, led.moved_by = True, 2 * SECOND
    led.publisher.carry_out([publish("a")])
    assert led.told() == [(PublishUncertain, "a")]
    assert led.now == 4 * SECOND


def test_the_connection_is_open_before_the_first_publish_and_a_broker_that_is_away_ends_nothing() -> None:
    for away in (False, True):
        led = Led()
        led.away, led.blocks = away, True
        led.publisher.thread.put(publish("first"))
        led.publisher.thread.start()
        assert led.next() == "first"
        assert led.pinged == 1
        led.away = False
        led.answers.release()
        led.publisher.thread.stop(60)
