"""What PUBLISH_WINDOW=auto gives and costs, beside a fixed window of 10,000, taking turns in one run.

How soon ten runs of priority 0 start that are enqueued behind 5,000 of priority 9, with real workers; how long all of
them take; and how many runs a second go through a leader whose worker only claims and reports, in pipelines.
"""

import time
from collections.abc import Iterator
from statistics import median
from typing import Final

from itinerary import enqueue_many_in
from tests.benchmarks.bed import TASK, Bed, Scene
from tests.benchmarks.figures import Asked, Figure
from tests.benchmarks.lives import CHILDREN, REAL_WORKER
from tests.support.processes import wait_until

FIXED: Final = "10000"
AUTO: Final = "auto"
BEHIND: Final = 5_000
URGENT: Final = 10
_MOST_AT_ONCE: Final = 1_000
_SINCE: Final = """
SELECT extract(epoch FROM max(started_at)) - %s FROM runs WHERE priority = 0 HAVING count(started_at) = count(*)
"""
_ALL: Final = "SELECT extract(epoch FROM max(finished_at) - min(started_at)) FROM runs"
# The window grows from the free slots within the first half second: that is a figure of its own.
_AT_PACE: Final = """
SELECT count(*) / extract(epoch FROM max(finished_at) - min(finished_at)) FROM runs
WHERE finished_at > (SELECT percentile_disc(0.2) WITHIN GROUP (ORDER BY finished_at) FROM runs)
"""


def figures(asked: Asked) -> Iterator[Figure]:
    """Priority first, then what it costs."""
    number, many, rounds = (300, 1_000, 1) if asked.quick else (BEHIND, 30_000, 3)
    with Bed() as bed:
        found = {window: _urgent(bed, window, number) for window in (FIXED, AUTO)}
        (before, took_before), (after, took) = found[FIXED], found[AUTO]
        yield Figure(f"{URGENT} of priority 0 behind {number:,} of priority 9, enqueued to the last one started", after,
                     "s", peer="with a window of 10,000", peer_value=before)  # fmt: skip
        yield Figure(f"  all of them, by {CHILDREN} processes", (number + URGENT) / took, "runs a second",
                     better="higher", peer="with a window of 10,000",
                     peer_value=(number + URGENT) / took_before)  # fmt: skip
        rates: dict[str, list[tuple[float, float]]] = {FIXED: [], AUTO: []}
        for turn in range(rounds):
            # Each goes first in turn: the machine's speed varies over minutes.
            for window in (FIXED, AUTO) if turn % 2 else (AUTO, FIXED):
                rates[window].append(_rate(bed, window, many))
                asked.say(f"  {window}: {rates[window][-1][1]:,.0f} runs a second")
        names = (f"{many:,} runs due at once, claimed and reported in pipelines", "  without the first fifth")
        for part, name in enumerate(names):
            ours, theirs = (median(one[part] for one in rates[window]) for window in (AUTO, FIXED))
            yield Figure(name, ours, "runs a second", better="higher", peer="with a window of 10,000",
                         peer_value=theirs)  # fmt: skip


def _urgent(bed: Bed, window: str, number: int) -> tuple[float, float]:
    """Seconds from the enqueueing of the urgent ones to the start of their last, and those that all runs took."""
    with bed.scene(ITINERARY_PUBLISH_WINDOW=window) as scene:
        worker = scene.start(*REAL_WORKER)
        worker.wait_for_line("ready.", 30)
        scene.start_leader()
        _enqueue(scene, number, priority=9)
        wait_until(lambda: scene.value("SELECT count(started_at) FROM runs") >= number // 25, 60, lambda: scene.said)
        at = time.time()
        _enqueue(scene, URGENT, priority=0)
        _await_all(scene, number + URGENT)
        return float(scene.value(_SINCE, at)), float(scene.value(_ALL))


def _rate(bed: Bed, window: str, number: int) -> tuple[float, float]:
    """Runs a second from the first start to the last end, and of those after the first fifth."""
    with bed.scene(ITINERARY_PUBLISH_WINDOW=window) as scene:
        scene.start("-m", "tests.benchmarks.pipeline_worker")
        scene.start_leader()
        _enqueue(scene, number, priority=5)
        _await_all(scene, number)
        return number / float(scene.value(_ALL)), float(scene.value(_AT_PACE))


def _enqueue(scene: Scene, number: int, priority: int) -> None:
    with scene.sql.transaction():
        for _ in range(0, number, _MOST_AT_ONCE):
            some = [{"task": TASK, "priority": priority}] * min(number, _MOST_AT_ONCE)
            enqueue_many_in(scene.sql, some)


def _await_all(scene: Scene, number: int) -> None:
    done = "SELECT count(*) FROM runs WHERE state = 'completed'"
    wait_until(lambda: scene.value(done) == number, 300, lambda: scene.said)
