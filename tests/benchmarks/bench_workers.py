"""What the claim and the report cost real workers: their runs a second, to the plain Celery messages they take.

One worker of the product takes queues of plain messages and of runs by turns, both of a task that does nothing, without
a leader beside it: pools of 2, 8 and 32, of processes, threads and greenlets, on a Redis that syncs each write and on
one that syncs each second. Compared are neighbouring turns, and the CPU of the worker's main process, of its children
and of Redis. Then py-spy shows whose code the worker runs meanwhile: Celery's or ours.
"""

import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final
from uuid import uuid4

import psutil
import redis
from celery import Celery

from itinerary.protocol.keys import Keys
from tests.benchmarks.bed import QUEUE, TASK, usage
from tests.benchmarks.figures import Asked, Figure
from tests.support.processes import Child, wait_until
from tests.support.redis_server import RedisServer
from tests.support.worker_process import Bench, dispatched

RATIO: Final = 0.9
SYNCS: Final = ("always", "everysec")
POOLS: Final = ("prefork", "threads", "gevent")
SIZES: Final = (2, 8, 32)
_PARTS: Final = ("main process", "children", "Redis")
# The innermost frame of these folders says whose code a stack is.
_OWNERS: Final = {
    "itinerary/": "Itinerary",
    "celery/": "Celery, kombu, billiard",
    "kombu/": "Celery, kombu, billiard",
    "billiard/": "Celery, kombu, billiard",
}


@dataclass(frozen=True, slots=True)
class Turn:
    """One queue taken: messages a second, and seconds of CPU a message of each part."""

    rate: float
    cpu: dict[str, float]


def figures(asked: Asked) -> Iterator[Figure]:
    """The ratio for each sync, pool and size, then the profile of the smallest pool of processes."""
    sizes, rounds, number = (SIZES[:1], 1, 100) if asked.quick else (SIZES, 3, 400)
    for sync in SYNCS:
        for pool in POOLS:
            for size in sizes:
                with working(sync, pool, size) as (bench, worker, pid):
                    yield from _compared(f"{pool} -c {size}, {sync}", _Turns(bench, worker, pid), rounds, number)
    for kind in ("plain messages", "runs"):
        with working("always", "prefork", 2) as (bench, worker, pid):
            yield from _profile(bench, worker, kind, _Turns(bench, worker, pid), 2 if asked.quick else 10)


@contextmanager
def working(sync: str, pool: str, size: int) -> Iterator[tuple[Bench, Child, int]]:
    """A worker that is ready, and the pid of its Redis."""
    with (
        tempfile.TemporaryDirectory(prefix="itinerary-bench-") as folder,
        RedisServer(Path(folder), None, "--appendfsync", sync) as server,
        Bench(server.url, Path(folder)) as bench,
    ):
        worker = bench.own_worker("worker", "-P", pool, "-c", str(size), "-l", "warning")
        yield bench, worker, server.pid


class _Turns:
    """The turns of one worker."""

    def __init__(self, bench: Bench, worker: Child, redis_pid: int) -> None:
        self._bench, self._worker, self._redis_pid = bench, worker, redis_pid
        self._client: redis.Redis = bench.client()
        self._plain = _plain_message(bench)

    def plain(self, number: int) -> Turn:
        """Of plain messages."""
        messages = [self._plain.replace(_ID, str(uuid4())) for _ in range(number)]
        return self._taken(number, lambda: self._client.lpush(QUEUE, *messages))

    def runs(self, number: int) -> Turn:
        """Of runs, each of which has its report when this returns."""
        names = [uuid4().hex for _ in range(number)]
        self._client.delete(Keys().inbox)
        turn = self._taken(
            number, lambda: self._bench.publish(*(dispatched(name, TASK, queue=QUEUE) for name in names))
        )
        reports = [Keys().result(f"{name}~1") for name in names]
        wait_until(lambda: self._client.exists(*reports) == number, 60)
        return turn

    def _taken(self, number: int, push: Any) -> Turn:
        before = self._cpu()
        push()
        began = time.monotonic()
        wait_until(lambda: self._client.llen(QUEUE) == 0, 300, lambda: self._worker.output[-3000:], every=0.005)
        spent = time.monotonic() - began
        time.sleep(0.3)  # what the last of them cost belongs to this turn
        after = self._cpu()
        return Turn(number / spent, {part: (after[part] - before[part]) / number for part in _PARTS})

    def _cpu(self) -> dict[str, float]:
        times = psutil.Process(self._worker.pid).cpu_times()
        main = times.user + times.system
        all_of_it = usage(self._worker.pid).cpu
        return dict(zip(_PARTS, (main, all_of_it - main, usage(self._redis_pid).cpu), strict=True))


_ID: Final = "the-id-of-this-one"


def _plain_message(bench: Bench) -> str:
    """A message of the task as Celery sends it, with an id to replace."""
    with Celery(broker=bench.url, set_as_current=False) as app, bench.client() as client:
        app.send_task(TASK, queue="template", task_id=_ID, ignore_result=True)
        message: Any = client.rpop("template")
    return str(message).replace('"template"', f'"{QUEUE}"')


def _compared(name: str, turns: _Turns, rounds: int, number: int) -> Iterator[Figure]:
    turns.plain(min(number, 100))
    turns.runs(min(number, 100))
    pairs = [(turns.runs(number), turns.plain(number)) for _ in range(rounds)]
    ratio = median(ours.rate / plain.rate for ours, plain in pairs)
    yield Figure(f"{name}", median(ours.rate for ours, _ in pairs), "runs a second", better="higher",
                 peer="plain messages", peer_value=median(plain.rate for _, plain in pairs))  # fmt: skip
    yield Figure("  a run to a plain message, by neighbours", ratio, "of the rate", target=RATIO, better="higher")
    for part in _PARTS:
        ours, plain = (1e6 * median(turn.cpu[part] for turn in kind) for kind in zip(*pairs, strict=True))
        yield Figure(f"  CPU of the {part} a run", ours, "us", peer="a plain message", peer_value=plain)


def _profile(bench: Bench, worker: Child, kind: str, turns: _Turns, seconds: int) -> Iterator[Figure]:
    out = bench.folder / "stacks"
    program = Path(sys.executable).with_name("py-spy")
    words = [str(program), "record", "--pid", str(worker.pid), "--duration", str(seconds), "--subprocesses", "--gil"]
    with subprocess.Popen([*words, "--format", "raw", "--output", str(out)], stderr=subprocess.DEVNULL) as recording:
        while recording.poll() is None:
            turns.plain(100) if kind == "plain messages" else turns.runs(100)
    seen: Counter[str] = Counter()
    for line in out.read_text().splitlines():
        stack, _, times = line.rpartition(" ")
        seen[_owner(stack)] += int(times)
    for owner, number in seen.most_common():
        yield Figure(f"profile of {kind}: {owner}", 100 * number / seen.total(), "% of what holds the interpreter")


def _owner(stack: str) -> str:
    for frame in reversed(stack.split(";")):
        for folder, owner in _OWNERS.items():
            if folder in frame:
                return owner
    return "the rest"
