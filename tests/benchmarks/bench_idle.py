"""What jobs cost that only wait: the leader's start, its memory, its CPU, and the rebuilds of its index.

The jobs are crons of 1,200 different minutes of the day, none of them due within three hours. Then one job falls due
each second, and its delay is looked at while the index of all is rebuilt. Beside beat and APScheduler 3 with as many
entries as they bear.
"""

import time
from collections.abc import Iterator
from typing import Final

from tests.benchmarks.bed import Bed, Scene, jobs, usage
from tests.benchmarks.burst_peers import PEERS, idle
from tests.benchmarks.figures import Asked, Figure
from tests.benchmarks.lives import EVERY_SECOND, latencies
from tests.benchmarks.plots import against_n

NUMBERS: Final = (10_000, 100_000, 1_000_000)
TARGETS_AT: Final = 100_000
REBUILD_AT: Final = 1_000_000
PEERS_AT: Final = 10_000
_LINES: Final = 1_200
_REBUILD: Final = "scheduler_index_rebuild_seconds"


def figures(asked: Asked) -> Iterator[Figure]:
    """At each number of jobs: start, memory, CPU; then rebuilds, and what they do to a job that is due."""
    with Bed() as bed:
        for number in (1_000, 10_000) if asked.quick else NUMBERS:
            asked.say(f"  {number:,} jobs held")
            with bed.scene() as scene:
                scene.fill(_crons(number))
                yield from _start(asked, scene, number)
                yield from _rest(asked, scene, number, 10 if asked.quick else 60 if number == TARGETS_AT else 20)
                yield from _rebuilds(asked, scene, number, 30 if number == REBUILD_AT else 15)
        with bed.scene() as scene:
            number = 1_000 if asked.quick else PEERS_AT
            for name, memory, cpu in idle(scene, number, 10 if asked.quick else 20):
                yield Figure(f"{number:,} entries of {name} {PEERS[name]} held, memory", memory, "MB",
                             peer="Itinerary", peer_value=asked.series["idle: memory, MB"][number])  # fmt: skip
                yield Figure("  CPU with nothing due", cpu, "%", peer="Itinerary",
                             peer_value=asked.series["idle: CPU, %"][number])  # fmt: skip
    if asked.plots:
        against_n(asked.plots / "idle.svg", "What N jobs cost that only wait", "s, MB, %", asked.kept("idle"))


def _crons(number: int) -> Iterator[tuple[str, str]]:
    """Jobs of every minute of the day but the coming three hours, and the hour before."""
    moment = time.gmtime()
    first = moment.tm_hour * 60 + moment.tm_min + 180
    minutes = [(first + n) % 1440 for n in range(_LINES)]
    made = [jobs(number, {"kind": "cron", "expr": f"{at % 60} {at // 60} * * *"}, first=n, step=_LINES)
            for n, at in enumerate(minutes)]  # fmt: skip
    for some in made:
        yield from some


def _start(asked: Asked, scene: Scene, number: int) -> Iterator[Figure]:
    began = time.monotonic()
    scene.start_leader(900)
    seconds = time.monotonic() - began
    asked.point("idle: start, s", number, seconds)
    target = 10 if number == TARGETS_AT else None
    yield Figure(f"{number:,} jobs held, process start to leading with its index", seconds, "s", target=target)


def _rest(asked: Asked, scene: Scene, number: int, seconds: float) -> Iterator[Figure]:
    assert scene.leader is not None
    time.sleep(2)
    before = usage(scene.leader.pid)
    time.sleep(seconds)
    after = usage(scene.leader.pid)
    memory, cpu = after.rss / 1e6, 100 * (after.cpu - before.cpu) / seconds
    asked.point("idle: memory, MB", number, memory)
    asked.point("idle: CPU, %", number, cpu)
    is_target = number == TARGETS_AT
    yield Figure("  memory", memory, "MB", target=250 if is_target else None)
    yield Figure(f"  CPU over {seconds:.0f} s with nothing due", cpu, "%", target=1 if is_target else None)


def _rebuilds(asked: Asked, scene: Scene, number: int, seconds: float) -> Iterator[Figure]:
    """A job that comes makes the leader rebuild soon after; then it falls due each second."""
    count, spent = scene.metric(f"{_REBUILD}_count"), scene.metric(f"{_REBUILD}_sum")
    scene.add(jobs(1, EVERY_SECOND, prefix="tick"))
    began = time.time()
    while scene.metric(f"{_REBUILD}_count") == count or time.time() < began + seconds:
        time.sleep(0.5)
        assert time.time() < began + 300, f"no rebuild\n{scene.said}"
    rebuilds = scene.metric(f"{_REBUILD}_count") - count
    mean = (scene.metric(f"{_REBUILD}_sum") - spent) / rebuilds
    asked.point("idle: rebuild, s", number, mean)
    target = 2 if number == REBUILD_AT else None
    yield Figure(f"  rebuild of 10 minutes, mean of {rebuilds:.0f}", mean, "s", target=target)
    scene.client.delete("default")
    late = latencies(scene, began + 5, time.time() - 1)  # it is planned within two seconds of its making
    yield Figure("  meanwhile a job due each second, due to published, p50", 1e3 * late.published[0], "ms")
    yield Figure("    the same, p99", 1e3 * late.published[1], "ms", target=200)
