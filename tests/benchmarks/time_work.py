"""The work that the suite `time` measures: jobs, runs, and the clock that is held to them."""

import random
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from statistics import quantiles
from typing import Final

import numpy as np

from itinerary.protocol.instants import DAY, HOUR, SECOND, parse_instant
from scheduler_service.core.index.expansion import Entry
from scheduler_service.core.index.snapshot import IndexSnapshot, from_unsorted
from scheduler_service.core.schedules.schedule import Schedule, parse_schedule

START: Final = parse_instant("2026-11-27T10:00:00Z")


def random_lines(number: int, seed: int = 1) -> list[str]:
    """Distinct cron lines of everyday kinds; 10,000 of them make about 80,000 runs an hour."""
    dice = random.Random(seed)
    found: dict[str, None] = {}
    while len(found) < number:
        line = " ".join((_minute(dice), _hour(dice), _day(dice), "*", _weekday(dice)))
        found[line] = None
    return list(found)


def _minute(dice: random.Random) -> str:
    low, high = sorted((dice.randrange(60), dice.randrange(60)))
    return dice.choice(
        (
            "*",
            f"*/{dice.randint(2, 30)}",
            f"{low},{high}",
            f"{low}-{high}",
            f"*/{dice.randint(2, 6)}",
            f"{low}/{dice.randint(2, 20)}",
        )
    )


def _hour(dice: random.Random) -> str:
    low, high = sorted((dice.randrange(24), dice.randrange(24)))
    return dice.choice(("*", "*", "*", f"*/{dice.randint(2, 4)}", f"{low}-{high}", f"{low},{high}"))


def _day(dice: random.Random) -> str:
    return dice.choice(("*", "*", "*", f"{dice.randint(1, 20)}-31"))


def _weekday(dice: random.Random) -> str:
    return dice.choice(("*", "*", "*", "1-5", "MON-FRI"))


def schedule_of(line: str, timezone: str = "UTC") -> Schedule:
    """The schedule of a cron line."""
    spec = {"kind": "cron", "expr": line, "timezone": timezone}
    return parse_schedule(spec, job_id="job", created_at=START).schedule


def entries_of(schedules: list[Schedule]) -> list[Entry]:
    """One job for each schedule, in order of its id."""
    return [Entry(n, f"job{n:07d}", s, START - DAY, START + 9 * DAY) for n, s in enumerate(schedules)]


@dataclass(frozen=True)
class UnsortedRuns:
    """Runs of many jobs: by job, as an expansion job by job gives them, or in no order at all."""

    times: np.ndarray[tuple[int], np.dtype[np.int64]]
    ordinals: np.ndarray[tuple[int], np.dtype[np.int32]]
    job_ids: list[str]

    def epoch(self) -> IndexSnapshot:
        """The index of them."""
        return from_unsorted(self.times, self.ordinals, self.job_ids, START, START + DAY)


def unsorted_runs(number: int, spread: int = HOUR, *, by_job: bool = False) -> UnsortedRuns:
    """`number` distinct runs on whole seconds over `spread`, of up to 10,000 jobs."""
    seconds = spread // SECOND
    jobs = max(1, min(10_000, number // 10))
    dice = np.random.default_rng(number)
    picked = dice.choice(seconds * jobs, number, replace=False)
    if by_job:
        picked.sort()
    else:
        dice.shuffle(picked)
    times = START + (picked % seconds) * SECOND
    if by_job:
        order = np.lexsort((dice.random(number), picked // seconds))
        picked, times = picked[order], times[order]
    return UnsortedRuns(times, (picked // seconds).astype(np.int32), [f"job{n:07d}" for n in range(jobs)])


def spent(action: Callable[[], object], rounds: int) -> list[float]:
    """The seconds of each round, ascending."""
    found = []
    for _ in range(rounds):
        begun = time.perf_counter()
        action()
        found.append(time.perf_counter() - begun)
    return sorted(found)


def best(action: Callable[[], object], rounds: int = 15) -> float:
    """The shortest of some rounds, in seconds: what the work takes when nobody else is at the machine."""
    return spent(action, rounds)[0]


def looped(action: Callable[[], object], times: int = 20_000) -> float:
    """Seconds a call, over many calls in a row, the call itself counted; the best of five rows."""

    def row() -> None:
        for _ in range(times):
            action()

    return best(row, 5) / times


def percentiles(seconds: list[float]) -> tuple[float, float, float]:
    """p50, p95 and p99."""
    cuts = quantiles(seconds, n=100, method="inclusive")
    return cuts[49], cuts[94], cuts[98]


def allocated(action: Callable[[], object]) -> int:
    """The most bytes that one call held at once."""
    action()
    tracemalloc.start()
    try:
        action()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
