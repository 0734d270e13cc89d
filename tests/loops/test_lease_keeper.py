"""The leader's clock: the database's, however this host's runs beside it."""

import pytest

from scheduler_service.core.instants import HOUR, MILLISECOND, SECOND, Duration, Instant
from scheduler_service.loops.lease_keeper import LeaseKeeper
from tests.support.fake_store import FakeStore

TTL = 5 * SECOND


class Clocks:
    """`true` time as the database shows it, and a host whose clock runs faster by so many parts in a million."""

    def __init__(self, faster: int) -> None:
        self.true: Instant = 1_800_000_000 * SECOND
        self._began, self._faster = self.true, faster
        leases = FakeStore(lambda: self.true).leases
        lease = leases.acquire(0, "one", TTL)
        assert lease is not None
        self.keeper = LeaseKeeper(leases, lease, self.host(), TTL, lambda: None, clock=self.host)

    def host(self) -> Duration:
        since = self.true - self._began
        return 7 * HOUR + since + since * self._faster // 1_000_000

    @property
    def ahead(self) -> Duration:
        return self.keeper.now() - self.true


@pytest.mark.parametrize("faster", [-500, 0, 500])
def test_a_host_whose_clock_runs_too_fast_or_too_slow_makes_no_run_early_or_late(faster: int) -> None:
    clocks = Clocks(faster)
    before = clocks.keeper.now()
    for _ in range(8 * 3600):
        clocks.true += SECOND
        assert clocks.keeper.now() >= before
        before = clocks.keeper.now()
        clocks.keeper.confirm()
        assert clocks.keeper.now() >= before
    assert abs(clocks.ahead) < 5 * MILLISECOND
