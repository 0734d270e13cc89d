"""The scheduler's model: jobs with their policies, runs, leases. Values only; other modules hold the rules."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from itinerary.protocol.attempt_logs import KeepLogs
from itinerary.protocol.instants import SECOND, Duration, Instant
from itinerary.protocol.limits import JobLimit, KeyFrom, LimitUse
from itinerary.protocol.progress import Progress
from itinerary.protocol.run_fields import DEFAULT_PRIORITY, DEFAULT_QUEUE, NO_RETRIES, RetryPolicy
from itinerary.protocol.wire import HEADER_KEEP_LOGS
from scheduler_service.core.attempts import Attempt, LateReports, TaskError
from scheduler_service.core.pings import JobPing
from scheduler_service.core.run_state import RunState

if TYPE_CHECKING:  # schedules load numpy
    from scheduler_service.core.calendars.model import JobCalendars
    from scheduler_service.core.schedules.schedule import Schedule


class Overlap(StrEnum):
    """The rule for a run that falls due while the job's previous run is not final."""

    SKIP = "skip"
    ALLOW = "allow"
    QUEUE = "queue"
    QUEUE_ALL = "queue_all"
    CANCEL_RUNNING = "cancel_running"


class MisfirePolicy(StrEnum):
    """The rule for occurrences that could not be dispatched within the grace."""

    FIRE_ONCE = "fire_once"
    FIRE_ALL = "fire_all"
    SKIP = "skip"


class RunKind(StrEnum):
    """The origin of a run: planned by a schedule, triggered manually, or enqueued without a job."""

    OCCURRENCE = "occurrence"
    MANUAL = "manual"
    ADHOC = "adhoc"


@dataclass(frozen=True, slots=True)
class Misfire:
    """The job's misfire rule; `grace` is how late an occurrence may be and still run as if on time."""

    policy: MisfirePolicy = MisfirePolicy.FIRE_ONCE
    grace: Duration = 30 * SECOND
    max_catch_up: int = 100


@dataclass(frozen=True, slots=True)
class Job:
    """One version of a job's definition, from `effective_from` on; `schedule` is the parsed `schedule_spec`.

    `source`: the file that owns the job. `unknown`: fields of a newer release. `pause_skips`: a pause skips what waits.
    """

    job_id: str
    task: str
    schedule: "Schedule"
    schedule_spec: Mapping[str, Any]
    title: str = ""
    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    queue: str = DEFAULT_QUEUE
    priority: int = DEFAULT_PRIORITY
    start_at: Instant | None = None
    end_at: Instant | None = None
    jitter: Duration = 0
    misfire: Misfire = Misfire()
    overlap: Overlap = Overlap.SKIP
    retry: RetryPolicy = NO_RETRIES
    timeout: Duration | None = None
    start_within: Duration | None = None
    must_end_within: Duration | None = None
    headers: Mapping[str, Any] | None = None
    limits: tuple[JobLimit, ...] = ()
    fair_key: str | KeyFrom | None = None
    calendars: "JobCalendars | None" = None
    ping: JobPing | None = None
    keep_logs: KeepLogs = KeepLogs.FAILURES
    tags: tuple[str, ...] = ()
    description: str = ""
    paused: bool = False
    pause_reason: str | None = None
    paused_until: Instant | None = None
    pause_skips: bool = False
    source: str | None = None
    version: int = 1
    created_at: Instant = 0
    effective_from: Instant = 0
    deleted: bool = False
    placed_anchor: Instant | None = None
    placed_at: Instant | None = None
    unknown: Mapping[str, Any] | None = None

    @property
    def run_headers(self) -> Mapping[str, Any] | None:
        """The headers of its runs: its own, and which logs are kept where it says so."""
        if self.keep_logs is KeepLogs.FAILURES:
            return self.headers
        return {**(self.headers or {}), HEADER_KEEP_LOGS: self.keep_logs.value}


@dataclass(frozen=True, slots=True)
class JobHistory:
    """A job as the planner needs it: the versions that still matter (current one last) and the newest planned one."""

    versions: tuple[Job, ...]
    planned_version: int

    @property
    def current(self) -> Job:
        """The current version."""
        return self.versions[-1]

    @property
    def alike(self) -> tuple[Job, ...]:
        """The versions; of a `CompactHistory`, a job that is like them in all that is not each job's own."""
        return self.versions

    @property
    def job_id(self) -> str:
        """The key of the job."""
        return self.versions[-1].job_id

    @property
    def schedule(self) -> "Schedule":
        """The schedule of the current version."""
        return self.versions[-1].schedule

    @property
    def effective_from(self) -> Instant:
        """The instant from which the current version holds."""
        return self.versions[-1].effective_from


@dataclass(frozen=True, slots=True)
class NewRun:
    """A run to be inserted in state `scheduled`, attempt 1."""

    run_id: str
    kind: RunKind
    task: str
    scheduled_at: Instant
    due_at: Instant
    job_id: str | None = None
    job_version: int | None = None
    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    queue: str = DEFAULT_QUEUE
    priority: int = DEFAULT_PRIORITY
    retry: RetryPolicy = NO_RETRIES
    timeout: Duration | None = None
    start_within: Duration | None = None
    must_end_within: Duration | None = None
    headers: Mapping[str, Any] | None = None
    overlap: Overlap | None = None
    retry_of: str | None = None
    idempotency_key: str | None = None
    request_hash: str | None = None
    traceparent: str | None = None
    owner: str | None = None
    limits: tuple[LimitUse, ...] = ()
    lane: str = ""
    older: tuple[str | None, str | None] = (None, None)  # key and hash as an older release stored them
    forced: bool = False  # no freeze holds it


class ActiveRun(NamedTuple):
    """A run in the leader's memory. `seq` numbers its last publish (term and counter), 0 before it."""

    run_id: str
    kind: RunKind
    job_id: str | None
    job_version: int | None
    queue: str
    priority: int
    scheduled_at: Instant
    due_at: Instant
    state: RunState
    attempt: int = 1  # in flight; in `retrying`, the next one
    retry: RetryPolicy = NO_RETRIES
    timeout: Duration | None = None
    overlap: Overlap | None = None
    cancel_requested: bool = False
    seq: int = 0
    pending_at: Instant | None = None
    published_at: Instant | None = None
    started_at: Instant | None = None
    worker: str | None = None
    start_by: Instant | None = None
    limits: tuple[LimitUse, ...] = ()
    lane: str = ""
    forced: bool = False


class DispatchedRun(NamedTuple):
    """A run that this leader set `pending`, with all that its message needs. Only such runs are published."""

    run_id: str
    attempt: int
    seq: int
    term: int
    job_id: str | None
    task: str
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    queue: str
    priority: int
    scheduled_at: Instant
    due_at: Instant
    timeout: Duration | None
    retries: int = 0
    traceparent: str | None = None
    overlap: str | None = None
    headers: Mapping[str, Any] | None = None
    limits: str | None = None  # as stored


@dataclass(frozen=True, slots=True)
class Run:
    """The whole record of a run, as history shows it; `attempts` are the earlier ones, `late` is of the current one."""

    run_id: str
    kind: RunKind
    job_id: str | None
    job_version: int | None
    task: str
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    queue: str
    priority: int
    retry_of: str | None
    scheduled_at: Instant
    due_at: Instant
    state: RunState
    attempt: int
    retry: RetryPolicy
    timeout: Duration | None
    reason: str | None
    cancel_requested_at: Instant | None
    pending_at: Instant | None
    published_at: Instant | None
    started_at: Instant | None
    finished_at: Instant | None
    worker: str | None
    term: int | None
    result: Any
    error: TaskError | None
    attempts: tuple[Attempt, ...] = ()
    late: LateReports | None = None
    traceparent: str | None = None
    owner: str | None = None
    start_by: Instant | None = None
    end_by: Instant | None = None
    sla_missed: bool | None = None  # None: not judged yet
    headers: Mapping[str, Any] | None = None
    limits: tuple[LimitUse, ...] = ()
    lane: str = ""
    forced: bool = False
    progress: Progress | None = None  # the last of an attempt that is over


@dataclass(frozen=True, slots=True)
class MissedRange:
    """Occurrences that will not run, coalesced into one row: `count` of them in [`start`, `end`)."""

    job_id: str
    start: Instant
    end: Instant
    count: int
    reason: str


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to lead: `term` is the fencing token, `now` the database's time of its confirmation."""

    shard: int
    term: int
    holder: str
    now: Instant


@dataclass(frozen=True, slots=True)
class Cursor:
    """The leaders' progress: planned and read up to here; rows due by `judged_until` wait for no late leader."""

    materialised_until: Instant | None
    inbox_position: str
    judged_until: Instant | None = None
