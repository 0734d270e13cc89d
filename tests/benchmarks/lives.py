"""Runs of schedules through one leader for some seconds, whole lives, and what that cost each process."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from tests.benchmarks.bed import Bed, Scene, intervals, jobs, usage
from tests.support.processes import Child

CHILDREN: Final = 2
REAL_WORKER: Final = ("-m", "scheduler_service.cli", "worker", "-c", str(CHILDREN))
PARTS: Final = ("leader", "PostgreSQL", "Redis", "workers")
EVERY_SECOND: Final = {"kind": "interval", "every": "1s"}
# What is not published or started yet at the end has waited until then, at least: leaving it out would flatter.
_LATENCIES: Final = """
SELECT count(*),
       percentile_cont(ARRAY[0.5, 0.99]) WITHIN GROUP (ORDER BY extract(epoch FROM published - due_at)),
       percentile_cont(ARRAY[0.5, 0.99]) WITHIN GROUP (ORDER BY extract(epoch FROM started - due_at)),
       min(extract(epoch FROM least(published, started) - due_at))
FROM (
    SELECT due_at, coalesce(published_at, started_at, to_timestamp(%(until)s)) AS published,
           coalesce(started_at, to_timestamp(%(until)s)) AS started
    FROM runs WHERE due_at >= to_timestamp(%(since)s) AND due_at < to_timestamp(%(until)s)
) AS due
"""


@dataclass(frozen=True, slots=True)
class Latencies:
    """Seconds from due, over `count` runs: p50 and p99 until published and until started, and the least of all."""

    count: int
    published: tuple[float, float]
    started: tuple[float, float]
    least: float


@dataclass(frozen=True, slots=True)
class Lives:
    """What came of a window: `rate` lives ended a second of `offered`; CPU seconds and final bytes of each part;
    the leader's `memory` and the lives recorded over the seconds.
    """

    offered: float
    rate: float
    latencies: Latencies
    cpu: dict[str, float]
    ended: int
    memory: tuple[tuple[float, float], ...]
    over_time: tuple[tuple[float, float], ...]
    caught_up: int

    @property
    def keeps_up(self) -> bool:
        """Whether what fell due was recorded as ended, all but a second of it."""
        return self.caught_up <= self.offered


@contextmanager
def flowing(bed: Bed, rate: int, *worker: str, together: bool = False) -> Iterator[tuple[Scene, Child]]:
    """A leader over `rate` jobs of each second, due spread over it or `together` at its beginning, and who answers."""
    with bed.scene() as scene:
        scene.fill(jobs(rate, EVERY_SECOND) if together else intervals(rate, 1))
        answering = scene.start(*(worker or ("-m", "tests.benchmarks.pipeline_worker")))
        scene.start_leader()
        yield scene, answering


def watch(scene: Scene, worker: Child, rate: float, seconds: float) -> Lives:
    """Look at a flow for some seconds."""
    assert scene.leader is not None
    pids = dict(zip(PARTS, (scene.leader.pid, scene.bed.postgres.pid, scene.bed.redis.pid, worker.pid), strict=True))
    ended, began = _ended(scene), time.time()
    before = {part: usage(pid) for part, pid in pids.items()}
    memory, over_time, last = [], [], (began, ended)
    while (at := time.time()) < began + seconds:
        time.sleep(min(2.0, began + seconds - at))
        memory.append((time.time() - began, usage(pids["leader"]).rss / 1e6))
        now = (time.time(), _ended(scene))
        over_time.append((now[0] - began, (now[1] - last[1]) / (now[0] - last[0])))
        last = now
    after = {part: usage(pid) for part, pid in pids.items()}
    until, ended_until = last
    time.sleep(1)  # the last of the window are written meanwhile; what is owed after that was not kept up with
    caught_up = scene.value("SELECT count(*) FROM runs WHERE due_at < to_timestamp(%s) AND state <> 'completed'", until)
    return Lives(
        rate,
        (ended_until - ended) / (until - began),
        latencies(scene, began, until),
        {part: after[part].cpu - before[part].cpu for part in PARTS},
        ended_until - ended,
        tuple(memory),
        tuple(over_time),
        caught_up,
    )


def latencies(scene: Scene, since: float, until: float) -> Latencies:
    """Of the runs that fell due in between, as the record has it now."""
    row = scene.sql.execute(_LATENCIES, {"since": since, "until": until}).fetchone()
    assert row is not None
    assert row[0], f"nothing fell due\n{scene.said}"
    (p50, p99), (started_p50, started_p99) = row[1], row[2]
    return Latencies(row[0], (p50, p99), (started_p50, started_p99), float(row[3]))


def _ended(scene: Scene) -> int:
    return int(scene.metric('scheduler_runs_total{state="completed"}'))
