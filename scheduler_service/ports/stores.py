"""The database as the leader and its users need it: jobs and runs; and the meter that watches the leader."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Generic, Literal, Protocol, TypeVar

from itinerary.protocol.instants import Instant
from scheduler_service.core.audit import AuditedChange
from scheduler_service.core.contract.pruning import Past
from scheduler_service.core.leader.commands import Apply, Command, CreateRuns, Dispatch, RecordStatistics
from scheduler_service.core.leader.poll_state import CancelsRead, ExpiredRead, OverdueRead, Place
from scheduler_service.core.leader.state import SchedulerState
from scheduler_service.core.model import (
    ActiveRun,
    Cursor,
    DispatchedRun,
    Job,
    JobHistory,
    Lease,
    NewRun,
    Run,
)
from scheduler_service.core.run_state import RunState
from scheduler_service.ports.placement import PlacementMeter, PlacementStore

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Dispatched:
    """What came back from a guarded move: only `dispatched` is published; `refused` did not match the guard."""

    dispatched: tuple[DispatchedRun, ...]
    refused: tuple[str, ...]


class LeaderStore(PlacementStore, Protocol):
    """The leader's writes and reads. Every write is one transaction fenced by the lease's term."""

    def cursor(self, lease: Lease) -> Cursor:
        """The cursor of the lease's shard; made empty (inbox position "0-0") on first use."""

    def active_runs(self) -> list[ActiveRun]:
        """All runs that the leader must know when it takes over: scheduled or retrying and due within
        a minute or made by a schedule, a job's runs that wait for another attempt, pending, running."""

    def job_histories(self, since: Instant | None) -> list[JobHistory]:
        """All jobs, each with the versions that hold at or after `since` (all unplanned versions too)."""

    def histories_of(self, job_ids: Sequence[str], since: Instant | None) -> list[JobHistory]:
        """The same for some jobs; a job that was deleted has a last version with `deleted` set."""

    def refused_jobs(self) -> int:
        """How many jobs this program could not read when it last read them: none of their runs is made."""

    def unplanned_jobs(self, limit: int) -> list[str]:
        """Ids of jobs whose planned version is not their version."""

    def together(self, lease: Lease) -> AbstractContextManager[None]:
        """Runs that this thread makes, moves and applies to in the block are written in one transaction.

        Their answers hold when the block has ended well. RowRefused in it: nothing was written; one by one, what can
        be is.
        """

    def create_runs(self, lease: Lease, batch: CreateRuns) -> tuple[str, ...]:
        """Carry out one CreateRuns; returns the ids that were there already (not made by this call).

        `planned` is marked where the job has that version, or had it, and none later is marked.
        """

    def dispatch_runs(self, lease: Lease, dispatches: Sequence[Dispatch], now: Instant) -> Dispatched:
        """The two-phase, state-guarded move: collect the due ids FOR UPDATE SKIP LOCKED, then UPDATE them.

        Guard: state scheduled or retrying, the attempt, due_at <= now, no cancel requested, and for a run of a job
        that the job's planned version is its version, it is not deleted, and not paused:
        `paused AND (paused_until IS NULL OR now < paused_until)` holds back occurrences in their first
        attempt; manual runs and retries go on. A pause with `until` ends by itself: no version is made for it. One
        that skips what waits is judged at the run's scheduled_at in place of `now`: it holds after its end too. What
        names a job that never was may go, for the leader to end it.
        """

    def redispatch_runs(self, lease: Lease, dispatches: Sequence[Dispatch]) -> Dispatched:
        """Store a new seq for runs still pending with that attempt and without cancel request, SKIP LOCKED too."""

    def apply(self, lease: Lease, batch: Apply) -> tuple[str, ...]:
        """Carry out the transitions in order; returns the ids whose guard did not match (unknown ones too)."""

    def read_runs(self, run_ids: Sequence[str]) -> list[ActiveRun]:
        """These runs as they are now, final ones included; unknown ids are left out."""

    def due_runs(self, until: Instant, limit: int) -> list[ActiveRun]:
        """Runs that no schedule made, scheduled or retrying with due_at < until, at most `limit` of each queue, most
        urgent first."""

    def overdue_runs(self, until: Instant, limit: int, after: Place | None) -> OverdueRead:
        """Runs scheduled or retrying with due_at < until, whoever made them, at most `limit` behind `after`."""

    def expired_runs(self, until: Instant, limit: int, after: Place | None) -> ExpiredRead:
        """Runs that no schedule made, scheduled, with start_by < until, at most `limit` behind `after`."""

    def cancel_requests(self, limit: int, after: Place | None) -> CancelsRead:
        """Pending and running runs whose cancel is requested, at most `limit` behind `after`."""

    def record_statistics(self, row: RecordStatistics) -> None:
        """One row of statistics; old rows are pruned by the same call now and then."""


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """A part of a list; `next_cursor` is None on the last page. Stable under writes (keyset)."""

    items: list[T]
    next_cursor: str | None


class JobStore(Protocol):
    """Definitions of jobs, for everybody but the leader. Each change makes a version and its history row, and is
    recorded in the audit log in the same transaction where `by` says who makes it."""

    def create(self, job: Job, *, by: AuditedChange | None = None) -> Job:
        """Insert; Conflict where the id exists. Version, effective_from and created_at are set here."""

    def replace(
        self, job: Job, if_version: int | None, *, by: AuditedChange | None = None
    ) -> tuple[Job, Literal["made", "replaced", "unchanged"]]:
        """Make or replace; an equal definition changes no version; StaleVersion where `if_version` is not current.

        Pause state is not part of the definition and is kept.
        """

    def get(self, job_id: str) -> Job:
        """The current definition; NotFound."""

    def list(
        self,
        *,
        tag: str | None,
        text: str | None,
        paused: bool | None,
        limit: int,
        cursor: str | None,
        source: str | None = None,
        prefixes: tuple[str, ...] = (),
    ) -> Page[Job]:
        """Jobs by id, filtered; `text` is in id, title or task, `source` owns them, ids begin as `prefixes` do."""

    def set_paused(
        self,
        job_id: str,
        paused: bool,
        reason: str | None,
        until: Instant | None,
        if_version: int | None = None,
        *,
        skips: bool = False,
        by: AuditedChange | None = None,
    ) -> Job:
        """Pause or resume; no version is made where nothing changes. StaleVersion as `replace` has it.

        A pause keeps what was due before it and had to wait; one that `skips` ends it as skipped.
        """

    def delete(self, job_id: str, if_version: int | None, *, by: AuditedChange | None = None) -> None:
        """Mark deleted, as a last version; history stays; NotFound. Making it again goes on counting versions."""


@dataclass(frozen=True, slots=True)
class RunFilter:
    """What `GET /runs` may ask for; `queues` are those that its caller may see, `owner` whose runs alone."""

    job_id: str | None = None
    states: tuple[RunState, ...] = ()
    queue: str | None = None
    since: Instant | None = None
    until: Instant | None = None
    queues: tuple[str, ...] = ()
    owner: str | None = None


class RunStore(Protocol):
    """Runs, for everybody but the leader. Changes are recorded in the audit log where `by` is given."""

    def enqueue(self, runs: Sequence[NewRun], *, by: AuditedChange | None = None) -> list[tuple[Run, bool]]:
        """Insert all or nothing; (run, made). The same idempotency key and request hash gives the run that is
        there; another hash raises Conflict. `due_at` 0 means now, by the database's clock.
        DeadlinesOver (core.run_requests) where a new run could only be missed."""

    def get(self, run_id: str) -> Run:
        """The whole record with its attempts; NotFound."""

    def list(self, wanted: RunFilter, limit: int, cursor: str | None) -> Page[Run]:
        """Newest first by scheduled_at, then id; attempts left out."""

    def request_cancel(self, run_id: str, *, by: AuditedChange | None = None) -> Run:
        """Scheduled and retrying end `cancelled` here; for pending and running cancel_requested_at is committed.
        A final run is returned as it is. NotFound."""


class Meter(PlacementMeter, Protocol):
    """Where the leader's figures go. Never fails, never blocks."""

    def leading(self, term: int, since_renewal: float | None) -> None:
        """This process leads from now on, `since_renewal` seconds after the last renewal of the leader before."""

    def standing_by(self) -> None:
        """This process does not lead."""

    def without_redis(self, away: bool) -> None:
        """Whether this process leads and has not reached Redis or the broker for three ttls."""

    def redis_differs(self, differs: bool) -> None:
        """Whether this process stands by with another Redis or broker than the leader's."""

    def zone_rules_differ(self, differ: bool) -> None:
        """Whether this process stands by with other zone rules than the leader's."""

    def jobs_refused(self, number: int) -> None:
        """So many jobs cannot be read by this leader, and are not planned."""

    def iterated(self, state: SchedulerState, seconds: float, commands: Sequence[Command]) -> None:
        """One iteration is over; takes `state.counts` and leaves it empty."""

    def rebuilt(self, seconds: float) -> None:
        """An index was built."""

    def published(self, runs: Sequence[DispatchedRun], at: Instant) -> None:
        """The broker took these runs at `at`."""

    def dead_lettered(self) -> None:
        """An inbox entry was set aside."""

    def pruned(self, past: Past, rows: int) -> None:
        """Old rows were deleted."""

    def swept(self, ended_at: Instant) -> None:
        """The last sweep that went through to its end, whoever's, ended then."""

    def exposition(self) -> str:
        """All figures in Prometheus text format."""
