"""How late runs are that fall due together each second: from due until in Redis, and until a worker has started them.

They fall due all at one instant, as crons of every second do, or, where there are many, spread over the second, as
intervals do. The record's own instants: published is when the leader knew that Redis had it, started is the worker's
word. Up to ten a second are run by real workers, more by one that claims and reports in pipelines, since real ones are
not idle then. Beside APScheduler 3 with as many crons of every second that call `send_task`; and, until started, beside
the same workers with as many plain Celery messages that come into their queue at once, until half of them are taken.
"""

import json
import time
from collections.abc import Iterator
from statistics import median
from typing import Final

from celery import Celery

from tests.benchmarks.bed import QUEUE, TASK, Bed
from tests.benchmarks.burst_peers import PEERS
from tests.benchmarks.figures import Asked, Figure
from tests.benchmarks.lives import REAL_WORKER, Latencies, flowing, latencies
from tests.benchmarks.plots import against_n

TOGETHER: Final = (1, 10, 100, 1_000)
SPREAD: Final = (100, 1_000)
REAL_UP_TO: Final = 10
PEER_UP_TO: Final = 100
MS: Final = 1e3
_ASIDE: Final = "aside"


def figures(asked: Asked) -> Iterator[Figure]:
    """Each number of runs a second for as long."""
    seconds, peer_seconds = (10, 5) if asked.quick else (60, 10)
    with Bed() as bed:
        cases = [(number, True) for number in TOGETHER] + [(number, False) for number in SPREAD]
        for number, together in ((1, True), (100, False)) if asked.quick else cases:
            when = "at one instant" if together else "spread over it"
            asked.say(f"  {number:,} due each second, {when}, for {seconds} s")
            found = _late(bed, number, seconds, together=together)
            peer = _peer(bed, number, peer_seconds) if together and number <= PEER_UP_TO else None
            for what, (p50, p99) in (("published", found.published), ("started", found.started)):
                if together:
                    asked.point(f"precision, ms: {what}, p50", number, MS * p50)
                    asked.point(f"precision, ms: {what}, p99", number, MS * p99)
                name, named = (
                    f"{number:,} due each second, {when}, due to {what}",
                    f"APScheduler {PEERS['APScheduler']}",
                )
                beside = peer if what == "published" else None
                if what == "started" and number <= REAL_UP_TO:
                    named, beside = "plain Celery messages, taken", _taken(bed, number, peer_seconds)
                yield _figure(f"{name}, p50", p50, 20, named, beside and beside[0])
                yield _figure(f"{name}, p99", p99, 200, named, beside and beside[1])
            yield Figure("  the least of all: never early", MS * found.least, "ms", target=0, better="higher")
    if asked.plots:
        kept = {
            name.partition(": ")[2]: points for name, points in asked.series.items() if name.startswith("precision")
        }
        against_n(asked.plots / "precision.svg", "How late N runs are that fall due at one instant", "ms", kept)


def _figure(name: str, seconds: float, target: float, peer: str, beside: float | None) -> Figure:
    if beside is None:
        return Figure(name, MS * seconds, "ms", target=target)
    return Figure(name, MS * seconds, "ms", target=target, peer=peer, peer_value=MS * beside)


def _late(bed: Bed, number: int, seconds: float, *, together: bool) -> Latencies:
    worker = REAL_WORKER if number <= REAL_UP_TO else ()
    with flowing(bed, number, *worker, together=together) as (scene, answering):
        if worker:
            answering.wait_for_line("ready.", 30)
        time.sleep(3)
        began = time.time()
        time.sleep(seconds)
        until = time.time() - 1
        time.sleep(2)  # what fell due before `until` is written by now, unless it is late
        return latencies(scene, began, until)


def _peer(bed: Bed, number: int, seconds: float) -> tuple[float, float]:
    with bed.scene() as scene:
        child = scene.start("-m", "tests.benchmarks.precision_peer", str(number), str(seconds))
        p50, p99 = json.loads(child.wait_for_line("[", seconds + 30))
        return p50, p99


def _taken(bed: Bed, number: int, rounds: float) -> tuple[float, float]:
    """Seconds until the same workers have taken half of `number` plain messages, and all: the median of the rounds."""
    halves, wholes = [], []
    with bed.scene() as scene, Celery(broker=scene.redis_url, set_as_current=False) as app:
        worker = scene.start(*REAL_WORKER)
        worker.wait_for_line("ready.", 30)
        for _ in range(int(rounds)):
            for _ in range(number):
                app.send_task(TASK, queue=_ASIDE, ignore_result=True)
            began = time.monotonic()
            scene.client.rename(_ASIDE, QUEUE)
            for left, found in ((number // 2, halves), (0, wholes)):
                while scene.length() > left:
                    assert time.monotonic() < began + 30, worker.output[-3000:]
                found.append(time.monotonic() - began)
            time.sleep(0.5)
    return median(halves), median(wholes)
