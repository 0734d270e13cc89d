"""Where a leader's time goes while whole lives flow through it: its CPU by stage, and how long each thread is busy.

py-spy looks at the leader's threads from outside, a hundred times a second; twice, since what waits for the database is
not on a CPU.
"""

import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.benchmarks.bed import Bed, Scene, usage
from tests.benchmarks.figures import Asked, Figure
from tests.benchmarks.lives import flowing
from tests.benchmarks.plots import bars

RATE: Final = 3_000
_FRAME: Final = re.compile(r"(?:.*\.)?(?P<function>[^. ]+) \((?:.*/)?(?P<file>\w+/\w+)\.py:\d+\)")
_RESTING: Final = "waiting for something to do"
_REST: Final = "everything else"
# Folder and file, or these and a function, to the stage that it is; the innermost on a stack counts.
STAGES: Final = {
    "leader/planning": "planning: rows of coming runs",
    "leader/dispatching": "dispatching: window, overlap, order",
    "leader/reports": "reports: what they change",
    "leader/results": "reports: what they change",
    "leader/redis_epoch": "epoch, low watermarks, in flight",
    "parts/watermarks": "epoch, low watermarks, in flight",
    "leader/in_flight": "epoch, low watermarks, in flight",
    "leader/iteration": "the pass around these",
    "metrics/leader": "metrics",
    "broker/inbox": "inbox: reading, or waiting for more",
    "loops/inbox_reader": "inbox: reading, or waiting for more",
    "leader/messages": "inbox: understanding",
    "leader/store.create_runs": "database: create rows",
    "leader/store.dispatch_runs": "database: dispatch rows",
    "leader/store.apply": "database: write reports",
    "engine/default.do_commit": "database: commit",
    "sql/lease": "lease",
    "broker/dispatcher": "publishing",
    "broker/message": "publishing",
    "broker/claims": "claims: forgetting, low watermarks",
    "leader/rebuilding": "index",
    "loops/job_watcher": "watching jobs",
    "observability/logs": "logs",
    "loops/command_thread._next": _RESTING,
    "loops/mailbox.drain": _RESTING,
}
THREADS: Final = ("MainThread", "run-syncer", "run-mover", "dispatcher", "redis-asker", "inbox-reader")


def figures(asked: Asked) -> Iterator[Figure]:
    """Shares of the leader's CPU, then of the seconds in which a thread has something in hand."""
    rate, seconds = (100, 5) if asked.quick else (RATE, 15)
    with Bed() as bed, flowing(bed, rate) as (scene, _):
        assert scene.leader is not None
        time.sleep(5 if asked.quick else 15)
        before = usage(scene.leader.pid)
        stacks = _recorded(scene, seconds, "--gil")
        cpu = (usage(scene.leader.pid).cpu - before.cpu) / seconds
        waiting = _recorded(scene, seconds, "--idle")
    yield Figure(f"the leader at {rate:,} runs a second, CPU", 100 * cpu, "% of a core")
    shares = _shares(stacks)
    for stage, share in shares.items():
        yield Figure(f"  {stage}", 100 * share, "% of what holds the interpreter")
    for thread in THREADS:
        spent = _shares(_of(waiting, thread))
        busy = 1 - spent.pop(_RESTING, 0)
        yield Figure(f"thread {thread}, has something in hand", 100 * busy, "% of the time")
        for stage, share in spent.items():
            yield Figure(f"  {stage}", 100 * share, "% of the time")
    if asked.plots:
        bars(asked.plots / "profile.svg", f"Where the leader's time goes at {rate:,} runs a second",
             "% of what holds the interpreter", {name: 100 * share for name, share in shares.items()})  # fmt: skip


def _recorded(scene: Scene, seconds: float, mode: str) -> Counter[tuple[str, ...]]:
    """How often each stack was seen, from its thread's name inwards."""
    assert scene.leader is not None
    out = scene.bed.folder / "stacks"
    program = Path(sys.executable).with_name("py-spy")
    words = [program, "record", "--pid", str(scene.leader.pid), "--duration", str(int(seconds)), "--threads", mode]
    subprocess.run([*words, "--format", "raw", "--output", out], check=True, capture_output=True, timeout=seconds + 60)
    found: Counter[tuple[str, ...]] = Counter()
    for line in out.read_text().splitlines():
        stack, _, number = line.rpartition(" ")
        found[tuple(stack.split(";"))] += int(number)
    return found


def _of(stacks: Counter[tuple[str, ...]], thread: str) -> Counter[tuple[str, ...]]:
    return Counter({stack: number for stack, number in stacks.items() if stack[0].endswith(thread)})


def _shares(stacks: Counter[tuple[str, ...]]) -> dict[str, float]:
    """By stage, the largest first; below one in a hundred goes into the rest."""
    seen: Counter[str] = Counter()
    for stack, number in stacks.items():
        seen[_stage(stack)] += number
    total = seen.total()
    small = [stage for stage, number in seen.items() if number < total / 100]
    seen[_REST] += sum(seen.pop(stage) for stage in small)
    return {stage: number / total for stage, number in seen.most_common() if number}


def _stage(stack: tuple[str, ...]) -> str:
    for frame in reversed(stack):
        match = _FRAME.match(frame)
        for key in (f"{match['file']}.{match['function']}", match["file"]) if match else ():
            if key in STAGES:
                return STAGES[key]
    return _REST
