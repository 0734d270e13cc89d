"""What PUBLISH_WINDOW=auto gives and costs, beside a fixed window of 10,000, taking turns in one run.

How soon ten runs of priority 0 start that are enqueued behind 5,000 of priority 9, with real workers; then how many
runs a second go through a leader, by real workers and by one that only claims and reports, in pipelines.
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
ROUNDS: Final = 2
PIPELINES: Final = ("-m", "tests.benchmarks.pipeline_worker")
_PEER: Final = "with a window of 10,000"
_MOST_AT_ONCE: Final = 1_000
_STARTED: Final = "SELECT count(started_at) FROM runs WHERE priority = 0"
_SINCE: Final = "SELECT extract(epoch FROM max(started_at)) - %s FROM runs WHERE priority = 0"
_ALL: Final = "SELECT extract(epoch FROM max(finished_at) - min(started_at)) FROM runs"
# At first the window grows from the free slots, and 10,000 are sent ahead; at last nothing is left to send.
_AT_PACE: Final = """
SELECT 0.5 * count(*) / extract(epoch FROM percentile_disc(0.8) WITHIN GROUP (ORDER BY finished_at)
                                         - percentile_disc(0.3) WITHIN GROUP (ORDER BY finished_at)) FROM runs
"""


def figures(asked: Asked) -> Iterator[Figure]:
    """Priority first, then what it costs."""
    number = 300 if asked.quick else BEHIND
    with Bed() as bed:
        before, after = (_urgent(bed, window, number) for window in (FIXED, AUTO))
        yield Figure(f"{URGENT} of priority 0 behind {number:,} of priority 9, enqueued to the last one started", after,
                     "s", peer=_PEER, peer_value=before)  # fmt: skip
        yield from _rates(asked, bed, 300 if asked.quick else 2_000, f"by {CHILDREN} processes", *REAL_WORKER)
        yield from _rates(asked, bed, 1_000 if asked.quick else 60_000, "claimed and reported in pipelines", *PIPELINES)


def _rates(asked: Asked, bed: Bed, number: int, how: str, *worker: str) -> Iterator[Figure]:
    rates: dict[str, list[tuple[float, float]]] = {FIXED: [], AUTO: []}
    for turn in range(1 if asked.quick else ROUNDS):
        # Each goes first in turn: the machine's speed varies over minutes.
        for window in (FIXED, AUTO) if turn % 2 else (AUTO, FIXED):
            rates[window].append(_rate(bed, window, number, *worker))
            asked.say(f"  {window}: {rates[window][-1][0]:,.0f}, at pace {rates[window][-1][1]:,.0f} runs a second")
    for part, name in enumerate((f"{number:,} runs due at once, {how}", "  without the first 3 and the last 2 tenths")):
        ours, theirs = (median(one[part] for one in rates[window]) for window in (AUTO, FIXED))
        yield Figure(name, ours, "runs a second", better="higher", peer=_PEER, peer_value=theirs)


def _urgent(bed: Bed, window: str, number: int) -> float:
    """Seconds from the enqueueing of the urgent ones to the start of their last."""
    with bed.scene(ITINERARY_PUBLISH_WINDOW=window) as scene:
        worker = scene.start(*REAL_WORKER)
        worker.wait_for_line("ready.", 30)
        scene.start_leader()
        _enqueue(scene, number, priority=9)
        wait_until(lambda: scene.value("SELECT count(started_at) FROM runs") >= number // 25, 60, lambda: scene.said)
        at = time.time()
        _enqueue(scene, URGENT, priority=0)
        wait_until(lambda: scene.value(_STARTED) == URGENT, 300, lambda: scene.said)
        return float(scene.value(_SINCE, at))


def _rate(bed: Bed, window: str, number: int, *worker: str) -> tuple[float, float]:
    """Runs a second from the first start to the last end, and of those in between."""
    with bed.scene(ITINERARY_PUBLISH_WINDOW=window) as scene:
        scene.start(*worker)
        scene.start_leader()
        wait_until(lambda: scene.metric("scheduler_workers_alive"), 60, lambda: scene.said)
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
