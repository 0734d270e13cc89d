"""The suite `balance`: how fast places are found, how long a rebalance takes, and how even the schedule becomes.

Evenness is measured over the coming week, the longest interval drawn, so that every job counts in it, beside the ways
in which phases are given elsewhere, on the same jobs.
"""

from collections.abc import Iterator

from itinerary.protocol.instants import DAY, HOUR, MINUTE, Duration
from scheduler_service.core.balancing.balancer import Balancer
from scheduler_service.core.balancing.distribution import score_of
from scheduler_service.core.balancing.placements import FollowJobs, PlanRebalance, RebalanceAsked, RebalancePlanned
from tests.benchmarks.balance_work import (
    BASE,
    NOW,
    WAYS,
    above_twice_the_mean,
    by_us,
    crowded,
    drawn,
    job,
    usual,
    week,
)
from tests.benchmarks.figures import Asked, Figure
from tests.benchmarks.time_work import best, looped
from tests.support.balanced import held, map_of

MS, US = 1e3, 1e6
ASKED = RebalanceAsked("rebalance", "reply", "plan", False, "bench", "admin")


def figures(asked: Asked) -> Iterator[Figure]:
    """Every figure of the suite."""
    for number in (1_000, 10_000):
        yield from _placement(number)
    yield from _evenness("intervals from 15 min to 7 d", drawn(1_000))
    yield from _evenness("usual intervals", usual(1_000))
    for number in (1_000,) if asked.quick else (1_000, 10_000, 100_000):
        yield from _rebalance(number)


def _placement(number: int) -> Iterator[Figure]:
    everys = drawn(number)
    jobs = [job(n, every, at) for n, (every, at) in enumerate(zip(everys, by_us(everys, 1), strict=True))]
    slots = map_of(BASE, jobs)
    for name, every in (("1 h", HOUR), ("25 min", 25 * MINUTE), ("6 h", 6 * HOUR), ("7 d", 7 * DAY)):
        seconds = looped(lambda every=every: slots.least_loaded("new", every, NOW), 300)  # type: ignore[misc]
        yield Figure(f"a place for a job of {name} among {number:,}", seconds * MS, "ms", 0.1)
    yield Figure(f"the map of {number:,} jobs, made anew", best(lambda: map_of(BASE, jobs), 5) * MS, "ms")


def _evenness(name: str, everys: list[Duration]) -> Iterator[Figure]:
    ours = week(everys, by_us(everys, 1))
    for way, phases in WAYS.items():
        theirs = week(everys, phases(everys, 1))
        yield Figure(
            f"{len(everys):,} jobs, {name}: peak load of a slot", int(ours.max()), "runs", int(theirs.max()) - 1,
            peer=way, peer_value=int(theirs.max()),
        )  # fmt: skip
        yield Figure(
            "  score", score_of(tuple(ours.tolist())), "", peer=way, peer_value=score_of(tuple(theirs.tolist()))
        )
        yield Figure(
            "  slots above twice the mean", above_twice_the_mean(ours), "%",
            peer=f"{way}: {above_twice_the_mean(theirs):.1f}",
        )  # fmt: skip


def _rebalance(number: int) -> Iterator[Figure]:
    told = Balancer()
    told.carry_out(FollowJobs(held(*crowded(usual(number))), NOW, NOW))
    order = PlanRebalance(ASKED, NOW, NOW, frozenset())
    seconds = best(lambda: told.carry_out(order), 3)
    planned = told.carry_out(order)
    assert isinstance(planned, RebalancePlanned)
    plan = planned.plan
    yield Figure(f"rebalance of {number:,} jobs, {len(plan.moves):,} moved", seconds, "s", 2.0)
    before, after = score_of(plan.slots), score_of(plan.projected_slots)
    yield Figure("  score after it", after, "", peer="before", peer_value=before)
