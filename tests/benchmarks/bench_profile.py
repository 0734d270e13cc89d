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
_FRAME: Final = re.compile(r"(?:.*\.)?(?P<function>[^. ]+) \((?:.*/)?(?P<file>\w+)\.py:\d+\)")
_RESTING: Final = "waiting for something to do"
_REST: Final = "everything else"
# File, or file and function, to the stage that it is; the innermost on a stack counts.
STAGES: Final = {
    "planning": "planning: rows of coming runs",
    "releasing": "releasing: window, overlap, order",
    "reporting": "reports: what they change",
    "feedback": "reports: what they change",
    "generation": "generation, floors, watching",
    "floor": "generation, floors, watching",
    "watching": "generation, floors, watching",
    "iteration": "the pass around these",
    "metrics": "metrics",
    "redis_inbox": "inbox: reading, or waiting for more",
    "inbox_reader": "inbox: reading, or waiting for more",
    "messages": "inbox: understanding",
    "sql_leader.make_runs": "database: make rows",
    "sql_leader.move_runs": "database: move rows",
    "sql_leader.apply": "database: write reports",
    "default.do_commit": "database: commit",
    "sql_lease": "lease",
    "celery_dispatcher": "publishing",
    "celery_message": "publishing",
    "redis_claims": "claims: forgetting, floors",
    "rebuilding": "index",
    "job_watcher": "watching jobs",
    "logs": "logs",
    "effect_thread._next": _RESTING,
    "mailbox.drain": _RESTING,
}
THREADS: Final = ("MainThread", "run-syncer", "run-mover", "dispatcher", "inbox-reader")


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
