"""What the store contract is run on: the fake, SQLite or PostgreSQL behind the same four ports."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

from itinerary.protocol.identity import occurrence_run_id
from itinerary.protocol.instants import MINUTE, SECOND, Instant
from scheduler_service.core.contract.job_json import read_job
from scheduler_service.core.leader.commands import CreateRuns, Dispatch
from scheduler_service.core.model import Job, Lease, NewRun, RunKind
from scheduler_service.ports.calendars import CalendarStore
from scheduler_service.ports.freezes import FreezeStore
from scheduler_service.ports.history import HistoryStore
from scheduler_service.ports.leases import LeaseStore
from scheduler_service.ports.limits import LimitStore
from scheduler_service.ports.queues import QueueStore
from scheduler_service.ports.stores import JobStore, LeaderStore, RunStore
from scheduler_service.ports.zone_rules import ZoneRulesStore
from scheduler_service.sql.calendars import SqlCalendarStore
from scheduler_service.sql.database import Bounds, Database, host_now
from scheduler_service.sql.freezes import SqlFreezeStore
from scheduler_service.sql.jobs import SqlJobStore
from scheduler_service.sql.leader.store import SqlLeaderStore
from scheduler_service.sql.lease import SqlLeaseStore
from scheduler_service.sql.limits import SqlLimitStore
from scheduler_service.sql.queues import SqlQueueStore
from scheduler_service.sql.run_pages import SqlHistoryStore
from scheduler_service.sql.runs import SqlRunStore
from scheduler_service.sql.zone_rules import SqlZoneRulesStore
from tests.support.fake_store import FakeStore
from tests.support.roles import NAMES

_NUMBERS = count(1)

# What is tested is what the stores do: a machine full of tests may give a process no CPU for seconds.
PATIENT: Final = Bounds(connect=MINUTE, statement=MINUTE, lock=MINUTE, idle=MINUTE)


@dataclass(frozen=True)
class StoreBed:
    """One set of stores; `beside()` gives another set over the same rows, with connections of its own.

    `database` is for what a test itself reads and writes; by those of `by_role` leader and API reach their stores.
    """

    kind: str
    leases: LeaseStore
    leader: LeaderStore
    jobs: JobStore
    runs: RunStore
    history: HistoryStore
    queues: QueueStore
    limits: LimitStore
    freezes: FreezeStore
    calendars: CalendarStore
    zone_rules: ZoneRulesStore
    database: Database | None
    by_role: Mapping[str, Database]
    beside: Callable[[], "StoreBed"]
    close_beside: Callable[[], None]

    def lead(self, holder: str = "leader") -> Lease:
        """A lease that is held long enough for any test."""
        lease = self.leases.acquire(0, holder, 10 * MINUTE)
        assert lease is not None
        self.leader.cursor(lease)
        return lease

    def take_over(self, lease: Lease) -> Lease:
        """The next term, after the present holder resigned."""
        self.leases.resign(lease)
        return self.lead("successor")

    def make(self, lease: Lease, *runs: NewRun) -> tuple[NewRun, ...]:
        """Insert these runs as the planner does."""
        assert self.leader.create_runs(lease, CreateRuns(runs, cursor=lease.now)) == ()
        return runs

    def dispatched(self, lease: Lease, *runs: NewRun) -> tuple[NewRun, ...]:
        """Insert these runs and move them to `pending`."""
        self.make(lease, *runs)
        moved = self.leader.dispatch_runs(lease, [release(run) for run in runs], lease.now + 1)
        assert not moved.refused
        return runs

    def planned_job(self, lease: Lease, job_id: str = "job", **fields: Any) -> Job:
        """A job whose present version is planned."""
        job = self.jobs.create(a_job(job_id, **fields))
        self.leader.create_runs(lease, CreateRuns((), cursor=lease.now, planned=((job_id, job.version),)))
        return job


def fake_bed() -> StoreBed:
    """The stores in memory."""
    store = FakeStore(host_now)
    bed: StoreBed = StoreBed(
        "fake",
        store.leases,
        store.leader,
        store.jobs,
        store.runs,
        store.history,
        store.queues,
        store.limits,
        store.freezes,
        store.calendars,
        store.zone_rules,
        None,
        {},
        lambda: bed,
        lambda: None,
    )
    return bed


@contextmanager
def sql_bed(url: str, roles: Mapping[str, str] | None = None) -> Iterator[StoreBed]:
    """The stores of the database at `url`, which is migrated; closed at the end.

    With `roles`, leader and API reach it at addresses of their own; the tests themselves stay its owner.
    """
    roles = roles or dict.fromkeys(NAMES, url)
    opened: list[ExitStack] = []

    def open_one() -> StoreBed:
        opened.append(ExitStack())
        urls = dict.fromkeys((url, *roles.values()))
        by_url = {each: Database(each, pool_size=2, bounds=PATIENT) for each in urls}
        for each in by_url.values():
            opened[-1].callback(each.close)
        by_role = {name: by_url[roles[name]] for name in NAMES}
        leader, api = by_role["leader"], by_role["api"]
        return StoreBed(
            leader.dialect,
            SqlLeaseStore(leader),
            SqlLeaderStore(leader),
            SqlJobStore(api),
            SqlRunStore(api),
            SqlHistoryStore(api),
            SqlQueueStore(api),
            SqlLimitStore(api),
            SqlFreezeStore(api),
            SqlCalendarStore(api),
            SqlZoneRulesStore(leader),
            by_url[url],
            by_role,
            open_one,
            close_beside,
        )

    def close_beside() -> None:
        while len(opened) > 1:
            opened.pop().close()

    try:
        yield open_one()
    finally:
        close_beside()
        opened.pop().close()


def release(run: NewRun, attempt: int = 1, seq: int = 1) -> Dispatch:
    """The order to release this run."""
    return Dispatch(run.run_id, attempt, seq)


def one_off(due_at: Instant, **fields: Any) -> NewRun:
    """A run without a job."""
    return NewRun(f"adhoc_{next(_NUMBERS)}", RunKind.ADHOC, "pkg.task", due_at, due_at, **fields)


def occurrence(job: Job, at: Instant, **fields: Any) -> NewRun:
    """The run of a job at an instant."""
    run_id = occurrence_run_id(job.job_id, at)
    return NewRun(run_id, RunKind.OCCURRENCE, job.task, at, at, job_id=job.job_id, job_version=job.version, **fields)


def a_job(job_id: str = "job", **fields: Any) -> Job:
    """A job as the API reads it."""
    body: Mapping[str, Any] = {
        "job_id": job_id,
        "task": "pkg.task",
        "schedule": {"kind": "interval", "every": "25m"},
        **fields,
    }
    job, _ = read_job(body, created_at=1_800_000_000 * SECOND)
    return job
