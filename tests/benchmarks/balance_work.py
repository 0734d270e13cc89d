"""What the suite `balance` measures: jobs with their intervals, and the ways in which they are given their phases."""

from collections.abc import Callable, Sequence
from random import Random
from typing import Final

import numpy as np

from itinerary.protocol.instants import DAY, HOUR, MINUTE, SECOND, Duration, Instant, parse_instant
from scheduler_service.core.balancing.slot_balancer import slot_key
from scheduler_service.core.balancing.slot_counts import HORIZON_SLOTS, SLOT, SLOTS_A_DAY, Ints, Share, counts_of_all
from scheduler_service.core.model import Job
from scheduler_service.core.schedules.schedule import IntervalSchedule
from tests.support.balanced import held, map_of

NOW: Final = parse_instant("2026-11-30T10:07:11Z")
BASE: Final = slot_key(NOW)
EVER: Final = (-(2**62), 2**62)
USUAL: Final = tuple(n * MINUTE for n in (60, 90, 100, 120, 180, 240, 360, 480, 720, 1440, 2880, 10080))


def drawn(number: int, seed: int = 1) -> list[Duration]:
    """Intervals from 15 minutes to 7 days, in whole minutes, each as likely as any other."""
    dice = Random(seed)
    return [dice.randint(15, 7 * 1440) * MINUTE for _ in range(number)]


def usual(number: int, seed: int = 1) -> list[Duration]:
    """Intervals as people give them: an hour, 90 minutes, a day."""
    dice = Random(seed)
    return [dice.choice(USUAL) for _ in range(number)]


def by_now_plus_interval(everys: Sequence[Duration], seed: int) -> list[Instant]:
    """The next run is one interval from when the job was made; a hundred are made in a minute."""
    return [NOW + every + n * 600_000 for n, every in enumerate(everys)]


def by_jitter(everys: Sequence[Duration], seed: int) -> list[Instant]:
    """Anywhere within its interval, by lot."""
    dice = Random(seed)
    return [NOW + dice.randrange(every // SECOND) * SECOND for every in everys]


def by_first_occurrence(everys: Sequence[Duration], seed: int) -> list[Instant]:
    """The rule of the design that this grew from: the slot with the fewest jobs in the coming day or interval, where a
    job counts once, by its next run."""
    held: dict[int, int] = {}
    found = []
    for every in everys:
        slots = range(BASE, BASE + max(SLOTS_A_DAY, every // SLOT))
        best = min(slots, key=lambda slot: held.get(slot, 0))
        held[best] = held.get(best, 0) + 1
        found.append(max(best * SLOT, NOW))
    return found


def by_us(everys: Sequence[Duration], seed: int) -> list[Instant]:
    """Placed one after the other, as the leader does."""
    slots, found = map_of(BASE), []
    for number, every in enumerate(everys):
        place = slots.least_loaded(f"job{number}", every, NOW + 30 * SECOND)
        slots.add(*held(job(number, every, place.at)))
        found.append(place.at)
    return found


WAYS: Final[dict[str, Callable[[Sequence[Duration], int], list[Instant]]]] = {
    "now + interval": by_now_plus_interval,
    "random jitter": by_jitter,
    "first occurrence": by_first_occurrence,
}


def job(number: int, every: Duration, anchor: Instant) -> Job:
    """A balanced job that was placed two hours ago."""
    rhythm = IntervalSchedule(every, anchor, "UTC", balanced=True)
    return Job(f"job{number:06}", "t", rhythm, {}, placed_anchor=anchor, placed_at=NOW - 2 * HOUR)


def crowded(everys: Sequence[Duration], seed: int = 1) -> list[Job]:
    """Jobs that were made together in one hour of some earlier day, by `now + interval`; that hour comes in two."""
    dice = Random(seed)
    made = [NOW - 7 * DAY + 2 * HOUR + dice.randrange(3600) * SECOND for _ in everys]
    return [job(n, every, at + every) for n, (every, at) in enumerate(zip(everys, made, strict=True))]


def week(everys: Sequence[Duration], firsts: Sequence[Instant]) -> Ints:
    """The load of each slot of the coming week."""
    shares = (Share(IntervalSchedule(e, f, "UTC"), *EVER) for e, f in zip(everys, firsts, strict=True))
    return counts_of_all(shares, BASE)


def above_twice_the_mean(loads: Ints) -> float:
    """The share of slots that hold more than twice the mean, in percent."""
    return 100 * float(np.count_nonzero(loads > 2 * max(1.0, float(loads.mean())))) / HORIZON_SLOTS
