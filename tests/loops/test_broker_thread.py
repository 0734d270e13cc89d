"""In which order the thread that asks Redis does it, and in how few round trips."""

import queue
from collections.abc import Sequence

import pytest

from itinerary.protocol.errors import BrokerUnavailable, LeaseLost
from itinerary.protocol.instants import SECOND
from scheduler_service.core.leader.commands import (
    BrokerCommand,
    ForgetAttempts,
    ForgetResults,
    InspectQueues,
    QueryEpoch,
    ReadResults,
    Reply,
    TakeClaims,
)
from scheduler_service.core.leader.results import ClaimsTaken, QueuesSeen, ResultsFound
from scheduler_service.core.model import Lease
from scheduler_service.loops import broker_thread
from scheduler_service.loops.broker_thread import BrokerThread, are_clean_up
from scheduler_service.loops.lease_renewer import LeaseRenewer
from scheduler_service.loops.mailbox import Mailbox
from scheduler_service.metrics.leader import PrometheusMeter
from tests.support.fake_store import FakeStore
from tests.support.fakes_redis import FakeClaims, FakeDispatcher, FakeInbox

FORGET = ForgetAttempts((("old", 1),))


def reply(to: str) -> Reply:
    return Reply(to, {})


class Asked(FakeClaims):
    """Notes in which order it is asked for what; `moved_by` a call moves the leader's clock."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.moved_by = 0
        self.calls: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.mailbox = Mailbox()
        self.inbox, self.dispatcher = FakeInbox(), FakeDispatcher()
        self.inbox.reply = lambda to, body: self._note(to)  # type: ignore[method-assign]
        renewer = LeaseRenewer(
            FakeStore(lambda: 1).leases, Lease(0, 1, "a", 1), 0, 5 * SECOND, lambda: None, clock=lambda: self.now
        )  # fmt: skip
        self.thread = BrokerThread(
            self.dispatcher, self, self.inbox, PrometheusMeter(), renewer, self.mailbox, print
        )  # fmt: skip

    def _note(self, what: str, task_ids: Sequence[str] = ()) -> None:
        self.now += self.moved_by
        self.calls.put(" ".join((what, *task_ids)))

    def forget(self, task_ids: Sequence[str]) -> None:
        self._note("forget", task_ids)

    def forget_results(self, task_ids: Sequence[str]) -> None:
        self._note("forget results", task_ids)

    def take(self, task_ids: Sequence[str]) -> list[bool] | None:
        self._note("take", task_ids)
        return super().take(task_ids)

    def results(self, task_ids: Sequence[str]) -> list[None]:
        self._note("read", task_ids)
        if self.away:
            raise BrokerUnavailable("away")
        return [None for _ in task_ids]

    def all_calls(self) -> list[str]:
        return [self.calls.get(timeout=60) for _ in range(self.calls.qsize())]


@pytest.fixture
def asked() -> Asked:
    return Asked()


def test_clean_up_comes_after_what_somebody_waits_for(asked: Asked) -> None:
    asked.thread.carry_out([reply("a"), FORGET, reply("b")])
    assert asked.all_calls() == ["a", "b", "forget old~1"]


def test_clean_up_waits_while_more_is_queued_and_is_not_forgotten(asked: Asked) -> None:
    asked.thread.thread.put(reply("b"))
    asked.thread.carry_out([FORGET, reply("a")])
    assert asked.all_calls() == ["a"]
    asked.thread.thread.start()
    assert [asked.calls.get(timeout=60) for _ in range(2)] == ["b", "forget old~1"]
    asked.thread.thread.stop(60)


def test_clean_up_is_done_in_time_however_much_else_is_queued(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    asked.thread.thread.put(reply("never empty"))
    asked.thread.carry_out([FORGET, reply("a")])
    assert asked.all_calls() == ["a"]
    monkeypatch.setattr(broker_thread, "_TIDY_WITHIN_SECONDS", 0)  # its time has come
    asked.thread.carry_out([reply("b")])
    assert asked.all_calls() == ["b", "forget old~1"]


def test_clean_up_may_rest_until_more_has_gathered_and_nothing_else_may() -> None:
    results = ForgetResults((("r", 1),))
    assert are_clean_up([FORGET, results])
    assert not are_clean_up([results, reply("a")])


def test_clean_up_that_has_gathered_is_one_round_trip_of_each_kind(asked: Asked) -> None:
    commands: list[BrokerCommand] = []
    for number in range(3):
        attempts = ((f"r{number}", 1),)
        commands += [ForgetResults(attempts), ForgetAttempts(attempts), InspectQueues(("a", f"q{number}"))]
    asked.thread.carry_out(commands)
    assert asked.all_calls() == ["forget results r0~1 r1~1 r2~1", "forget r0~1 r1~1 r2~1"]
    (seen,) = asked.mailbox.drain(0)
    assert isinstance(seen, QueuesSeen)
    assert sorted(seen.lengths) == ["a", "q0", "q1", "q2"]


def test_requests_of_one_kind_are_one_round_trip_and_a_failed_one_waits_for_the_next_query(asked: Asked) -> None:
    asked.accept(asked.query_epoch().name, 0)
    asked.away = True
    commands: list[BrokerCommand] = [ReadResults((("r1", 1),)), TakeClaims((("t1", 1),)), ReadResults((("r2", 2),))]
    asked.thread.carry_out(commands)
    assert asked.all_calls() == ["read r1~1 r2~2"]
    asked.away = False
    asked.thread.carry_out([FORGET])
    assert asked.all_calls() == ["forget old~1"]
    asked.thread.carry_out([TakeClaims((("t2", 1),)), QueryEpoch()])
    assert asked.all_calls() == ["take t1~1 t2~1", "read r1~1 r2~2"]
    answers = [one for one in asked.mailbox.drain(0) if isinstance(one, ClaimsTaken | ResultsFound)]
    assert [one.outcomes for one in answers] == [
        (("t1", 1, True), ("t2", 1, True)),
        (("r1", 1, None), ("r2", 2, None)),
    ]


def test_nothing_more_is_asked_or_cleaned_up_once_the_lease_is_not_trusted(asked: Asked) -> None:
    asked.moved_by = 4 * SECOND
    for commands in ([reply("a"), reply("b")], [FORGET, reply("c")], [TakeClaims((("t", 1),)), reply("d")]):
        asked.now = 0
        with pytest.raises(LeaseLost):
            asked.thread.carry_out(commands)
    assert asked.all_calls() == ["a", "c", "d"]
