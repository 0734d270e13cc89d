"""What the suites about a whole leader run on: durable PostgreSQL, Redis, a leader process, jobs filled in by COPY.

The database's clock, the workers' and ours are one machine's, so that instants of all of them can be compared.
"""

import json
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import psutil
import psycopg
import redis
from sqlalchemy import make_url

from itinerary.protocol.instants import SECOND, format_instant, parse_instant
from scheduler_service.broker.claims import RedisClaims
from scheduler_service.broker.dispatcher import CeleryDispatcher, publishing_app
from scheduler_service.core.contract.job_json import definition_of, read_job
from scheduler_service.sql.migrations import upgrade
from tests.support.postgres_server import PostgresServer
from tests.support.processes import Child, free_port, project_env, wait_until
from tests.support.redis_server import RedisServer

QUEUE: Final = "default"
TASK: Final = "itinerary.echo"
_ID, _ANCHOR = "job-id-here", "2026-01-01T00:00:00.123457Z"
_JOBS: Final = """
COPY jobs (job_id, definition, tags, search_text, paused, version, planned_version, effective_from, created_at,
           updated_at, deleted) FROM STDIN
"""
_VERSIONS: Final = """
INSERT INTO job_versions (job_id, version, definition, paused, effective_from, created_at, deleted)
SELECT job_id, version, definition, paused, effective_from, created_at, deleted FROM jobs
"""
_ADD: Final = """
INSERT INTO jobs (job_id, definition, tags, search_text, paused, version, planned_version, effective_from, created_at,
                  updated_at, deleted)
VALUES (%(job_id)s, %(definition)s, '', %(job_id)s, false, 1, 0, now(), now(), now(), false)
"""


@dataclass(frozen=True, slots=True)
class Usage:
    """Of a process and its children: CPU seconds so far, resident bytes now."""

    cpu: float
    rss: int


class Bed(AbstractContextManager["Bed"]):
    """The servers, for as many databases and leaders, one after the other, as a suite wants."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self.folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="itinerary-bench-")))
        self.redis = RedisServer(self.folder)
        self.postgres = PostgresServer(durable=True)

    def __enter__(self) -> Self:
        self._stack.enter_context(self.redis)
        self._stack.enter_context(self.postgres)
        self._template = self.postgres.create_database()
        upgrade(self._template)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @contextmanager
    def scene(self, **settings: str) -> Iterator["Scene"]:
        """An empty database, an empty Redis, and what is started in them, ended with the block."""
        with self.redis.client() as client:
            client.flushall()
        url = self.postgres.create_database(make_url(self._template).database)
        scene = Scene(self, url, settings)
        try:
            yield scene
        finally:
            scene.close()


class Scene:
    """One leader's world; `settings` are its ITINERARY_* variables."""

    def __init__(self, bed: Bed, database_url: str, settings: dict[str, str]) -> None:
        self.bed, self.database_url = bed, database_url
        self.redis_url = bed.redis.url
        self._stack = ExitStack()
        self._metrics = free_port()
        self.env = project_env(
            ITINERARY_DATABASE_URL=database_url,
            ITINERARY_REDIS_URL=self.redis_url,
            ITINERARY_METRICS_PORT=str(self._metrics),
            ITINERARY_LOG_FORMAT="console",
            NO_COLOR="1",
            **settings,
        )
        plain = make_url(database_url).set(drivername="postgresql").render_as_string(hide_password=False)
        # Whoever runs this may have forbidden it: then every start would compile all modules anew.
        self.env.pop("PYTHONDONTWRITEBYTECODE", None)
        self.sql = self._stack.enter_context(psycopg.connect(plain, autocommit=True, options="-c timezone=UTC"))
        self.client: redis.Redis = self._stack.enter_context(bed.redis.client())
        self.leader: Child | None = None

    def fill(self, rows: Iterable[tuple[str, str]]) -> None:
        """Jobs that no leader has planned anything of, as (job_id, definition)."""
        since = format_instant(int(time.time()) * SECOND - 60 * SECOND)
        with self.sql.transaction(), self.sql.cursor() as cursor:
            with cursor.copy(_JOBS) as copy:
                for job_id, definition in rows:
                    copy.write_row((job_id, definition, "", job_id, False, 1, 1, since, since, since, False))
            cursor.execute(_VERSIONS)
        self.sql.execute("VACUUM (ANALYZE) jobs, job_versions")

    def add(self, rows: Iterable[tuple[str, str]]) -> None:
        """Jobs of which the leader is yet to hear, made by now."""
        with self.sql.transaction(), self.sql.cursor() as cursor:
            for job_id, definition in rows:
                cursor.execute(_ADD, {"job_id": job_id, "definition": definition})
            cursor.execute(f"{_VERSIONS} WHERE planned_version = 0")

    def start_leader(self, timeout: float = 120) -> Child:
        """A leader, once it leads and has its index. The empty Redis is accepted before, as one that was in use is."""
        self._accept()
        self.leader = self.start("-m", "scheduler_service.cli", "leader")
        self.leader.wait_for_line("leading", timeout)
        wait_until(lambda: self.metric("scheduler_index_rebuild_seconds_count"), timeout, lambda: self.said)
        return self.leader

    def _accept(self) -> None:
        with (
            closing(RedisClaims(self.redis_url)) as claims,
            closing(CeleryDispatcher(publishing_app(self.redis_url))) as dispatcher,
        ):
            claims.accept(claims.query_epoch().name, 0)
            broker = dispatcher.query_epoch()
            assert broker is not None
            dispatcher.accept(broker.name, 0)

    def start(self, *words: str, **env: str) -> Child:
        """A Python process of this scene."""
        return self._stack.enter_context(Child([sys.executable, *words], env=self.env | env))

    @property
    def said(self) -> str:
        return "" if self.leader is None else self.leader.output[-5000:]

    def metric(self, name: str) -> float:
        """A figure of the leader's own, of all labels or of these; 0 before it is there."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._metrics}/metrics", timeout=5) as answer:
                lines = answer.read().decode().splitlines()
        except OSError:
            return 0
        found = (line.rpartition(" ") for line in lines if line.startswith(name))
        return sum(float(value) for sample, _, value in found if name in (sample, sample.partition("{")[0]))

    def value(self, query: str, *values: Any) -> Any:
        """The one value that a query gives."""
        row = self.sql.execute(query, values).fetchone()  # type: ignore[call-overload]  # a query of ours, not a literal
        assert row is not None
        return row[0]

    def length(self, queue: str = QUEUE) -> int:
        """How many messages wait in a queue of the default priority."""
        found: Any = self.client.llen(queue)
        return int(found)

    def await_length(self, number: int, timeout: float, queue: str = QUEUE) -> float | None:
        """When (seconds since 1970) the queue first held `number`, looked at every 2 ms; None where it never did."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            if self.length(queue) >= number:
                return time.time()
            time.sleep(0.002)
        return None

    def close(self) -> None:
        self._stack.close()


def crons_at(number: int, at: float, task: str = TASK) -> Iterator[tuple[str, str]]:
    """Jobs of one cron line, due at this whole second (since 1970) of every day."""
    moment = time.gmtime(at)
    line = f"{moment.tm_min} {moment.tm_hour} * * * {moment.tm_sec}"
    return jobs(number, {"kind": "cron", "expr": line}, task)


def intervals(number: int, every: int, task: str = TASK) -> Iterator[tuple[str, str]]:
    """Jobs of one interval (seconds), their anchors spread evenly over it."""
    spec = {"kind": "interval", "every": f"{every}s", "anchor": _ANCHOR}
    return jobs(number, spec, task, spread=every * SECOND)


def jobs(
    number: int,
    spec: dict[str, Any],
    task: str = TASK,
    *,
    spread: int = 0,
    prefix: str = "job",
    first: int = 0,
    step: int = 1,
) -> Iterator[tuple[str, str]]:
    """Jobs that differ in their ids, and in their anchors where `spread` is given; none of their runs is skipped.

    Of `number` jobs only every `step`-th from the `first`.
    """
    body = {"job_id": _ID, "task": task, "schedule": spec, "queue": QUEUE, "overlap": "allow"}
    misfire = {"policy": "fire_all", "grace": "10m", "max_catch_up": 1000}
    job, _ = read_job({**body, "misfire": misfire}, created_at=int(time.time()) * SECOND)
    text, anchor = json.dumps(definition_of(job)), parse_instant("2026-01-01T00:00:00Z")
    for n in range(first, number, step):
        job_id = f"{prefix}-{n:07d}"
        made = text.replace(_ID, job_id)
        yield job_id, made.replace(_ANCHOR, format_instant(anchor + n * spread // number)) if spread else made


def usage(pid: int) -> Usage:
    """What a process and all that it started use."""
    processes = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    cpu, rss = 0.0, 0
    for process in processes:
        try:
            times = process.cpu_times()
            cpu += times.user + times.system
            rss += process.memory_info().rss
        except psutil.NoSuchProcess:
            continue  # a helper that ended meanwhile
    return Usage(cpu, rss)
