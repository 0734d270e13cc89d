"""Whole lives through one leader: made, released, published, claimed, started, ended, recorded, second after second.

The runs come from interval jobs. First they are answered by a worker that only claims and reports, in pipelines, so
that the leader is what is measured: for a minute at the rate to reach, then at others, until it does not keep up. Then
by real workers with a task that does nothing, beside the same workers with plain Celery messages.
"""

import time
from collections.abc import Iterator
from typing import Final

from celery import Celery

from tests.benchmarks.bed import QUEUE, Bed, usage
from tests.benchmarks.figures import Asked, Figure
from tests.benchmarks.limits_work import barest_writes, best_writes
from tests.benchmarks.lives import CHILDREN, PARTS, REAL_WORKER, Lives, flowing, watch
from tests.benchmarks.plots import over_time
from tests.support.processes import wait_until

RATE: Final = 3_000
STEPS: Final = (1_000, 4_000, 5_000)


def figures(asked: Asked) -> Iterator[Figure]:
    """The rate to reach, the most, and what real workers bear."""
    steady, warm, step = (10, 5, 5) if asked.quick else (60, 75, 20)
    drawn: dict[str, list[Lives]] = {}
    with Bed() as bed:
        rate = 500 if asked.quick else RATE
        asked.say(f"  {rate:,} runs a second for {steady} s")
        lives = _flow(bed, rate, steady, warm)
        drawn[f"{rate:,} a second"] = [lives]
        yield from _steady(lives, rate, steady)
        most = lives.rate
        for rate in (1_000,) if asked.quick else STEPS:
            asked.say(f"  {rate:,} runs a second for {step} s")
            lives = _flow(bed, rate, step, 10)
            asked.point("sustained, leader's CPU s a second", rate, lives.cpu["leader"] / step)
            most = max(most, lives.rate)
            drawn[f"{rate:,} a second"] = [lives]
            kept = "kept up" if lives.keeps_up else f"did not keep up: {lives.caught_up:,} owed"
            p99 = 1e3 * lives.latencies.published[1]
            yield Figure(f"offered {rate:,} a second ({kept}, due to published p99 {p99:,.0f} ms)", lives.rate,
                         "lives a second", better="higher")  # fmt: skip
        with bed.scene() as scene:
            bare = best_writes(barest_writes, scene, 2_000 if asked.quick else 20_000)
        limit = 1 / sum(1 / speed for speed in bare.values())
        yield Figure("most lives a second seen", most, "lives a second", target=None if asked.quick else RATE,
                     better="higher", peer="three bare writes of each row", peer_value=limit)  # fmt: skip
        asked.say("  real workers")
        yield from _real(bed, 300 if asked.quick else 600, step)
    if asked.plots:
        over_time(asked.plots / "sustained.svg", "Lives recorded by one leader", "lives a second",
                  {name: one.over_time for name, [one] in drawn.items()})  # fmt: skip
        over_time(asked.plots / "sustained-memory.svg", "The leader's memory", "MB",
                  {name: one.memory for name, [one] in drawn.items()})  # fmt: skip


def _flow(bed: Bed, rate: int, seconds: float, warm: float) -> Lives:
    """`warm`: ended runs are kept for half a minute, and after a minute a second index is built beside the first."""
    with flowing(bed, rate) as (scene, worker):
        time.sleep(warm)
        return watch(scene, worker, rate, seconds)


def _steady(lives: Lives, rate: int, seconds: float) -> Iterator[Figure]:
    published, started = lives.latencies.published, lives.latencies.started
    yield Figure(f"lives a second, offered {rate:,} for {seconds} s", lives.rate, "lives a second",
                 target=0.99 * rate, better="higher")  # fmt: skip
    yield Figure("  owed at the end", lives.caught_up, "runs", target=rate)
    yield Figure("  due to published, p50", 1e3 * published[0], "ms")
    yield Figure("  due to published, p99", 1e3 * published[1], "ms", target=200)
    yield Figure("  due to started, p99", 1e3 * started[1], "ms")
    early, late = lives.memory[4 if len(lives.memory) > 5 else 0][1], lives.memory[-1][1]
    yield Figure("  the leader's memory at the end", late, "MB")
    yield Figure("  the same, to 10 s after the beginning", late / early, "times", target=1.1)
    for part in PARTS:
        yield Figure(f"  CPU of {part} a life", 1e6 * lives.cpu[part] / max(1, lives.ended), "us")


def _real(bed: Bed, rate: int, seconds: float) -> Iterator[Figure]:
    with flowing(bed, rate, *REAL_WORKER) as (scene, worker):
        worker.wait_for_line("ready.", 30)
        time.sleep(5)
        lives = watch(scene, worker, rate, seconds)
    plain = _plain_celery(bed, 500 if rate < 1_000 else 5_000)
    yield Figure(f"real workers, {CHILDREN} processes, a task that does nothing", lives.rate, "lives a second",
                 better="higher", peer="the same workers, plain Celery messages", peer_value=plain)  # fmt: skip
    yield Figure("  their CPU a life", 1e6 * lives.cpu["workers"] / max(1, lives.ended), "us")


def _plain_celery(bed: Bed, number: int) -> float:
    """Messages a second that the same workers do without Itinerary: nothing is claimed and nothing is reported."""
    with bed.scene() as scene, Celery(broker=scene.redis_url, set_as_current=False) as app:
        with app.pool.acquire(block=True) as connection:
            producer = app.amqp.Producer(connection)
            for _ in range(number):
                app.send_task("itinerary.echo", queue=QUEUE, producer=producer, ignore_result=True)
        worker = scene.start(*REAL_WORKER)
        wait_until(lambda: scene.length() < number, 30, lambda: worker.output)
        began, left = time.time(), scene.length()
        wait_until(lambda: scene.length() == 0, 120, lambda: worker.output)
        assert usage(worker.pid).cpu > 0
        return left / (time.time() - began)
