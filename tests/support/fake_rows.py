"""The tables that the fake stores share: rows in memory, one lock, a clock given from outside."""

import json
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from itinerary.protocol.errors import Conflict, LeaseLost, RowRefused
from itinerary.protocol.instants import Duration, Instant
from itinerary.protocol.json_text import is_storable
from itinerary.protocol.limits import LimitUse, limits_text
from itinerary.protocol.progress import Progress
from itinerary.protocol.run_fields import RetryPolicy
from scheduler_service.core.attempts import Attempt, LateReports, TaskError
from scheduler_service.core.audit import AuditedChange, AuditEntry
from scheduler_service.core.calendars.applying import CalendarApplier
from scheduler_service.core.calendars.model import CalendarVersion
from scheduler_service.core.calendars.stored import PastVersion, StoredCalendar
from scheduler_service.core.controls import CalendarEdit, QueuePause
from scheduler_service.core.explain.facts import Term
from scheduler_service.core.freezes import Freeze
from scheduler_service.core.leader.commands import LateReport
from scheduler_service.core.limits import Bounds, Limit
from scheduler_service.core.model import (
    ActiveRun,
    DispatchedRun,
    Job,
    JobHistory,
    Lease,
    MissedRange,
    NewRun,
    Overlap,
    Run,
    RunKind,
)
from scheduler_service.core.run_state import RunState
from scheduler_service.core.schedules.zone_rules import installed_rules
from scheduler_service.core.schedules.zone_sets import ZoneSet
from scheduler_service.ports.zone_rules import AdoptedRules
from scheduler_service.sql.column_types import FIRST_INSTANT, LAST_INSTANT, dump_json


@dataclass(slots=True)
class RunRow:
    """One row of `runs`."""

    id: int
    run_id: str
    kind: RunKind
    job_id: str | None
    job_version: int | None
    task: str
    args: Any
    kwargs: Any
    queue: str
    priority: int
    retry_of: str | None
    scheduled_at: Instant
    due_at: Instant
    retry: RetryPolicy
    timeout: Duration | None
    overlap: Overlap | None
    idempotency_key: str | None
    request_hash: str | None
    state: RunState = RunState.SCHEDULED
    attempt: int = 1
    reason: str | None = None
    cancel_requested_at: Instant | None = None
    pending_at: Instant | None = None
    published_at: Instant | None = None
    started_at: Instant | None = None
    finished_at: Instant | None = None
    worker: str | None = None
    term: int | None = None
    seq: int = 0
    retries: int = 0
    result: Any = None
    error: Mapping[str, Any] | None = None
    traceparent: str | None = None
    start_by: Instant | None = None
    end_by: Instant | None = None
    sla_missed: bool | None = None
    headers: Any = None
    recalled_at: Instant | None = None
    limits: tuple[LimitUse, ...] = ()
    lane: str = ""
    forced: bool = False
    progress: Progress | None = None

    def active(self) -> ActiveRun:
        return ActiveRun(
            self.run_id, self.kind, self.job_id, self.job_version, self.queue, self.priority, self.scheduled_at,
            self.due_at, self.state, self.attempt, self.retry, self.timeout, self.overlap,
            self.cancel_requested_at is not None, self.seq, self.pending_at, self.published_at, self.started_at,
            self.worker, self.start_by, self.limits, self.lane, self.forced,
        )  # fmt: skip

    def dispatched(self) -> DispatchedRun:
        return DispatchedRun(
            self.run_id, self.attempt, self.seq, self.term or 0, self.job_id, self.task, self.args, self.kwargs,
            self.queue, self.priority, self.scheduled_at, self.due_at, self.timeout, self.retries,
            self.traceparent, headers=self.headers, limits=limits_text(self.limits),
        )  # fmt: skip

    def whole(self, attempts: tuple[Attempt, ...] = ()) -> Run:
        return Run(
            self.run_id, self.kind, self.job_id, self.job_version, self.task, self.args, self.kwargs, self.queue,
            self.priority, self.retry_of, self.scheduled_at, self.due_at, self.state, self.attempt, self.retry,
            self.timeout, self.reason, self.cancel_requested_at, self.pending_at, self.published_at, self.started_at,
            self.finished_at, self.worker, self.term, self.result, task_error(self.error), attempts,
            traceparent=self.traceparent, start_by=self.start_by, end_by=self.end_by,
            sla_missed=self.sla_missed,
            headers=self.headers, limits=self.limits, lane=self.lane, forced=self.forced, progress=self.progress,
        )  # fmt: skip


@dataclass(slots=True)
class AttemptRow:
    """One row of `run_attempts`: an ended attempt, and the reports of it that came too late."""

    attempt: Attempt
    late: list[LateReport] = field(default_factory=list)

    def kept(self) -> Attempt:
        return replace(self.attempt, late=self.late_reports())

    def late_reports(self) -> LateReports | None:
        if not self.late:
            return None
        last = self.late[-1]
        return LateReports(len(self.late), last.kind, last.at, last.worker, task_error(last.error))


@dataclass(slots=True)
class LeaseRow:
    """One row of `leases`."""

    term: int
    holder: str
    acquired_at: Instant
    expires_at: Instant
    ttl: Duration
    renewals: int = 0
    resigned: bool = False
    zone_rules: str = field(default_factory=lambda: installed_rules().version)
    standby_zone_rules: str | None = None
    without_redis_at: Instant | None = None
    relief_at: Instant | None = None
    redis_mark: str | None = None
    broker_mark: str | None = None
    heeds_pauses: bool = True


@dataclass(slots=True)
class JobRow:
    """A job: all its versions, oldest first."""

    versions: list[Job]
    planned_version: int = 0
    actors: list[str | None] = field(default_factory=list)

    @property
    def current(self) -> Job:
        return self.versions[-1]


@dataclass(frozen=True, slots=True)
class QueueRow:
    """One row of `queues`."""

    description: str = ""
    pause: QueuePause | None = None
    bounds: Bounds = field(default_factory=Bounds)
    fair: bool = False


@dataclass(slots=True)
class Tables:
    """Everything that is stored."""

    clock: Callable[[], Instant]
    lock: threading.RLock = field(default_factory=threading.RLock)
    runs: dict[str, RunRow] = field(default_factory=dict)
    attempts: dict[tuple[str, int], AttemptRow] = field(default_factory=dict)
    jobs: dict[str, JobRow] = field(default_factory=dict)
    missed_ranges: list[MissedRange] = field(default_factory=list)
    leases: dict[int, LeaseRow] = field(default_factory=dict)
    cursors: dict[int, tuple[Instant | None, str]] = field(default_factory=dict)
    judged_until: dict[int, Instant] = field(default_factory=dict)
    audit: list[AuditEntry] = field(default_factory=list)
    ended_terms: list[Term] = field(default_factory=list)
    queues: dict[str, QueueRow] = field(default_factory=dict)
    limits: dict[str, Limit] = field(default_factory=dict)
    job_limits: dict[str, frozenset[str]] = field(default_factory=dict)
    starts: list[tuple[LimitUse, Instant, int]] = field(default_factory=list)
    freezes: dict[int, Freeze] = field(default_factory=dict)
    calendars: dict[str, StoredCalendar] = field(default_factory=dict)
    calendar_versions: dict[str, list[tuple[int, PastVersion]]] = field(default_factory=dict)
    job_calendars: dict[str, dict[str, bool]] = field(default_factory=dict)
    zone_rules: list[tuple[AdoptedRules, ZoneSet]] = field(default_factory=list)
    control: int = 0
    next_id: int = 1

    def check(self, lease: Lease) -> None:
        """The fence."""
        row = self.leases.get(lease.shard)
        if row is None or row.resigned or (row.term, row.holder) != (lease.term, lease.holder):
            raise LeaseLost(f"term {lease.term} of shard {lease.shard} is over")

    def require_heeding_leader(self) -> None:
        """Refuse an edit while a leader leads that would not heed it."""
        lease = self.leases.get(0)
        if lease and not lease.resigned and lease.expires_at > self.clock() and not lease.heeds_pauses:
            raise Conflict(f"the leader {lease.holder} is of a release that would not heed this", "older-leader")

    def record(self, by: AuditedChange | None, subject: str | None, before: Any, after: Any) -> None:
        """A row of the audit log, where somebody made the change."""
        if by is not None:
            place = len(self.audit) + 1
            self.audit.append(AuditEntry(place, self.clock(), by.actor, by.role, by.action, subject, before, after))

    def versions_of(self, calendar_ids: Iterable[str], since: Instant | None) -> dict[str, tuple[CalendarVersion, ...]]:
        """The versions of these calendars that hold at or after `since`, or all."""
        found: dict[str, tuple[CalendarVersion, ...]] = {}
        for calendar_id in calendar_ids:
            all_of_it = [one for _, one in self.calendar_versions.get(calendar_id, [])]
            ends = [one.effective_from for one in all_of_it[1:]]
            over = 0 if since is None else sum(end <= since for end in ends)
            kept = all_of_it[over:]
            if kept:
                found[calendar_id] = tuple(
                    CalendarVersion(calendar_id, one.version, one.effective_from, one.content.compiled) for one in kept
                )
        return found

    def by_calendars(self, histories: list[JobHistory], since: Instant | None) -> list[JobHistory]:
        """The histories, cut at the versions of the calendars that they name."""
        named = {one for history in histories for job in history.alike if job.calendars for one in job.calendars.ids}
        applier = CalendarApplier(self.versions_of(named, None), since or -(2**62))
        return [applier.applied(history) for history in histories]

    def calendar_edits(self, known: int, since: Instant = 0) -> tuple[CalendarEdit, ...]:
        """The edits of calendars after those of the version `known`, but for what began before `since`."""
        edits = (
            CalendarEdit(revision, calendar_id, one.effective_from)
            for calendar_id, versions in self.calendar_versions.items()
            for revision, one in versions
        )
        return tuple(sorted(edit for edit in edits if edit.revision > known and edit.effective_from >= since))

    def per_key(self) -> dict[str, bool]:
        """Of each limit, whether it is per key."""
        return {limit.name: limit.per_key for limit in self.limits.values()}

    def insert_missing(self, new: Sequence[NewRun]) -> set[str]:
        """Insert what is not there yet by id, occurrence or key; all or nothing."""
        now = self.clock()
        for run in new:
            refuse_unstorable(run.run_id, run.task, run.queue, run.scheduled_at, run.due_at)
        rows = self.runs.values()
        taken: set[object] = {_occurrence(row) for row in rows} | {_key(row) for row in rows}
        return {run.run_id for run in new if self._insert(run, now, taken)}

    def _insert(self, run: NewRun, now: Instant, taken: set[object]) -> bool:
        names = {_occurrence(run), _key(run)} - {None}
        if run.run_id in self.runs or names & taken:
            return False
        taken |= names
        self.runs[run.run_id] = RunRow(
            self.next_id, run.run_id, run.kind, run.job_id, run.job_version, run.task, as_json(run.args),
            as_json(run.kwargs), run.queue, run.priority, run.retry_of, run.scheduled_at or now, run.due_at or now,
            run.retry, run.timeout, run.overlap, run.idempotency_key, run.request_hash,
            traceparent=run.traceparent, headers=as_json(run.headers) if run.headers else None,
            start_by=None if run.start_within is None else (run.due_at or now) + run.start_within,
            end_by=None if run.must_end_within is None else (run.due_at or now) + run.must_end_within,
            limits=run.limits, lane=run.lane, forced=run.forced,
        )  # fmt: skip
        self.next_id += 1
        return True


def _occurrence(run: NewRun | RunRow) -> object:
    """The occurrence that no other run may be of, if it is of one."""
    return (run.job_id, run.scheduled_at) if run.kind is RunKind.OCCURRENCE and run.job_id is not None else None


def _key(run: NewRun | RunRow) -> object:
    return None if run.idempotency_key is None else ("key", run.idempotency_key)


def task_error(error: Mapping[str, Any] | None) -> TaskError | None:
    """The error as a run shows it."""
    if error is None:
        return None
    return TaskError(str(error.get("type", "")), str(error.get("message", "")), error.get("traceback"))


def as_json(value: Any) -> Any:
    """The value as it comes back from a JSON column."""
    return None if value is None else json.loads(dump_json(value))


def refuse_unstorable(*values: str | Instant | None) -> None:
    """RowRefused for a text or a time that no database keeps."""
    for value in values:
        if isinstance(value, str) and not is_storable(value):
            raise RowRefused("not storable: a NUL character or a lone surrogate")
        if isinstance(value, int) and not FIRST_INSTANT <= value <= LAST_INSTANT:
            raise RowRefused("not storable: a time outside the years 1 to 9999")
