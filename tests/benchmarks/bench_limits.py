"""What the parts below a leader could do at most, and how much of it the leader reaches.

Messages of the same bytes by bare LPUSH, by Celery's `send_task`, by kombu's batch, and by our template; the same rows
by bare statements and by the leader's store, fence and guards included.
"""

from collections.abc import Iterator
from typing import Final

from tests.benchmarks.bed import Bed, intervals
from tests.benchmarks.bench_burst import burst
from tests.benchmarks.figures import Asked, Figure
from tests.benchmarks.limits_work import barest_pushes, barest_writes, best_writes, our_writes, publishers
from tests.benchmarks.plots import bars

NUMBER: Final = 20_000
BURST: Final = 10_000
CPU_TARGET: Final = 20_000
WORDS: Final = {"insert": "rows made", "move": "rows moved to pending", "end": "rows ended"}


def figures(asked: Asked, number: int | None = None) -> Iterator[Figure]:
    """First messages, then rows, then the leader beside the slowest of them."""
    number = number or (2_000 if asked.quick else NUMBER)
    speeds: dict[str, float] = {}
    with Bed() as bed:
        with bed.scene() as scene:
            barest, pushed = barest_pushes(scene, number)
            speeds[f"LPUSH, {barest}"] = pushed
            yield Figure(f"bare LPUSH, {barest}", pushed, "messages a second", better="higher")
        with bed.scene() as scene:
            for name, speed, of_cpu in publishers(scene, number):
                speeds[f"publish, {name}"] = speed
                yield Figure(f"publish by {name}", speed, "messages a second", better="higher",
                             peer="bare LPUSH", peer_value=pushed)  # fmt: skip
                yield Figure("  the same, a second of CPU", of_cpu, "messages a second", better="higher",
                             target=CPU_TARGET if name == "our template" else None)  # fmt: skip
        with bed.scene() as scene:
            scene.fill(intervals(number, 3600))
            bare, ours = best_writes(barest_writes, scene, number), best_writes(our_writes, scene, number)
        for name, words in WORDS.items():
            speeds[f"{words}, bare"], speeds[f"{words}, ours"] = bare[name], ours[name]
            yield Figure(f"{words} by the leader's store", ours[name], "rows a second", better="higher",
                         peer="bare statements", peer_value=bare[name])  # fmt: skip
        lives = 1 / sum(1 / speed for speed in bare.values())
        yield Figure("lives a second that bare statements allow", lives, "lives a second", better="higher")
        yield Figure("lives a second that the leader's store allows", 1 / sum(1 / one for one in ours.values()),
                     "lives a second", better="higher", peer="bare statements", peer_value=lives)  # fmt: skip
        if not asked.quick:
            yield _leader(asked, bed, min(pushed, bare["move"]))
    if asked.plots:
        bars(
            asked.plots / "limits.svg", "What the parts could do at most, and what we do with them", "a second", speeds
        )


def _leader(asked: Asked, bed: Bed, slowest: float) -> Figure:
    seconds = asked.series.get("burst, s: Itinerary", {}).get(BURST) or burst(bed, BURST).seconds
    return Figure(
        f"slowest limit of a release, to what the leader releases ({BURST / seconds:,.0f} a second of {BURST:,})",
        slowest * seconds / BURST, "times", target=5,
    )  # fmt: skip
