"""How late other jobs' runs are published while jobs are edited: edits one by one at a rate, and one apply of many.

An edit does what PUT does: a version in the database with another definition, then an entry in the inbox. Edited in
turn are 300 jobs of every second, created before; nobody runs their queue, so that their overlap rule skips their runs.
Half of the machine is busy with other work. The probes are jobs of every second in a queue of their own. Figures of
their own tell what the probes take while nothing is edited, beside none, beside these 300 and beside 1,000 such jobs.
"""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from statistics import quantiles
from typing import Any, Final

from sqlalchemy import ColumnElement, func, select

from itinerary.protocol.instants import MILLISECOND, SECOND
from scheduler_service.broker.inbox import RedisInbox
from scheduler_service.core.audit import AuditedChange
from scheduler_service.core.contract.job_json import read_job
from scheduler_service.core.contract.job_plan import JobSet
from scheduler_service.core.model import Job
from scheduler_service.sql.database import Database, host_now
from scheduler_service.sql.job_sets import SqlJobSets
from scheduler_service.sql.jobs import SqlJobStore
from scheduler_service.sql.migrations import upgrade
from scheduler_service.sql.tables import runs
from tests.benchmarks.bed import TASK, Bed, Scene
from tests.benchmarks.figures import Asked, Figure
from tests.support.processes import wait_until

RATES: Final = (10, 50, 200)
CREATED: Final = 10
APPLIED: Final = 1_000
EDITED: Final = 300
STANDING: Final = (300, 1_000)
PROBES: Final = 20
LATEST: Final = 200
_PROBED, _EDITED = "probed", "edited"
_BUSY: Final = "while True: pass"
_DEED: Final = AuditedChange("bench", "admin", "replace_job")


def figures(asked: Asked) -> Iterator[Figure]:
    """On each database: at rest, beside standing jobs, at each rate, and while a thousand jobs are applied."""
    seconds = 5 if asked.quick else 20
    with Bed() as bed, _busy((os.cpu_count() or 2) // 2):
        for kind in ("PostgreSQL", "SQLite"):
            with _leading(bed, kind) as editor:
                rest = _late(editor, seconds, lambda: None)
            yield Figure(f"{kind}, nothing edited, due to published, p99", rest, "ms")
            for number in STANDING:
                with _leading(bed, kind, number) as editor:
                    late = _late(editor, seconds, lambda: None)
                yield _figure(f"{kind}, nothing edited, beside {number:,} jobs of every second", late, rest)
            for rate in RATES[:1] if asked.quick else RATES:
                with _leading(bed, kind, EDITED) as editor:
                    done: list[float] = []
                    late = _late(editor, seconds, lambda e=editor, r=rate, d=done: d.append(e.edit(r, seconds)))  # type: ignore[misc]
                name = f"{kind}, {rate} edits a second of {EDITED} jobs of every second ({done[0]:.0f} came through)"
                yield _figure(name, late, rest)
            with _leading(bed, kind) as editor:
                late = _late(editor, seconds, lambda e=editor: e.create(CREATED, seconds))  # type: ignore[misc]
            yield _figure(f"{kind}, {CREATED} new jobs of every second, a second", late, rest)
            with _leading(bed, kind) as editor:
                late = _late(editor, seconds, editor.apply)
            yield _figure(f"{kind}, an apply of {APPLIED:,}", late, rest)


def _figure(name: str, late: float, rest: float) -> Figure:
    return Figure(f"{name}, due to published, p99", late, "ms", target=LATEST, peer="nothing edited", peer_value=rest)


class Editor:
    """What the API does of an edit, without its HTTP, so that the leader is what is measured."""

    def __init__(self, scene: Scene, database: Database, inbox: RedisInbox) -> None:
        self.scene, self.database = scene, database
        self._jobs, self._sets, self._inbox = SqlJobStore(database), SqlJobSets(database), inbox

    def edit(self, rate: int, seconds: float) -> float:
        """Change the standing jobs in turn at this rate; return how many changes a second came through."""
        return self._one_by_one(rate, seconds, lambda number: job_of(f"{_EDITED}-{number % EDITED}", number=number))

    def create(self, rate: int, seconds: float) -> float:
        """Create jobs at this rate; return how many a second came through."""
        return self._one_by_one(rate, seconds, lambda number: job_of(f"{_EDITED}-{number}"))

    def _one_by_one(self, rate: int, seconds: float, wanted: Callable[[int], Job]) -> float:
        began, turn = time.monotonic(), iter(range(1, int(rate * seconds) + 1))
        lock, done = threading.Lock(), 0

        def work() -> None:
            nonlocal done
            while True:
                with lock:
                    number = next(turn, None)
                if number is None or time.monotonic() > began + seconds:
                    return
                time.sleep(max(0.0, began + number / rate - time.monotonic()))
                job, _ = self._jobs.replace(wanted(number), None, by=_DEED)
                news = {"job_id": job.job_id, "change": "added" if job.version == 1 else "modified"}
                self._inbox.send("job_changed", host_now(), news)
                with lock:
                    done += 1

        with ThreadPoolExecutor(4) as pool:
            for result in [pool.submit(work) for _ in range(4)]:
                result.result()
        return done / seconds

    def apply(self, number: int = APPLIED, every: str = "1m") -> None:
        """Create them all at once, as from a file."""
        wanted = JobSet("bench", [job_of(f"{_EDITED}-{n}", every=every) for n in range(number)])
        plan = self._sets.apply(wanted, None, by=_DEED)
        for news in plan.news:
            self._inbox.send("job_changed", host_now(), news)

    def probe(self) -> None:
        """Create the jobs whose runs are measured."""
        for number in range(PROBES):
            self._jobs.create(job_of(f"{_PROBED}-{number}", queue=_PROBED, overlap="allow"))

    def unpublished(self, since: int, until: int) -> int:
        """How many runs of the probes were due in between and are not known to be published."""
        wanted = select(func.count()).where(*self._due(since, until), runs.c.published_at.is_not(None))
        with self.database.read() as connection:
            return PROBES * ((until - since) // SECOND) - int(connection.execute(wanted).scalar_one())

    def lateness(self, since: int, until: int) -> list[float]:
        """Of what the probes owed in between, in milliseconds."""
        wanted = select(runs.c.due_at, runs.c.published_at).where(*self._due(since, until))
        with self.database.read() as connection:
            return [(at - due) / MILLISECOND for due, at in connection.execute(wanted)]

    def _due(self, since: int, until: int) -> tuple[ColumnElement[bool], ...]:
        return (runs.c.queue == _PROBED, runs.c.due_at >= since, runs.c.due_at < until)


def job_of(
    job_id: str, *, queue: str = _EDITED, overlap: str = "skip", every: str = "1s", number: int | None = None
) -> Job:
    """A job of an interval; the number makes its definition another one."""
    body: dict[str, Any] = {"job_id": job_id, "task": TASK, "queue": queue, "overlap": overlap,
                            "schedule": {"kind": "interval", "every": every}}  # fmt: skip
    if number is not None:
        body["args"] = [number]
    return read_job(body, created_at=host_now())[0]


def _late(editor: Editor, seconds: float, action: Callable[[], object]) -> float:
    """The p99 of the probes over so long, `action` going on beside."""
    since = (host_now() // SECOND + 1) * SECOND
    beside = threading.Thread(target=action)
    beside.start()
    time.sleep(max(0.0, (since + int(seconds) * SECOND - host_now()) / SECOND))
    beside.join()
    # When it was published is written along with what comes later.
    wait_until(lambda: not editor.unpublished(since, since + int(seconds) * SECOND), 60, lambda: editor.scene.said)
    return quantiles(editor.lateness(since, since + int(seconds) * SECOND), n=100)[98]


@contextmanager
def _leading(bed: Bed, kind: str, standing: int = 0) -> Iterator[Editor]:
    """A leader with its probes and this many jobs of every second, which have run for a while."""
    with ExitStack() as stack:
        # Nobody works here: of a queue without workers only a hundred runs would be published.
        scene = stack.enter_context(bed.scene(ITINERARY_PUBLISH_WINDOW="1000000"))
        if kind == "SQLite":
            url = f"sqlite:///{bed.folder / f'{time.monotonic_ns()}.db'}"
            upgrade(url)
            scene.env["ITINERARY_DATABASE_URL"] = url
        database = stack.enter_context(closing(Database(scene.env["ITINERARY_DATABASE_URL"])))
        editor = Editor(scene, database, stack.enter_context(closing(RedisInbox(scene.redis_url))))
        scene.start_leader()
        editor.probe()
        if standing:
            editor.apply(standing, "1s")
        time.sleep(12 if standing else 8)
        yield editor


@contextmanager
def _busy(number: int) -> Iterator[None]:
    """So many processors taken by others."""
    others = [subprocess.Popen([sys.executable, "-c", _BUSY]) for _ in range(number)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()
