"""Runs, their attempts and explanations."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from itinerary.client.results.record import Answer, Record


@dataclass(frozen=True, eq=False)
class TaskError(Record):
    """The error of an attempt."""

    type: str
    message: str
    traceback: str | None


@dataclass(frozen=True, eq=False)
class LateReports(Record):
    """Reports on an attempt that arrived after it was over: kept, without effect."""

    count: int
    kind: str
    at: datetime
    worker: str
    error: TaskError | None


@dataclass(frozen=True, eq=False)
class RunProgress(Record):
    """How far a task has come: `done` of `total` in `unit`; `at`: when that last changed, or when the attempt ended."""

    done: float
    total: float | None
    unit: str
    at: datetime


@dataclass(frozen=True, eq=False)
class Attempt(Record):
    """One try of a run."""

    attempt: int
    outcome: str
    reason: str | None
    pending_at: datetime | None
    published_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    worker: str | None
    error: TaskError | None
    late_reports: LateReports | None
    progress: RunProgress | None


@dataclass(frozen=True, eq=False)
class Run(Record):
    """A run as stored."""

    run_id: str
    job_id: str | None
    job_version: int | None
    task: str
    args: list[Any]
    kwargs: dict[str, Any]
    headers: dict[str, Any] | None
    queue: str
    priority: int
    limits: list[Any]
    fair_key: str | None
    force: bool
    retry_of: str | None
    scheduled_at: datetime
    due_at: datetime
    start_by: datetime | None
    end_by: datetime | None
    sla_missed: bool | None
    state: str
    attempt: int
    reason: str | None
    cancel_requested_at: datetime | None
    pending_at: datetime | None
    published_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    worker: str | None
    progress: RunProgress | None
    term: int | None
    result: Any
    error: TaskError | None
    attempts: list[Attempt]


@dataclass(frozen=True, eq=False)
class Log(Record):
    """The end of an attempt's log, or what follows a position; positions are characters since the attempt began."""

    run_id: str
    attempt: int
    text: str
    start: int
    end: int
    missing: int
    complete: bool


@dataclass(frozen=True, eq=False)
class RunPage(Answer):
    """A page of the list of runs."""

    total: int | None
    total_is_exact: bool | None
    items: list[Run]
    next_cursor: str | None


@dataclass(frozen=True, eq=False)
class LeftOut(Record):
    """Occurrences that are not run, by reason: one of their runs completed, is in flight, or waits to be dispatched."""

    completed: int
    active: int
    planned: int


@dataclass(frozen=True, eq=False)
class Backfill(Record):
    """The runs created, or planned: `runs` of so many `occurrences`; `first` are the first ten."""

    job_id: str
    start: datetime = field(metadata={"json": "from"})
    end: datetime = field(metadata={"json": "to"})
    overlap: str
    dry_run: bool
    occurrences: int
    left_out: LeftOut
    runs: int
    first: list[datetime]
    run_ids: list[str]
    warnings: list[str]


@dataclass(frozen=True, eq=False)
class Because(Record):
    """One sentence, and the database row that supports it."""

    words: str
    row: dict[str, Any] | None


@dataclass(frozen=True, eq=False)
class Explanation(Record):
    """The reasons for the state of an occurrence or a run."""

    job_id: str | None
    run_id: str | None
    at: datetime | None
    verdict: str
    text: str
    because: list[Because]
    nearest_before: datetime | None
    nearest_after: datetime | None
