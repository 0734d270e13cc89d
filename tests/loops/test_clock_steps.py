"""Steps of the database's clock: seen by a steady one, whatever the answers take; none where there is none."""

from random import Random

import pytest

from itinerary.protocol.instants import HOUR, MILLISECOND, SECOND, Duration, Instant
from scheduler_service.loops.clock_steps import ClockSteps, ClockWatch
from scheduler_service.loops.lease_renewer import LeaseRenewer
from scheduler_service.ports.leases import LeaseView
from tests.support.fake_store import FakeStore

TTL = 5 * SECOND
SHOWN: Instant = 1_800_000_000 * SECOND


class Asking:
    """A database whose clock is `ahead` of its start; its answers take up to two seconds, before or after the look."""

    def __init__(self, seed: int) -> None:
        self._dice, self.steady, self.ahead = Random(seed), 0, 0
        self.steps = ClockSteps(*self._ask())

    def _ask(self) -> tuple[Duration, Duration, Instant]:
        asked_at = self.steady
        self.steady += self._dice.choice((MILLISECOND, 300 * MILLISECOND, 2 * SECOND))
        shown = SHOWN + self.steady + self.ahead
        self.steady += self._dice.choice((MILLISECOND, 300 * MILLISECOND, 2 * SECOND))
        return asked_at, self.steady, shown

    def ask(self, times: int = 1) -> Duration:
        stepped = 0
        for _ in range(times):
            self.steady += 1_500 * MILLISECOND
            stepped += self.steps.see(*self._ask())
        return stepped


@pytest.mark.parametrize("seed", range(20))
def test_slow_answers_are_no_step_and_a_step_is_called_no_smaller_than_it_is(seed: int) -> None:
    asking = Asking(seed)
    assert asking.ask(200) == 0
    asking.ahead += 3 * HOUR
    assert 3 * HOUR <= asking.ask() <= 3 * HOUR + 8 * SECOND
    assert asking.ask(200) == 0
    asking.ahead += SECOND  # once answers are quick enough to tell
    assert SECOND <= asking.ask(200) <= 9 * SECOND


def test_after_a_step_back_the_way_ahead_again_is_a_step() -> None:
    asking = Asking(7)
    asking.ask(50)
    asking.ahead -= HOUR
    assert asking.ask(50) == 0
    asking.ahead += HOUR
    assert HOUR <= asking.ask(50) <= HOUR + 8 * SECOND


def test_a_leader_knows_the_steps_of_its_term() -> None:
    database, steady = [SHOWN], [7 * HOUR]
    leases = FakeStore(lambda: database[0]).leases
    lease = leases.acquire(0, "one", TTL)
    assert lease is not None
    renewer = LeaseRenewer(leases, lease, steady[0], TTL, lambda: None, clock=lambda: steady[0])
    for step in (0, 0, HOUR, 0, 400 * MILLISECOND, -20 * MILLISECOND):
        database[0] += SECOND + step
        steady[0] += SECOND
        renewer.confirm()
    assert renewer.take_step() == HOUR + 400 * MILLISECOND
    assert renewer.take_step() == 0


def view(shown: Instant) -> LeaseView:
    return LeaseView(1, "one", SHOWN, SHOWN, 0, TTL, shown)


@pytest.mark.parametrize("step", [0, 2 * SECOND, 3 * HOUR])
def test_a_standby_knows_a_step_of_the_last_half_minute(step: Duration) -> None:
    watch = ClockWatch()
    for second in range(100):
        watch.see(view(SHOWN + second * SECOND + (step if second > 90 else 0)), second * SECOND + MILLISECOND)
    assert watch.stepped(100 * SECOND, SHOWN + 100 * SECOND + step) == (step and step + MILLISECOND)
    for second in range(100, 130):
        watch.see(view(SHOWN + second * SECOND + step), second * SECOND + MILLISECOND)
    assert watch.stepped(130 * SECOND, SHOWN + 130 * SECOND + step) == 0, "the leader has dated it anew"


def test_a_database_that_was_away_for_long_hides_no_step() -> None:
    watch = ClockWatch()
    watch.see(view(SHOWN), 0)
    watch.see(None, HOUR)
    assert watch.stepped(2 * HOUR, SHOWN + 3 * HOUR) == HOUR


def test_who_saw_no_clock_takes_the_database_s_word_and_a_step_back_counts_as_none() -> None:
    watch = ClockWatch()
    assert watch.stepped(SECOND, SHOWN) == 0
    watch.see(view(SHOWN), SECOND)
    assert watch.stepped(2 * SECOND, SHOWN - HOUR) == 0
