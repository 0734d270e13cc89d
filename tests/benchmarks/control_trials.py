"""Limited runs through leaders and workers that are killed in between, and what the tasks' own files say of it."""

import json
import random
import signal
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from itinerary.protocol.limits import LimitUse, lane_of, limits_text
from tests.benchmarks.bed import QUEUE, Bed, Scene
from tests.support.processes import Child, free_port, wait_until

KILL_EVERY: Final = 10.0
_TASK: Final = "faulty.note"
_PUT_LIMIT: Final = """
INSERT INTO limits (name, concurrency, rate_count, rate_per, per_key, overrides, description, created_at, updated_at)
VALUES (%(name)s, %(concurrency)s, %(count)s, %(per)s, %(per_key)s, '{}', '', now(), now())
"""
_OTHERS: Final = (
    "INSERT INTO queues (queue, description, concurrency, fair)"
    " SELECT 'fair' || n, '', 20, true FROM generate_series(1, 5) AS n",
    """INSERT INTO freezes (scope, during, starts_at, reason, created_at, created_by) VALUES
       ('{"queues": ["frozen"]}', 'hold', now(), 'a deploy', now(), 'bench'),
       ('{"tags": ["heavy"]}', 'hold', now(), 'a deploy', now(), 'bench')""",
)
_NEW_VERSION: Final = """
INSERT INTO control (shard, version) VALUES (0, 1) ON CONFLICT (shard) DO UPDATE SET version = control.version + 1
"""
_ENQUEUE: Final = """
INSERT INTO runs (run_id, kind, task, args, kwargs, queue, priority, scheduled_at, due_at, created_at, retry, limits,
                  lane)
SELECT %(prefix)s || n, 'adhoc', %(task)s, '[]', CAST(%(kwargs)s AS json), %(queue)s, 5, now(), now(), now(), %(retry)s,
       %(limits)s, %(lane)s
FROM generate_series(1, %(number)s) AS n
"""
_RETRY: Final = json.dumps({"max_attempts": 10, "initial": "100ms", "jitter": False})
_WITHOUT_LEADER: Final = """
SELECT extract(epoch FROM confirmed_at), extract(epoch FROM lead(began_at, 1, (
    SELECT acquired_at FROM leases)) OVER (ORDER BY term)) FROM leaderships
"""
_LOST: Final = """
SELECT run_id || '~' || attempt, extract(epoch FROM started_at), extract(epoch FROM finished_at), outcome
FROM run_attempts WHERE outcome = 'lost' AND started_at IS NOT NULL
"""

Span = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Task:
    """One execution as its own file has it; `end` is None if its process was killed."""

    task_id: str
    key: str
    start: float
    end: float | None


def put_limit(scene: Scene, name: str, concurrency: int | None = None, rate: tuple[int, int] | None = None) -> None:
    """A limit; with a rate (count, seconds) it has no keys."""
    count, per = rate or (None, None)
    values = {"name": name, "concurrency": concurrency, "count": count, "per_key": rate is None}
    with scene.sql.transaction():
        scene.sql.execute(_PUT_LIMIT, {**values, "per": None if per is None else per * 1_000_000})
        scene.sql.execute(_NEW_VERSION)


def enqueue(
    scene: Scene, number: int, use: LimitUse | None, seconds: float, task: str = _TASK, part: int = 0,
    queue: str = QUEUE,
) -> None:  # fmt: skip
    """Runs that are due at once, as a million at a time can be made."""
    uses = () if use is None else (use,)
    values = {
        "prefix": f"adhoc_{use.name}-{use.key or ''}-" if use else f"adhoc_free-{part}-", "task": task, "retry": _RETRY,
        "number": number, "queue": queue, "kwargs": json.dumps({"seconds": seconds} if seconds else {}),
        "limits": limits_text(uses), "lane": lane_of(uses),
    }  # fmt: skip
    scene.sql.execute(_ENQUEUE, values)


def define_for_others(scene: Scene) -> None:
    """20 limits, fair queues with bounds, freezes; and runs of each limit that wait in those queues."""
    with scene.sql.transaction():
        for statement in _OTHERS:
            scene.sql.execute(statement)
    for number in range(20):
        put_limit(scene, f"other{number}", 5, (90, 10) if number % 2 else None)
        use = LimitUse(f"other{number}", None if number % 2 else "k")
        enqueue(scene, 10, use, 0, queue=f"fair{1 + number % 5}" if number % 4 else "frozen")


class Parts:
    """Two leaders and some workers of a scene, each started again after it was killed."""

    def __init__(self, scene: Scene, workers: int, concurrency: int, record: Path) -> None:
        self._scene, self._record = scene, record
        self._worker_words = ("-m", "itinerary", "--app", "tests.e2e.faulty_app:app", "-c", str(concurrency))
        self.workers = [self._worker() for _ in range(workers)]
        for worker in self.workers:
            worker.wait_for_line("ready.", 60)
        self.leaders = [scene.start_leader(), self._standby()]

    def _worker(self) -> Child:
        return self._scene.start(*self._worker_words, RECORD_FILE=str(self._record))

    def _standby(self) -> Child:
        return self._scene.start("-m", "scheduler_service.cli", "leader", ITINERARY_METRICS_PORT=str(free_port()))

    def kill_a_worker(self) -> None:
        """With all its children, and start another one in its place."""
        number = random.randrange(len(self.workers))
        self.workers[number].kill()
        self.workers[number] = self._worker()

    def end_the_leader(self, number: signal.Signals = signal.SIGKILL) -> None:
        """And start another one, which stands by."""
        leader = self.leaders.pop(0)
        leader.signal(number)
        leader.wait(30)
        self.leaders.append(self._standby())


@contextmanager
def trial(bed: Bed, workers: int, concurrency: int) -> Iterator[tuple[Scene, Parts, Path]]:
    """The parts of one trial over an empty database."""
    with bed.scene(ITINERARY_LOST_AFTER="6s") as scene:
        record = bed.folder / f"record-{time.monotonic_ns()}.jsonl"
        yield scene, Parts(scene, workers, concurrency, record), record


def await_starts(scene: Scene, number: int = 1) -> None:
    """Until so many runs have started."""
    started = "SELECT count(*) FROM (SELECT FROM runs WHERE started_at IS NOT NULL LIMIT %s) AS started"
    wait_until(lambda: scene.value(started, number) >= number, 120, lambda: scene.said)


def passed(seconds: float) -> None:
    """Let the load run: its length is what is measured."""
    threading.Event().wait(seconds)


def tasks(record: Path) -> list[Task]:
    """What the tasks recorded, by their start."""
    starts: dict[str, list[float]] = defaultdict(list)
    ends: dict[str, list[float]] = defaultdict(list)
    for line in record.read_text().splitlines():
        facts: dict[str, Any] = json.loads(line)
        (starts if facts["event"] == "start" else ends)[facts["task_id"]].append(facts["at"])
    found = [
        Task(task_id, task_id.split("-")[1], at, next(iter(ends[task_id][number:]), None))
        for task_id, times in starts.items()
        for number, at in enumerate(times)
    ]
    return sorted(found, key=lambda task: task.start)


def most_at_once(found: Sequence[Task], killed: Mapping[str, float]) -> int:
    """The most tasks of one key at once; one whose process was killed counts until its attempt was declared lost."""
    most = 0
    changes: dict[str, list[tuple[float, int]]] = defaultdict(list)
    for task in found:
        end = task.end if task.end is not None else killed.get(task.task_id)
        if end is not None:
            changes[task.key] += [(task.start, 1), (end, -1)]
    for of_key in changes.values():
        running = 0
        for _, change in sorted(of_key):
            running += change
            most = max(most, running)
    return most


def lost_attempts(scene: Scene) -> dict[str, Span]:
    """From its start until it was declared lost, by task id."""
    return {task_id: (float(start), float(end)) for task_id, start, end, _ in scene.sql.execute(_LOST)}


def without_leader(scene: Scene, since: float, until: float) -> list[Span]:
    """The times between a leader's last sign of life and the next one's start."""
    spans = [(max(since, float(a)), min(until, float(b))) for a, b in scene.sql.execute(_WITHOUT_LEADER)]
    return [(start, end) for start, end in spans if start < end]


def covered(spans: Sequence[Span], outside: Sequence[Span], since: float, until: float) -> float:
    """The sum of the spans' lengths between `since` and `until`, those parts excepted that lie in `outside`."""
    total = 0.0
    for start, end in spans:
        start, end = max(start, since), min(end, until)
        if start < end:
            total += end - start - sum(max(0.0, min(end, b) - max(start, a)) for a, b in outside)
    return total


def windows(starts: Sequence[float], per: float) -> tuple[int, Counter[int]]:
    """The most starts within any window of `per` seconds, and the number in each whole window since the first."""
    most = first = 0
    for last, at in enumerate(starts):
        while at - starts[first] >= per:
            first += 1
        most = max(most, last - first + 1)
    return most, Counter(int((at - starts[0]) // per) for at in starts)


def longest_pause(starts: Sequence[float]) -> float:
    """The longest time between two starts."""
    return max((later - before for before, later in pairwise(starts)), default=0.0)
