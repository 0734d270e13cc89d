"""Rates: never more than `count` starts in any window of `per`, by the tasks' own time; and the window is used."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from itinerary.protocol.instants import HOUR, MILLISECOND, SECOND, Duration, Instant
from itinerary.protocol.limits import LimitUse
from scheduler_service.core.leader.parts.rates import MOST_BUCKETS, RatedUse, Rates
from scheduler_service.core.limits import Rate
from tests.support.examples import examples

API, TENANT = LimitUse("api"), LimitUse("tenant", "acme")
TWO = RatedUse(API, Rate(2, 10 * SECOND))
ONE_A_MINUTE = RatedUse(TENANT, Rate(1, 60 * SECOND))


def at(rates: Rates, seconds: float) -> Rates:
    rates.tick(int(seconds * SECOND))
    return rates


def start(rates: Rates, run_id: str, *uses: RatedUse) -> bool:
    """Dispatch and start a run at once, if it may."""
    if rates.may_start(uses) is not None:
        return False
    rates.dispatched(run_id, uses)
    rates.started(run_id, uses)
    return True


def test_a_run_may_be_dispatched_while_starts_and_unreported_ones_are_fewer_than_the_count() -> None:
    rates = at(Rates(), 100)
    assert start(rates, "a", TWO)
    assert rates.may_start([TWO]) is None
    rates.dispatched("b", [TWO])
    assert rates.may_start([TWO]) == API
    at(rates, 109.999999)
    assert rates.may_start([TWO]) == API
    at(rates, 110)
    assert rates.may_start([TWO]) is None, "the start of `a` is as old as the window"
    rates.dispatched("c", [TWO])
    at(rates, 100_000)
    assert rates.may_start([TWO]) == API, "runs that were dispatched and may still start count for ever"
    assert rates.next_in() is None


def test_a_start_counts_from_its_report_not_from_its_dispatch() -> None:
    rates = at(Rates(), 0)
    rates.dispatched("late", [ONE_A_MINUTE])
    at(rates, 50)
    assert rates.started("late", [ONE_A_MINUTE]) == (TENANT,)
    at(rates, 61)
    assert rates.may_start([ONE_A_MINUTE]) == TENANT
    assert rates.next_in() == 49 * SECOND
    at(rates, 110)
    assert rates.may_start([ONE_A_MINUTE]) is None


def test_a_run_takes_a_start_of_each_of_its_rates_or_none() -> None:
    rates = at(Rates(), 0)
    assert start(rates, "a", TWO, ONE_A_MINUTE)
    assert rates.may_start([TWO, ONE_A_MINUTE]) == TENANT
    assert rates.room(TWO) == 1, "what was refused took nothing"
    assert start(rates, "b", TWO)


def test_a_refused_use_is_named_when_a_start_leaves_its_window_and_not_before() -> None:
    rates = at(Rates(), 0)
    assert start(rates, "a", TWO)
    assert start(at(rates, 3), "b", TWO)
    assert not start(at(rates, 4), "c", TWO)
    assert rates.next_in() == 6 * SECOND
    assert at(rates, 9.999999).take_free() == []
    assert at(rates, 10).take_free() == [API]
    assert rates.take_free() == [], "it is named once"
    assert rates.next_in() is None


def test_a_use_that_is_refused_in_each_pass_is_planned_once() -> None:
    rates = at(Rates(), 0)
    assert start(rates, "a", ONE_A_MINUTE)
    for number in range(100):
        assert rates.may_start([ONE_A_MINUTE]) == TENANT, number
    assert len(rates._free) == 1
    assert rates.next_in() == 60 * SECOND
    assert at(rates, 60).take_free() == [TENANT]


def test_a_refused_use_that_waits_for_a_report_is_planned_by_it() -> None:
    rates = at(Rates(), 0)
    rates.dispatched("a", [ONE_A_MINUTE])
    assert rates.may_start([ONE_A_MINUTE]) == TENANT
    assert rates.next_in() is None, "nobody knows when"
    at(rates, 5).started("a", [ONE_A_MINUTE])
    assert rates.next_in() == 60 * SECOND


def test_what_is_given_back_is_free_at_once() -> None:
    rates = at(Rates(), 0)
    rates.dispatched("a", [ONE_A_MINUTE])
    assert rates.may_start([ONE_A_MINUTE]) == TENANT
    rates.given_back("a")
    assert rates.next_in() == 0
    assert rates.take_free() == [TENANT]
    rates.given_back("a")
    assert rates.room(ONE_A_MINUTE) == 1, "once"


def test_a_run_is_counted_once_however_often_it_is_moved() -> None:
    rates = at(Rates(), 0)
    rates.dispatched("a", [TWO])
    rates.dispatched("a", [TWO])
    assert rates.room(TWO) == 1
    rates.dispatched("plain", [])
    assert not rates.is_dispatched("plain")
    rates.dispatched("a", [TWO, ONE_A_MINUTE])
    assert (rates.room(TWO), rates.room(ONE_A_MINUTE)) == (1, 0)
    rates.started("a", [TWO])
    assert (rates.room(TWO), rates.room(ONE_A_MINUTE)) == (1, 0), "by what it was dispatched by"


def test_a_lower_rate_counts_what_was_counted_by_the_higher_one() -> None:
    rates = at(Rates(), 0)
    assert start(rates, "a", TWO)
    assert start(at(rates, 1), "b", TWO)
    lower = RatedUse(API, Rate(1, 20 * SECOND))
    assert not start(at(rates, 15), "c", lower)
    assert rates.next_in() == 6 * SECOND
    rates.dispatched("d", [RatedUse(API, Rate(3, 20 * SECOND))])
    assert not start(rates, "e", RatedUse(API, Rate(2, 20 * SECOND)))
    assert rates.next_in() == 6 * SECOND, "two must leave the window, for one that is dispatched and one more"


def test_what_earlier_leaders_committed_counts_for_the_rest_of_its_window() -> None:
    rates = at(Rates(), 1000)
    rates.restore(TWO, 12 * SECOND, 5)
    rates.restore(TWO, 4 * SECOND, 1)
    rates.restore(TWO, -HOUR, 1)
    assert not start(rates, "a", TWO)
    assert rates.next_in() == 6 * SECOND, "a date in the future counts as now"
    assert start(at(rates, 1006), "a", TWO)
    assert not start(rates, "b", TWO)
    assert rates.next_in() == 4 * SECOND


def test_a_steady_clock_never_goes_back() -> None:
    rates = at(Rates(), 100)
    assert start(rates, "a", ONE_A_MINUTE)
    assert not start(at(rates, 50), "b", ONE_A_MINUTE)
    assert rates.now == 100 * SECOND


def test_a_day_of_starts_is_kept_in_a_thousand_buckets_each_dated_by_its_last() -> None:
    day = RatedUse(API, Rate(100_000, 24 * HOUR))
    rates, dice = at(Rates(), 0), Random(1)
    times: list[float] = []
    for number in range(20_000):
        times.append((times[-1] if times else 0) + dice.random() * 10)
        assert start(at(rates, times[-1]), str(number), day)
    (window,) = rates._windows.values()
    assert len(window.buckets) <= MOST_BUCKETS
    now = times[-1]
    exact = sum(one > now - 86_400 for one in times)
    counted = 100_000 - rates.room(day)
    assert exact <= counted <= exact + 30, "too many by those of one bucket at most"


def test_keys_that_come_and_go_are_forgotten_when_their_window_is_empty() -> None:
    rates = at(Rates(), 0)
    for number in range(1_000):
        key = RatedUse(LimitUse("tenant", str(number)), Rate(1, 60 * SECOND))
        assert start(at(rates, number / 10), str(number), key)
        if number % 2:
            assert rates.may_start([key]) == key.use
        rates.dispatched(f"recalled {number}", [RatedUse(LimitUse("other", str(number)), key.rate)])
        rates.given_back(f"recalled {number}")
        rates.forget_empty()
    rates.take_free()
    rates.forget_empty()
    assert len(rates._windows) == pytest.approx(600, abs=2)
    at(rates, 1_000).take_free()
    rates.forget_empty()
    assert (rates._windows, rates._refused, rates._dispatched, rates._over, rates._free) == ({}, {}, {}, [], [])


def test_pruning_begins_with_a_start_and_rests_when_nothing_counts() -> None:
    rates = at(Rates(), 0)
    assert not rates.prune_due(SECOND), "who has no rates writes nothing and prunes nothing"
    assert start(rates, "a", TWO)
    assert [rates.prune_due(SECOND), rates.prune_due(SECOND)] == [True, False]
    rates.pruned(full=True, left=True)
    assert rates.prune_due(SECOND)
    rates.pruned(full=False, left=False)
    assert at(rates, 20).prune_due(SECOND), "the row of `a` is still stored"
    rates.forget_empty()
    rates.pruned(full=False, left=True)
    assert at(rates, 40).prune_due(SECOND), "it was stored a moment later than it was counted"
    rates.pruned(full=False, left=False)
    assert not at(rates, 60).prune_due(SECOND)


@dataclass
class History:
    """A leader, its successors, their database and workers, with every event at any time and in any order.

    `clock` is true time. The database's may be `ahead` of it, which only moves between terms here: within a term the
    leader shifts what it stored. What a leader heard and did not commit is lost with it, and heard again.
    """

    dice: Random
    rated: RatedUse
    clock: Instant = 0
    rates: Rates = field(default_factory=Rates)
    boot: Duration = 0
    number: int = 0
    true_starts: list[Instant] = field(default_factory=list)
    pending: dict[str, bool] = field(default_factory=dict)
    inbox: list[str] = field(default_factory=list)
    uncommitted: list[str] = field(default_factory=list)
    rows: list[Instant] = field(default_factory=list)
    freed: int = 0

    def steady(self) -> Duration:
        return self.clock - self.boot

    def step(self) -> None:
        self.clock += self.dice.choice((1, MILLISECOND, 10 * MILLISECOND, 300 * MILLISECOND, SECOND))
        self.rates.tick(self.steady())
        self.dice.choices(
            (self.dispatch, self.begin, self.hear, self.commit, self.recall, self.end, self.fail_over, self.refuse),
            (30, 20, 20, 10, 3, 3, 1, 3),
        )[0]()

    def dispatch(self) -> None:
        for _ in range(self.dice.randint(1, 2 * self.rated.rate.count)):
            if self.rates.may_start([self.rated]) is not None:
                return
            self.number += 1
            self.rates.dispatched(str(self.number), [self.rated])
            self.pending[str(self.number)] = False

    def refuse(self) -> None:
        """Its dispatch was not committed, as a row read afterwards says."""
        if self.rates.may_start([self.rated]) is None:
            self.rates.dispatched("refused", [self.rated])
            self.rates.given_back("refused")

    def _some(self, begun: bool) -> list[str]:
        those = [one for one, has in self.pending.items() if has is begun and one not in self.uncommitted]
        return self.dice.sample(those, self.dice.randint(0, len(those)))

    def begin(self) -> None:
        for run_id in self._some(begun=False):
            self.pending[run_id] = True
            self.true_starts.append(self.clock)
            if self.dice.random() < 0.9:  # else its report is lost, and a heartbeat or its end tells
                self.inbox.append(run_id)

    def hear(self) -> None:
        heard, self.inbox = self.inbox, []
        for run_id in heard:
            if self.rates.started(run_id, [self.rated]):
                self.uncommitted.append(run_id)

    def commit(self) -> None:
        self.rows += [self.clock] * len(self.uncommitted)
        for run_id in self.uncommitted:
            del self.pending[run_id]
        self.uncommitted = []

    def recall(self) -> None:
        for run_id in self._some(begun=False):
            self.rates.given_back(run_id)
            del self.pending[run_id]

    def end(self) -> None:
        """The end is heard, its start never was."""
        for run_id in self._some(begun=True):
            if run_id in self.inbox:
                self.inbox.remove(run_id)
            self.rates.started(run_id, [self.rated])
            self.uncommitted.append(run_id)

    def fail_over(self) -> None:
        self.inbox += self.uncommitted
        self.uncommitted = []
        self.clock += self.dice.randrange(6 * SECOND)
        self.boot = self.clock - self.dice.randrange(HOUR)
        self.rates = Rates()
        self.rates.tick(self.steady())
        for stored in self.rows:
            self.rates.restore(self.rated, self.clock - stored, 1)
        for run_id in self.pending:
            self.rates.dispatched(run_id, [self.rated])

    def worst(self) -> int:
        """The most starts of any window."""
        starts, per, first, most = sorted(self.true_starts), self.rated.rate.per, 0, 0
        for last, when in enumerate(starts):
            while starts[first] <= when - per:
                first += 1
            most = max(most, last - first + 1)
        return most


@settings(deadline=None, database=None, max_examples=examples(60), suppress_health_check=list(HealthCheck))
@given(st.integers(0, 2**32), st.integers(1, 12), st.sampled_from((1, 3, 10, 60)))
def test_no_window_has_more_starts_than_the_count_whatever_happens(seed: int, count: int, per: int) -> None:
    history = History(Random(seed), RatedUse(API, Rate(count, per * SECOND)))
    for _ in range(400):
        history.step()
    assert history.worst() <= count


def _prompt(rated: RatedUse, delay: Duration, until: Instant) -> Iterator[Instant]:
    """The starts of a leader that sleeps until its next wake and hears of each start `delay` after the dispatch."""
    rates, now, number = Rates(), 0, 0
    reports: list[tuple[Instant, str]] = []
    while now < until:
        rates.tick(now)
        while reports and reports[0][0] <= now:
            rates.started(reports.pop(0)[1], [rated])
        rates.take_free()
        while rates.may_start([rated]) is None:
            number += 1
            rates.dispatched(str(number), [rated])
            reports.append((now + delay, str(number)))
            yield now
        wake = rates.next_in()
        soonest = [at for at, _ in reports[:1]] + ([] if wake is None else [now + wake])
        assert min(soonest) > now
        now = min(soonest)


@pytest.mark.parametrize(("count", "per"), [(1, 1), (90, 10), (20, 2), (1000, 60)])
def test_the_window_is_used_while_starts_are_heard_promptly(count: int, per: int) -> None:
    delay = 50 * MILLISECOND
    starts = list(_prompt(RatedUse(API, Rate(count, per * SECOND)), delay, 20 * per * SECOND))
    by_window = Counter(start // (per * SECOND + delay) for start in starts)
    whole = [by_window[window] for window in range(max(by_window))]
    assert min(whole) == max(whole) == count
