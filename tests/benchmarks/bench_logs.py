"""What keeping logs costs a task that writes 100 MB of them, and how late a follower sees a line.

The same task, in one pool process of a real Celery worker whose own handler writes each line to its log file at level
INFO: with `attach(logs="records")` and `logs="nothing"`, in turns; and one that prints, with "output" and "nothing".
Compared are seconds of CPU of the task's process, by the median of the ratios of neighbours, since other programs of
the machine slow them all.
"""

import re
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import Final

from itinerary.protocol.attempt_logs import unpacked
from itinerary.protocol.keys import Keys
from scheduler_service.broker.logs import RedisLiveLogs, RedisSentLogs
from scheduler_service.core.leader.messages import Succeeded
from tests.benchmarks.figures import Asked, Figure
from tests.support.processes import Child
from tests.support.redis_server import RedisServer
from tests.support.worker_process import Bench, dispatched

SIZE: Final = 500
ROUNDS: Final = 5
ALL: Final = {"keep_logs": "all"}


def figures(asked: Asked) -> Iterator[Figure]:
    """First what it costs and keeps, then the delay of a follower, then what is left in Redis."""
    with (
        tempfile.TemporaryDirectory(prefix="itinerary-bench-") as folder,
        RedisServer(Path(folder)) as redis,
        Bench(redis.url, Path(folder)) as bench,
        closing(RedisSentLogs(redis.url)) as sent,
    ):
        yield from _cost(bench, sent, 10 if asked.quick else 100, 2 if asked.quick else ROUNDS)
        yield _delay(bench, 4 if asked.quick else 20)
        yield Figure("keys of logs in Redis, 16 s after", _left(bench, sent), "keys", target=0)


def _worker(bench: Bench, logs: str) -> Child:
    argv = ["-m", "celery", "-A", "tests.benchmarks.logs_work", "worker", "-n", f"{logs}@here", "-Q", logs, "-c", "1"]
    return bench.start([*argv, "-l", "INFO", "--logfile", str(bench.folder / f"{logs}.log")], LOGS=logs)


def _cost(bench: Bench, sent: RedisSentLogs, megabytes: int, rounds: int) -> Iterator[Figure]:
    for logs in ("records", "output", "nothing"):
        _worker(bench, logs)
    cpu: dict[str, list[float]] = {"records": [], "nothing": [], "output": [], "nothing printed": []}
    turns = [(n, logs) for n in range(rounds) for logs in cpu]
    for n, turn in turns:
        logs, *prints = turn.split()
        name = f"{logs}-{len(prints)}-{n}"
        prints_it = bool(prints) or logs == "output"
        bench.publish(dispatched(name, "bench.write", megabytes, SIZE, prints_it, queue=logs, headers=ALL))
        seconds, _ = bench.report_of(name, Succeeded, timeout=600).result
        cpu[turn].append(seconds)
        (bench.folder / f"{logs}.log").write_text("")
    for what, kept, plain in (("logs", "records", "nothing"), ("prints", "output", "nothing printed")):
        yield Figure(f"CPU of a task that {what} {megabytes} MB in lines of {SIZE} bytes", median(cpu[kept]), "s",
                     peer="without capture", peer_value=median(cpu[plain]))  # fmt: skip
        ratio = median(of / without for of, without in zip(cpu[kept], cpu[plain], strict=True))
        yield Figure("  of it for keeping", 100 * (ratio - 1), "%", target=5)
    stored, _ = sent.read(100, 0)
    yield Figure("kept of it", len(unpacked(stored[-1].compressed)), "bytes", better="higher", target=65_000)
    sent.forget([one.entry for one in stored])


def _delay(bench: Bench, seconds: int) -> Figure:
    bench.publish(dispatched("followed", "bench.tick", seconds, queue="records", headers=ALL))
    delays, seen, until = [], 0, time.monotonic() + seconds
    with closing(RedisLiveLogs(bench.url)) as live:
        while time.monotonic() < until:
            live.watch("followed~1")
            part = live.read("followed~1", seen, 100_000)
            if seen:
                delays += [time.time() - float(at) for at in re.findall(r"at (\d+\.\d+)", part.text)]
            seen = part.end
    bench.report_of("followed", Succeeded)
    return Figure("a line until a follower has it, the slowest", max(delays), "s", target=1)


def _left(bench: Bench, sent: RedisSentLogs) -> int:
    logs, _ = sent.read(100, 0)
    sent.forget([one.entry for one in logs])
    time.sleep(16)
    with closing(bench.client()) as client:
        return len(list(client.scan_iter(f"{Keys().logs}*")))
