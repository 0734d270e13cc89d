"""The leader's trust in its lease, and its clock: the database's, however this host's runs beside it."""

import queue
import threading
from typing import Self

import pytest

from itinerary.protocol.errors import LeaseLost, StoreUnavailable
from itinerary.protocol.instants import HOUR, MILLISECOND, SECOND, Duration, Instant
from scheduler_service.core.model import Lease
from scheduler_service.loops.lease_renewer import LeaseRenewer
from tests.support.fake_store import FakeStore
from tests.support.processes import wait_until

TTL = 5 * SECOND


class Clocks:
    """`true` time as the database shows it, and a host whose clock runs faster by so many parts in a million."""

    def __init__(self, faster: int) -> None:
        self.true: Instant = 1_800_000_000 * SECOND
        self._began, self._faster = self.true, faster
        leases = FakeStore(lambda: self.true).leases
        lease = leases.acquire(0, "one", TTL)
        assert lease is not None
        self.renewer = LeaseRenewer(leases, lease, self.host(), TTL, lambda: None, clock=self.host)

    def host(self) -> Duration:
        since = self.true - self._began
        return 7 * HOUR + since + since * self._faster // 1_000_000

    @property
    def ahead(self) -> Duration:
        return self.renewer.now() - self.true


@pytest.mark.parametrize("faster", [-500, 0, 500])
def test_a_host_whose_clock_runs_too_fast_or_too_slow_makes_no_run_early_or_late(faster: int) -> None:
    clocks = Clocks(faster)
    before = clocks.renewer.now()
    for _ in range(8 * 3600):
        clocks.true += SECOND
        assert clocks.renewer.now() >= before
        before = clocks.renewer.now()
        clocks.renewer.confirm()
        assert clocks.renewer.now() >= before
    assert abs(clocks.ahead) < 5 * MILLISECOND


class SlowLeases:
    """A store that confirms a lease only after two seconds."""

    def __init__(self) -> None:
        self.host: Duration = 1_000 * SECOND

    def renew(self, lease: Lease, ttl: Duration) -> Lease:
        self.host += 2 * SECOND
        return lease

    def resign(self, lease: Lease) -> None: ...


class TakenLeases:
    """A store in which somebody else leads by now."""

    def renew(self, lease: Lease, ttl: Duration) -> Lease:
        raise LeaseLost("term 2 leads")

    def resign(self, lease: Lease) -> None: ...


def slow_renewer() -> tuple[SlowLeases, LeaseRenewer]:
    leases = SlowLeases()
    lease = Lease(0, 1, "one", 1)
    return leases, LeaseRenewer(leases, lease, leases.host, TTL, lambda: None, clock=lambda: leases.host)  # type: ignore[arg-type]


def test_trust_ends_a_margin_before_the_lease_does() -> None:
    leases, renewer = slow_renewer()
    leases.host += 4 * SECOND - 1
    assert renewer.trusted()
    leases.host += 1
    assert not renewer.trusted()


def test_trust_counts_from_before_the_question_not_from_its_answer() -> None:
    leases, renewer = slow_renewer()
    asked_at = leases.host
    renewer.confirm()
    assert leases.host == asked_at + 2 * SECOND
    leases.host = asked_at + 4 * SECOND - 1
    assert renewer.trusted()
    leases.host = asked_at + 4 * SECOND
    assert not renewer.trusted()


def test_after_a_slow_renewal_the_next_is_asked_for_at_once() -> None:
    leases, renewer = slow_renewer()
    assert renewer.next_in() == 3 * TTL // 10
    leases.host += SECOND
    assert renewer.next_in() == 3 * TTL // 10 - SECOND
    renewer.confirm()
    assert renewer.next_in() == 0, "it took two seconds of the four for which it is trusted"


def test_a_lease_that_is_lost_is_not_trusted_however_young_its_confirmation() -> None:
    told = threading.Event()
    renewer = LeaseRenewer(TakenLeases(), Lease(0, 1, "one", 1), 0, SECOND // 10, told.set, clock=lambda: 0)  # type: ignore[arg-type]
    assert renewer.trusted()
    renewer.start()
    assert told.wait(60)
    assert not renewer.trusted()
    renewer.stop(resign=False)


class LateLeases:
    """A store that answers a renewal when `answer` is set: by what it holds, or with a confirmation."""

    def __init__(self) -> None:
        self.answer, self.asked = threading.Event(), threading.Event()
        self.error: Exception | None = None

    def renew(self, lease: Lease, ttl: Duration) -> Lease:
        self.asked.set()
        assert self.answer.wait(60)
        if self.error is not None:
            raise self.error
        return lease

    def resign(self, lease: Lease) -> None: ...


class Late:
    """A leader that waits to act while its renewal is late, by a clock that the test moves."""

    def __init__(self) -> None:
        self.host, self.leases = 0, LateLeases()
        lease = Lease(0, 1, "one", 1)
        self.renewer = LeaseRenewer(self.leases, lease, 0, SECOND // 10, lambda: None, clock=lambda: self.host)  # type: ignore[arg-type]
        self.acted: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._acting = threading.Thread(target=self._act)

    def _act(self) -> None:
        try:
            self.renewer.check()
            self.acted.put("acted")
        except LeaseLost as exc:
            self.acted.put(str(exc))

    def __enter__(self) -> Self:
        self.renewer.start()
        assert self.leases.asked.wait(60)
        self.host = HOUR  # a machine that gave this process no core
        self._acting.start()
        with pytest.raises(queue.Empty):
            self.acted.get(timeout=0.1)
        return self

    def __exit__(self, *_: object) -> None:
        self.leases.answer.set()
        self.renewer.stop(resign=False)
        self._acting.join(60)


def test_who_is_about_to_act_waits_for_a_confirmation_that_is_late_and_then_acts() -> None:
    with Late() as late:
        late.leases.answer.set()
        wait_until(late.renewer.trusted, what="a renewal since")
        assert late.acted.get(timeout=60) == "acted"


@pytest.mark.parametrize("error", [LeaseLost("term 2 leads"), StoreUnavailable("away")], ids=["taken", "away"])
def test_nobody_acts_after_a_late_renewal_that_fails(error: Exception) -> None:
    with Late() as late:
        late.leases.error = error
        late.leases.answer.set()
        assert late.acted.get(timeout=60) == "term 1 is not confirmed any more"


def test_a_renewal_that_is_never_answered_is_waited_for_no_longer_than_a_ttl() -> None:
    with Late() as late:
        late.host += SECOND // 10
        assert late.acted.get(timeout=60) == "term 1 is not confirmed any more"


class KeptLeases:
    """A store that confirms the lease whenever it is asked."""

    def __init__(self) -> None:
        self.trusted_while_resigning: bool | None = None
        self.renewer: LeaseRenewer | None = None

    def renew(self, lease: Lease, ttl: Duration) -> Lease:
        return lease

    def resign(self, lease: Lease) -> None:
        assert self.renewer is not None
        self.trusted_while_resigning = self.renewer.trusted()


def test_a_leader_whose_writer_makes_no_progress_for_a_minute_loses_its_lease() -> None:
    told = threading.Event()
    renewer = LeaseRenewer(KeptLeases(), Lease(0, 1, "one", 1), 0, SECOND // 10, told.set, clock=lambda: 0)  # type: ignore[arg-type]
    stuck, asked = [59 * SECOND], []

    def without_progress() -> int:
        asked.append(stuck[0])
        return stuck[0]

    renewer.watch_writer(without_progress)
    renewer.start()
    wait_until(lambda: len(asked) >= 3, what="three questions")
    assert not told.is_set()
    stuck[0] = 61 * SECOND
    assert told.wait(60)
    assert not renewer.trusted()
    renewer.stop(resign=False)


def test_nobody_acts_by_a_lease_from_when_it_is_resigned() -> None:
    leases = KeptLeases()
    renewer = leases.renewer = LeaseRenewer(leases, Lease(0, 1, "one", 1), 0, TTL, lambda: None, clock=lambda: 0)  # type: ignore[arg-type]
    assert renewer.trusted()
    renewer.stop(resign=True)
    assert leases.trusted_while_resigning is False
    assert not renewer.trusted()
