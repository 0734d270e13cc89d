"""A million old runs pruned while runs fall due every second: what it costs those, and how long it takes."""

import time
from collections.abc import Iterator
from typing import Final

from tests.benchmarks.bed import Bed, Scene, intervals
from tests.benchmarks.figures import Asked, Figure
from tests.benchmarks.lives import Lives, watch
from tests.support.processes import wait_until

RATE: Final = 500
OLD: Final = 1_000_000
DAYS: Final = 30
_PRUNED: Final = 'scheduler_pruned_rows_total{table="runs"}'
# Of the same jobs as the runs that fall due, within a day, which one sweep goes; one in fifty needed a second attempt.
_RUNS: Final = """
INSERT INTO runs (run_id, kind, job_id, job_version, task, args, kwargs, queue, priority, scheduled_at, due_at, state,
                  attempt, pending_at, published_at, started_at, finished_at, worker, term, created_at)
SELECT job || '_' || n, 'occurrence', job, 1, 'itinerary.echo', '[]', '{"name": "value"}', 'default', 5, at, at,
       'completed', 1, at, at, at, at, 'celery@host', 1, at
FROM (SELECT n, now() - interval '90 days' + n * interval '80 ms' AS at, 'job-' || lpad((n %% %s)::text, 7, '0') AS job
      FROM generate_series(1, %s) n) AS made
"""
_ATTEMPTS: Final = (
    "INSERT INTO run_attempts (run_id, attempt, outcome) SELECT run_id, 1, 'lost' FROM runs WHERE id % 50 = 0"
)


def figures(asked: Asked) -> Iterator[Figure]:
    """The same flow before the sweep and during it, then the sweep alone."""
    rate, old, seconds = (200, 60_000, 2) if asked.quick else (RATE, OLD, 30)
    with Bed() as bed, bed.scene(ITINERARY_RETENTION=f"{DAYS}d") as scene:
        scene.fill(intervals(rate, 1))
        asked.say(f"  filling in {old:,} old runs")
        scene.sql.execute(_RUNS, (rate, old))
        scene.sql.execute(_ATTEMPTS)
        scene.sql.execute("VACUUM (ANALYZE) runs, run_attempts")
        worker = scene.start("-m", "tests.benchmarks.pipeline_worker")
        scene.start_leader()
        time.sleep(2 if asked.quick else 20)
        asked.say(f"  {rate:,} runs a second without pruning")
        before = watch(scene, worker, rate, seconds)
        assert not scene.metric(_PRUNED), "the sweep began too early"
        wait_until(lambda: scene.metric(_PRUNED), 90, lambda: scene.said, every=0.1)
        began = time.monotonic()
        asked.say("  and with it")
        during = watch(scene, worker, rate, seconds)
        assert scene.metric(_PRUNED) < old, "the sweep was over too soon to be measured"
        wait_until(lambda: _left(scene) == 0, 1_200, lambda: scene.said, every=1)
        yield from _latencies("due to published", before, during)
        yield Figure("lives a second meanwhile", during.rate, "lives a second", better="higher",
                     target=None if asked.quick else 0.99 * rate)  # fmt: skip
        yield Figure("old runs pruned", old / (time.monotonic() - began), "rows a second", better="higher")


def _latencies(name: str, before: Lives, during: Lives) -> Iterator[Figure]:
    for place, percentile in enumerate(("p50", "p99")):
        peer = 1e3 * before.latencies.published[place]
        yield Figure(f"{name} while pruning, {percentile}", 1e3 * during.latencies.published[place], "ms",
                     target=200 if place else None, peer="without", peer_value=peer)  # fmt: skip


def _left(scene: Scene) -> int:
    """How many runs are old still."""
    return int(scene.value(f"SELECT count(*) FROM runs WHERE scheduled_at < now() - interval '{DAYS} days'"))
