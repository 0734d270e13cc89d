"""Leaders and workers as processes over one database and one Redis, what was asked of them, and the verdict at the end.

Short settings, so that a minute's outage takes seconds. Jobs tick every second the whole time: whatever happens to the
parts, none of their occurrences may be lost, doubled or early.
"""

import time
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, closing, suppress
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import redis
from sqlalchemy import text
from uuid_utils.compat import uuid7

from itinerary.protocol.errors import BrokerUnavailable, StoreUnavailable
from itinerary.protocol.identity import adhoc_run_id
from itinerary.protocol.instants import SECOND, to_datetime
from itinerary.protocol.run_fields import RetryPolicy
from scheduler_service.broker.client import connect
from scheduler_service.broker.inbox import RedisInbox
from scheduler_service.cli.invariants import findings, read_record
from scheduler_service.core.contract.job_json import read_job
from scheduler_service.core.invariants.history import Tolerance
from scheduler_service.core.model import NewRun, Run, RunKind
from scheduler_service.sql.database import Database
from scheduler_service.sql.jobs import SqlJobStore
from scheduler_service.sql.lease import SqlLeaseStore
from scheduler_service.sql.runs import SqlRunStore
from tests.support.processes import PATIENCE, Child, project_env, wait_until
from tests.support.records import Truth, read_truth
from tests.support.warm_command import ServiceChild, WarmChild

T = TypeVar("T")
TTL_SECONDS = 1.5
PATIENT = {"ITINERARY_LEASE_TTL": "30s"}
"""Of a leader that must keep its lease, on a machine that may leave it without a core for longer than the short one."""
LOST_SECONDS = 5
SETTINGS = {
    "ITINERARY_LEASE_TTL": f"{TTL_SECONDS}s",
    "ITINERARY_LOST_AFTER": f"{LOST_SECONDS}s",
    "ITINERARY_REDISPATCH_AFTER": "1s",
    "ITINERARY_PRE_SCHEDULE_INTERVAL": "2s",
    "ITINERARY_INDEX_REBUILD_INTERVAL": "3s",
    "ITINERARY_LOOKAHEAD_WINDOW": "20s",
    "ITINERARY_GRACE_PERIOD": "2s",
    "ITINERARY_LOG_FORMAT": "console",
    "NO_COLOR": "1",
}
TICKS = {
    "task": "faulty.note",
    "schedule": {"kind": "interval", "every": "1s"},
    "overlap": "allow",
    "misfire": {"policy": "fire_all", "max_catch_up": 1000},
    "retry": {"max_attempts": 4, "initial": "100ms", "jitter": False},
}


def answered(ask: Callable[[], T]) -> T:
    """The answer, though the database ends the transaction of a process that got no core for seconds: asked again."""
    found: list[T] = []

    def asked() -> bool:
        with suppress(StoreUnavailable):
            found.append(ask())
        return bool(found)

    wait_until(asked, what="the database to answer")
    return found[0]


@dataclass(frozen=True)
class LeaderProcess:
    """A leader; `folder` is how a crashing one is armed and freed."""

    child: Child
    folder: Path
    point: str | None

    def arm(self) -> None:
        (self.folder / "armed").touch()

    def free(self) -> None:
        (self.folder / "free").touch()

    def at_the_point(self, timeout: float = PATIENCE) -> int:
        """Wait until it is there; the local port of the database connection in hand."""
        return int(self.child.wait_for_line("at the point port=", timeout).rpartition("=")[2])

    def wait_standing_by(self) -> Self:
        self.child.wait_for_line("standing by")
        return self

    def wait_leading(self, times: int = 1) -> Self:
        """Until it has come to lead for the so many-th time."""
        wait_until(lambda: self.said("took over") >= times, what=lambda: f"a leader:\n{self.child.output}")
        return self

    def said(self, words: str) -> int:
        """In how many lines these words are."""
        return sum(words in line for line in list(self.child.lines))


class FaultBed(AbstractContextManager["FaultBed"]):
    """`leader()` and `worker()` start processes, which end with the bed at the latest."""

    def __init__(self, folder: Path, database_url: str, redis_url: str, *, jobs: int = 1, **settings: str) -> None:
        self.folder = folder
        self.database_url, self.redis_url = database_url, redis_url
        self.record = folder / "record.jsonl"
        self._jobs, self._settings = jobs, settings
        self._stack = ExitStack()
        self._numbers = count(1)
        self._kept = False
        self._present: Child | None = None
        self.leaders: list[LeaderProcess] = []
        self.children: dict[str, Child] = {}

    def begin(self) -> Self:
        """A leader, and once it has accepted the empty Redis, the jobs that tick."""
        self.leader().child.wait_for_line("generation accepted")
        for number in range(self._jobs):
            job_id = f"tick{number or ''}"
            self.jobs.create(read_job({**TICKS, "job_id": job_id}, created_at=time.time_ns() // 1000)[0])
        return self

    def leader(self, point: str | None = None, action: str = "kill", **settings: str) -> LeaderProcess:
        """Start a leader; with `point`, one that comes to grief there once it is armed."""
        name = f"leader-{next(self._numbers)}"
        folder = self.folder / name
        folder.mkdir()
        env = self._env(**settings)
        if point is None:
            child = ServiceChild("leader", env=env)
        else:
            child = WarmChild("tests.support.crashing_leader", point, action, str(folder), env=env)
        started = LeaderProcess(self._keep(name, child), folder, point)
        self.leaders.append(started)
        return started

    def sole_leader(self, point: str | None = None, action: str = "kill", **settings: str) -> LeaderProcess:
        """The same, once it leads: all others stop first, cleanly. Where any will do, one that runs already is kept."""
        plain = [one for one in self.leaders if one.child.running and one.point is None]
        if point is None and plain:
            self.stop_others(plain[-1])
            return plain[-1].wait_leading()
        new = self.leader(point, action, **settings).wait_standing_by()
        self.stop_others(new)
        return new.wait_leading()

    def stop_others(self, kept: LeaderProcess) -> None:
        """Stop all leaders but this one, cleanly."""
        for other in self.leaders:
            if other is not kept and other.child.running:
                other.child.stop()
        self.leaders[:] = [kept]

    def worker(self, *, queues: str = "default", concurrency: int = 2, wait: bool = True, **settings: str) -> Child:
        """Start a worker of the faulty app, ready when this returns."""
        words = ["--app", "tests.e2e.faulty_app:app", "-c", str(concurrency), "-Q", queues]
        started = WarmChild("itinerary", *words, env=self._env(**settings))
        child = self._keep(f"worker-{next(self._numbers)}", started)
        if wait:
            child.wait_for_line("ready.")
        return child

    def keep_worker(self) -> None:
        """Have a worker that is started again when it has ended, as a supervisor would."""
        self._kept = True
        if self._present is None or not self._present.running:
            self._present = self.worker(wait=False)

    def _supervise(self) -> None:
        if self._kept:
            self.keep_worker()

    def enqueue(
        self,
        number: int = 1,
        task: str = "faulty.note",
        *,
        queue: str = "default",
        attempts: int = 4,
        timeout: int | None = None,
        tell: bool = True,
        **kwargs: Any,
    ) -> list[str]:
        """One-off runs that are due at once; with `tell` the leader hears of them by Redis too, if that is there."""
        retry = RetryPolicy(max_attempts=attempts, initial=SECOND // 10, jitter=False)
        run = NewRun("", RunKind.ADHOC, task, 0, 0, kwargs=kwargs, queue=queue, retry=retry, timeout=timeout)
        new = [replace(run, run_id=adhoc_run_id(str(uuid7()))) for _ in range(number)]
        run_ids = [run.run_id for run, _ in answered(lambda: self.runs.enqueue(new))]
        if tell:
            with suppress(BrokerUnavailable):  # the leader looks by itself
                self.inbox.send("run_enqueued", 0, {"run_ids": run_ids})
        return run_ids

    def run(self, run_id: str) -> Run:
        return answered(lambda: self.runs.get(run_id))

    def wait_state(self, run_id: str, state: str, attempt: int = 0, timeout: float = PATIENCE) -> Run:
        """The run, once it is in this state (at this attempt)."""

        def look() -> Run | None:
            self._supervise()
            try:
                run = self.run(run_id)
            except StoreUnavailable:
                return None
            return run if run.state == state and attempt in (0, run.attempt) else None

        found = wait_until(look, timeout, lambda: f"{run_id} to be {state}: {self.outputs}", 0.1)
        assert found is not None
        return found

    def started(self, run_id: str, attempt: int = 1) -> None:
        """Wait until the task's own code runs."""
        wait_until(
            lambda: self.truth().starts[f"{run_id}~{attempt}"], what=lambda: f"a start of {run_id}{self.outputs}"
        )

    def ended(self, run_id: str, attempt: int = 1) -> None:
        """Wait until the task's own code is through."""
        wait_until(lambda: self.truth().ends[f"{run_id}~{attempt}"], what=lambda: f"an end of {run_id}{self.outputs}")

    def truth(self) -> Truth:
        return read_truth(self.record)

    def redis(self) -> redis.Redis:
        return connect(self.redis_url)

    def term(self) -> int:
        view = answered(lambda: SqlLeaseStore(self.database).peek(0))
        return 0 if view is None else view.term

    def reconcile(self, timeout: float = PATIENCE) -> None:
        """Wait until everything that is due by now has ended, then hold the whole history against the rules."""
        now = time.time_ns() // 1000
        wait_until(lambda: not self.unfinished(now), timeout, lambda: f"{self.unfinished(now)}{self.outputs}", 0.2)
        wrong = self.violations()
        assert not wrong, "\n".join(map(str, wrong)) + self.outputs

    def violations(self) -> list[Any]:
        record = read_record(self.record) if self.record.exists() else {}
        return answered(lambda: list(findings(self.database, record, tolerance=Tolerance(stuck_after=20 * SECOND))))

    def endings(self, job_id: str | None = None) -> Counter[tuple[str, int]]:
        """How many runs (of this job) ended in which state, at which attempt."""
        asked = text(
            "SELECT state, attempt, count(*) FROM runs WHERE finished_at IS NOT NULL "
            "AND (CAST(:job AS TEXT) IS NULL OR job_id = :job) GROUP BY 1, 2"
        ).bindparams(job=job_id)

        def read() -> Counter[tuple[str, int]]:
            with self.database.read() as connection:
                return Counter({(state, attempt): number for state, attempt, number in connection.execute(asked)})

        return answered(read)

    def late_reports(self, run_id: str) -> int:
        """How many reports came of attempts that were over."""
        asked = text("SELECT coalesce(sum(late_reports), 0) FROM run_attempts WHERE run_id = :run").bindparams(
            run=run_id
        )
        with self.database.read() as connection:
            return int(connection.execute(asked).scalar_one())

    @property
    def outputs(self) -> str:
        return "".join(
            f"\n--- {name} ({child.argv[-3:]})\n{child.output[-6000:]}" for name, child in self.children.items()
        )

    def unfinished(self, now: int) -> list[str]:
        """Runs due by `now` that are not final, and whether planning has come so far."""
        self._supervise()
        due = text(
            "SELECT run_id, state, attempt FROM runs WHERE finished_at IS NULL AND due_at <= :now "
            "UNION ALL SELECT 'planning', 'behind', 0 FROM cursors WHERE materialised_until < :now"
        ).bindparams(now=self.instant(now))
        try:
            with self.database.read() as connection:
                return [f"{run_id} {state} {attempt}" for run_id, state, attempt in connection.execute(due)]
        except StoreUnavailable as exc:
            return [str(exc)]

    def instant(self, at: int) -> Any:
        """As a parameter of plain SQL."""
        return at if self.database.dialect == "sqlite" else to_datetime(at)

    def _env(self, **settings: str) -> dict[str, str]:
        own = {"ITINERARY_DATABASE_URL": self.database_url, "ITINERARY_REDIS_URL": self.redis_url}
        return project_env(**{**SETTINGS, **own, "RECORD_FILE": str(self.record), **self._settings, **settings})

    def _keep(self, name: str, child: Child) -> Child:
        self.children[name] = self._stack.enter_context(child)
        return child

    def __enter__(self) -> Self:
        self.database = self._stack.enter_context(closing(Database(self.database_url, pool_size=2)))
        self.inbox = self._stack.enter_context(closing(RedisInbox(self.redis_url)))
        self.runs, self.jobs = SqlRunStore(self.database), SqlJobStore(self.database)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()
