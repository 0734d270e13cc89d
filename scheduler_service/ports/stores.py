"""Ports to the database: the leader's store, jobs and runs for everybody else; and the meter that observes the leader.

An implementation promises that what returned is committed, and that a state changes only as `core/run_state.py`
allows. A write of a leader is one transaction of its term; LeaseLost if another term leads. An implementation decides
no rule: the core says what becomes of each run. The fakes of the tests pass the same suites.
"""

from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from itinerary.protocol.instants import Instant
from scheduler_service.core.audit import AuditedChange
from scheduler_service.core.contract.pruning import Past
from scheduler_service.core.controls import Controls
from scheduler_service.core.leader.commands import Apply, Command, CreateRuns, Dispatch
from scheduler_service.core.leader.lane_reads import HeadsRead, LanePage, LanesRead
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
from scheduler_service.ports.lists import BY_ID, NEWEST_FIRST, JobSort, Order, RunSort
from scheduler_service.ports.lists import JobFilter as JobFilter
from scheduler_service.ports.lists import Page as Page
from scheduler_service.ports.lists import RunFilter as RunFilter
from scheduler_service.ports.placement import PlacementMeter, PlacementStore
from scheduler_service.ports.starts import StartStore

UNKNOWN: Final = -1
"""The version of the edits for a leader that knows none yet, and so needs to follow none."""


@dataclass(frozen=True, slots=True)
class Dispatched:
    """The answer to a guarded dispatch: only `dispatched` is published; `refused` did not match the guard.

    `outdated`: all were refused, since the database has other edits of queues than they were chosen by.
    """

    dispatched: tuple[DispatchedRun, ...]
    refused: tuple[str, ...]
    outdated: bool = False


class LeaderStore(PlacementStore, StartStore, Protocol):
    """The leader's writes and reads. Every write is one transaction fenced by the lease's term."""

    @property
    def has_one_writer(self) -> bool:
        """Whether a write waits for every other one."""

    def cursor(self, lease: Lease) -> Cursor:
        """The cursor of the lease's shard; created empty (inbox position "0-0") on first use."""

    def rehearse(self) -> None:
        """Prepare for a takeover, by statements of it that find and change nothing."""

    def active_runs(self) -> list[ActiveRun]:
        """All runs that the leader must know when it takes over.

        These are pending and running runs, a job's retrying runs, and what a schedule created. The other waiting runs
        may be a million: its polls read those that can soon be dispatched.
        """

    def job_histories(self, since: Instant | None) -> list[JobHistory]:
        """All jobs, each with the versions in effect at or after `since`, and from the last planned one on."""

    def histories_of(self, job_ids: Sequence[str], since: Instant | None) -> list[JobHistory]:
        """The histories of some jobs; a deleted job has a last version with `deleted` set."""

    def calendar_jobs(
        self, calendar_id: str, after: str, since: Instant, limit: int
    ) -> tuple[list[JobHistory], str | None]:
        """At most `limit` current jobs that name the calendar, behind `after`; and the id to continue behind."""

    def refused_jobs(self) -> int:
        """The number of jobs that this program could not read last time: it creates no runs for them."""

    def unplanned_jobs(self, limit: int) -> list[str]:
        """Ids of jobs whose current version is not planned yet."""

    def together(self, lease: Lease, *, by_controls: bool = False) -> AbstractContextManager[None]:
        """Write what this thread creates, dispatches and applies within the block in one transaction.

        `by_controls`: it will dispatch, so that edits are kept out from its first statement on.
        The answers hold once the block has ended well. If it raises RowRefused, nothing was written; separate calls
        then write what the database accepts.
        """

    def create_runs(self, lease: Lease, batch: CreateRuns) -> tuple[str, ...]:
        """Carry out one CreateRuns; return the ids that existed already (not created by this call).

        LeaseLost, and nothing is written, if the cursor passes the beginning of a calendar's version that is younger
        than the batch's `control`.

        `planned` is marked if the job has or had that version and no later one is marked.
        """

    def controls(self, known: int, since: Instant = 0) -> Controls | None:
        """The pauses, limits and freezes, no older than their version; None if that is still `known`.

        Of freezes those that have not ended by `since`; of edits of calendars those after `known` that begin later.
        """

    def unchanged_at(self, known: int) -> Instant | None:
        """The time, if `known` is the version: each edit that this answer does not know is dated no earlier."""

    def dispatch_runs(self, lease: Lease, dispatches: Sequence[Dispatch], now: Instant, control: int = 0) -> Dispatched:
        """The two-phase, state-guarded dispatch: collect the due ids FOR UPDATE SKIP LOCKED, then UPDATE them.

        Nothing is dispatched unless `control` is the present version of the edits of queues; an edit that has returned
        is seen by every later dispatch.

        Guard: state scheduled or retrying, attempt and queue, due_at <= now, no cancel requested. A run of a job also
        requires that the job's current version is planned, not deleted, and not paused. `paused AND (paused_until IS
        NULL OR now < paused_until)` holds back occurrences in their first attempt; manual runs and retries proceed. A
        pause with `until` ends by itself, without a new version. A pause that skips waiting runs compares the run's
        scheduled_at instead of `now`: it applies after its end too. A run of a job that never existed passes, so that
        the leader can end it.
        """

    def redispatch_runs(self, lease: Lease, dispatches: Sequence[Dispatch]) -> Dispatched:
        """Store a new seq for runs still pending with that attempt and without a cancel request, also SKIP LOCKED."""

    def apply(self, lease: Lease, batch: Apply) -> tuple[str, ...]:
        """Carry out the transitions in order; return the ids whose guard did not match (unknown ones too)."""

    def read_runs(self, run_ids: Sequence[str]) -> list[ActiveRun]:
        """The current rows of these runs, final ones included; unknown ids are left out."""

    def due_runs(self, until: Instant, limit: int, paused: Collection[str] = ()) -> list[ActiveRun]:
        """Runs that no schedule created, scheduled or retrying with due_at < until, at most `limit` of each queue.

        The most urgent come first; those of `paused` queues are left out.
        """

    def waiting_lanes(self, queue: str, first: str, limit: int) -> LanesRead:
        """The queue's lanes from `first` on in which runs wait that no schedule created, at most `limit`, in order."""

    def lane_heads(self, until: Instant, pages: Sequence[LanePage], limit: int) -> HeadsRead:
        """The runs that `due_runs` would find in these lanes, at most `limit` of each behind its place."""

    def overdue_runs(self, until: Instant, limit: int, after: Place | None) -> OverdueRead:
        """Runs that a schedule created, scheduled or retrying with due_at < until, at most `limit` behind `after`."""

    def expired_runs(self, until: Instant, limit: int, after: Place | None) -> ExpiredRead:
        """Runs that no schedule created, scheduled, with start_by < until, at most `limit` behind `after`."""

    def cancel_requests(self, limit: int, after: Place | None) -> CancelsRead:
        """Pending and running runs whose cancel is requested, at most `limit` behind `after`."""


class JobStore(Protocol):
    """Definitions of jobs, for every process but the leader. Each change creates a version and its history row.

    If `by` names the actor, the same transaction records the change in the audit log.
    """

    def create(self, job: Job, *, by: AuditedChange | None = None) -> Job:
        """Insert the job; Conflict if the id exists. Sets version, effective_from and created_at."""

    def replace(
        self, job: Job, if_version: int | None, *, by: AuditedChange | None = None
    ) -> tuple[Job, Literal["made", "replaced", "unchanged"]]:
        """Create or replace; an equal definition changes no version; StaleVersion if `if_version` is not current.

        Pause state is not part of the definition and is kept.
        """

    def get(self, job_id: str) -> Job:
        """The current definition; NotFound."""

    def list(self, wanted: JobFilter, limit: int, cursor: str | None, order: Order[JobSort] = BY_ID) -> Page[Job]:
        """Jobs that pass the filter, by id unless another order is asked for.

        BadValue names `sort` where more jobs match than another order than the ids' sorts.
        """

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
        """Pause or resume; an unchanged state creates no version. StaleVersion as in `replace`.

        A pause keeps runs that were due before it and had to wait; one that `skips` ends them as skipped.
        """

    def delete(self, job_id: str, if_version: int | None, *, by: AuditedChange | None = None) -> None:
        """Mark the job deleted by a last version; history stays. Creating it again continues the numbers. NotFound."""


class RunStore(Protocol):
    """Runs, for every process but the leader. If `by` is given, changes are recorded in the audit log."""

    def enqueue(self, runs: Sequence[NewRun], *, by: AuditedChange | None = None) -> list[tuple[Run, bool]]:
        """Insert all or nothing; return (run, whether this call created it) for each.

        `due_at` 0 means the database's now. The same idempotency key and request hash return the existing run; another
        hash raises Conflict. Raises RunsRefused (core.contract.run_requests) if a new run could only be missed, or its
        limits do not exist.
        """

    def get(self, run_id: str) -> Run:
        """The whole record with its attempts; NotFound."""

    def list(
        self, wanted: RunFilter, limit: int, cursor: str | None, order: Order[RunSort] = NEWEST_FIRST
    ) -> Page[Run]:
        """Runs without their attempts, newest first unless another order is asked for.

        Only `scheduled_at` sorts all of them. Other orders sort a bounded number of the newest, then of those before:
        a page may have fewer than asked for.
        """

    def request_cancel(self, run_id: str, *, by: AuditedChange | None = None) -> Run:
        """Cancel the run, or request its cancellation.

        Scheduled and retrying runs end `cancelled`; for pending and running ones cancel_requested_at is set. A final
        run is returned unchanged. NotFound.
        """


class Meter(PlacementMeter, Protocol):
    """The leader's metrics. Never fails, never blocks."""

    def leading(self, term: int, since_renewal: float | None) -> None:
        """This process has become leader, `since_renewal` seconds after the last renewal of the previous leader."""

    def standing_by(self) -> None:
        """This process does not lead."""

    def without_redis(self, away: bool) -> None:
        """Whether this process leads and has not reached Redis or the broker for three ttls."""

    def redis_differs(self, differs: bool) -> None:
        """Whether this process is a standby with another Redis or broker than the leader's."""

    def zone_rules_differ(self, differ: bool) -> None:
        """Whether this process is a standby with other zone rules than the leader's."""

    def jobs_refused(self, number: int) -> None:
        """The number of jobs that this leader cannot read and does not plan."""

    def iterated(self, state: SchedulerState, seconds: float, commands: Sequence[Command]) -> None:
        """Record one iteration; takes `state.counts` and leaves it empty."""

    def rebuilt(self, seconds: float) -> None:
        """Record the build of an index."""

    def published(self, runs: Sequence[DispatchedRun], at: Instant) -> None:
        """Record that the broker accepted these runs at `at`."""

    def dead_lettered(self) -> None:
        """Count a dead-lettered inbox entry."""

    def pruned(self, past: Past, rows: int) -> None:
        """Count deleted old rows."""

    def swept(self, ended_at: Instant) -> None:
        """Record the end of the last complete sweep, of any process."""

    def exposition(self) -> str:
        """All metrics in Prometheus text format."""
