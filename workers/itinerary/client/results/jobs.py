"""Jobs, their occurrences and plans."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from itinerary.client.results.record import Answer, Record


@dataclass(frozen=True, eq=False)
class Misfire(Record):
    """The policy for occurrences that could not be dispatched within the grace."""

    policy: str | None
    grace: str | None
    max_catch_up: int | None


@dataclass(frozen=True, eq=False)
class Retry(Record):
    """How often, and after which pauses, a failed attempt is retried."""

    max_attempts: int | None
    initial: str | None
    factor: float | None
    max: str | None
    jitter: bool | None


@dataclass(frozen=True, eq=False)
class StoredJob(Record):
    """The fields of a job, with its pause and its version."""

    job_id: str
    title: str
    task: str
    args: list[Any]
    kwargs: dict[str, Any]
    headers: dict[str, Any] | None
    queue: str
    priority: int
    schedule: dict[str, Any]
    start_at: datetime | None
    end_at: datetime | None
    jitter: str
    misfire: Misfire
    overlap: str
    retry: Retry
    timeout: str | None
    start_within: str | None
    must_end_within: str | None
    limits: list[Any]
    fair_key: Any
    calendars: dict[str, Any] | None
    ping: dict[str, Any] | None
    keep_logs: str
    tags: list[str]
    description: str
    paused: bool
    pause_reason: str | None
    paused_until: datetime | None
    pause_waiting: str | None
    source: str | None
    version: int


@dataclass(frozen=True, eq=False)
class Job(StoredJob):
    """A job with its next runs and the warnings about its schedule."""

    next_runs: list[datetime]
    warnings: list[str]


@dataclass(frozen=True, eq=False)
class LastRun(Record):
    """The newest run of a job that was due."""

    run_id: str
    state: str
    scheduled_at: datetime
    finished_at: datetime | None


@dataclass(frozen=True, eq=False)
class ListedJob(StoredJob):
    """A job in a list; with its runs if `with_runs=true`."""

    next_run_at: datetime | None
    last_run: LastRun | None


@dataclass(frozen=True, eq=False)
class JobPage(Answer):
    """A page of the list of jobs."""

    total: int | None
    total_is_exact: bool | None
    items: list[ListedJob]
    next_cursor: str | None


@dataclass(frozen=True, eq=False)
class StandsFor(Record):
    """A day that calendars moved to the day of a run."""

    day: str
    because: str


@dataclass(frozen=True, eq=False)
class ClosedOccurrence(Record):
    """An occurrence of the job's own schedule that calendars leave out, or move to another day."""

    at: datetime
    local: str
    because: str
    moved_to: str | None


@dataclass(frozen=True, eq=False)
class Occurrence(Record):
    """One planned instant; `dst` says how a clock change affects it, `stands_for` which other days moved to it."""

    at: datetime
    local: str
    offset: str
    dst: str | None
    stands_for: list[StandsFor]


@dataclass(frozen=True, eq=False)
class Preview(Record):
    """The meaning of a schedule; `left_out`: what calendars leave out or move up to the last occurrence."""

    occurrences: list[Occurrence]
    left_out: list[ClosedOccurrence]
    text: str
    warnings: list[str]


@dataclass(frozen=True, eq=False)
class PlannedJob(Record):
    """A job that is created or deleted."""

    job_id: str
    job: dict[str, Any]


@dataclass(frozen=True, eq=False)
class PlannedField(Record):
    """A field that changes, by its path."""

    field: str
    before: Any
    after: Any


@dataclass(frozen=True, eq=False)
class PlannedChange(Record):
    """A job that changes, and the version that changes."""

    job_id: str
    version: int
    changes: list[PlannedField]


@dataclass(frozen=True, eq=False)
class JobWarning(Record):
    """A warning about a job's schedule."""

    job_id: str
    msg: str


@dataclass(frozen=True, eq=False)
class PlannedMonitor(Record):
    """A monitor that is created or deleted."""

    monitor_id: str
    monitor: dict[str, Any]


@dataclass(frozen=True, eq=False)
class PlannedMonitorChange(Record):
    """A monitor that changes, and the version that changes."""

    monitor_id: str
    version: int
    changes: list[PlannedField]


@dataclass(frozen=True, eq=False)
class PlannedMonitors(Record):
    """The changes of monitors; `left`: those that the source owns and does not name, kept."""

    added: list[PlannedMonitor]
    changed: list[PlannedMonitorChange]
    removed: list[PlannedMonitor]
    left: list[str]
    unchanged: int


@dataclass(frozen=True, eq=False)
class Plan(Record):
    """The changes made, or planned; `left`: jobs that the source owns and does not name, kept."""

    source: str | None
    plan_version: str
    applied: bool
    added: list[PlannedJob]
    changed: list[PlannedChange]
    removed: list[PlannedJob]
    left: list[str]
    unchanged: int
    monitors: PlannedMonitors
    warnings: list[JobWarning]
