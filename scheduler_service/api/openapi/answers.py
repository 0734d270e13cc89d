"""The shapes of answers for the OpenAPI document; core.contract builds the answers themselves."""

from typing import Any, Literal

from pydantic import BaseModel, Field

from scheduler_service.api.openapi.limit_uses import RunLimits
from scheduler_service.api.openapi.list_shapes import Counted, LastRun
from scheduler_service.api.openapi.patterns import JobId, Queue, Task, Time
from scheduler_service.api.openapi.schemas import stored
from scheduler_service.core.run_state import RunState


@stored
class JobBody(BaseModel):
    """A job as stored."""

    paused: bool
    pause_reason: str | None
    paused_until: Time | None
    pause_waiting: Literal["keep", "skip"] | None
    source: str | None
    version: int


class JobOut(JobBody):
    """A job with its next runs and the warnings about its schedule."""

    next_runs: list[Time]
    warnings: list[str]


class ListedJob(JobBody):
    """A job in a list; with its runs if `with_runs=true`."""

    next_run_at: Time | None = None
    last_run: LastRun | None = None


class JobPage(Counted):
    """A page of the list of jobs."""

    items: list[ListedJob]
    next_cursor: str | None


class StandsFor(BaseModel):
    """A day that calendars moved to the day of this run."""

    day: str = Field(examples=["2026-11-28"])
    because: str = Field(examples=["in calendar holidays (Christmas Day)"])


class ClosedOccurrence(BaseModel):
    """An occurrence of the job's own schedule that calendars leave out, or move to another day."""

    at: Time
    local: str
    because: str
    moved_to: str | None


class Occurrence(BaseModel):
    """One planned instant; `dst` says how a clock change affects it, `stands_for` which other days moved to it."""

    at: Time
    local: str
    offset: str
    dst: str | None
    stands_for: list[StandsFor]


class Preview(BaseModel):
    """The meaning of a schedule; `left_out`: what calendars leave out or move up to the last occurrence."""

    occurrences: list[Occurrence]
    left_out: list[ClosedOccurrence]
    text: str
    warnings: list[str]


class TaskError(BaseModel):
    """The error of an attempt."""

    type: str
    message: str
    traceback: str | None


class LateReports(BaseModel):
    """Reports on an attempt that arrived after it was over: kept, without effect.

    All fields but `count` are of the last one.
    """

    count: int
    kind: str
    at: Time
    worker: str
    error: TaskError | None


class RunProgress(BaseModel):
    """How far a task has come: `done` of `total` in `unit`; `at`: when that last changed, or when the attempt ended."""

    done: float = Field(examples=[412])
    total: float | None = Field(examples=[1000])
    unit: str = Field(examples=["rows"])
    at: Time


class Attempt(BaseModel):
    """One try."""

    attempt: int
    outcome: str
    reason: str | None
    pending_at: Time | None
    published_at: Time | None
    started_at: Time | None
    finished_at: Time | None
    worker: str | None
    error: TaskError | None
    late_reports: LateReports | None
    progress: RunProgress | None = Field(description="The last that its task showed, once it is over")


class RunOut(BaseModel):
    """A run as stored."""

    run_id: str = Field(examples=["billing.close_2026-12-01T01:00:00Z"])
    job_id: JobId | None
    job_version: int | None
    task: Task
    args: list[Any]
    kwargs: dict[str, Any]
    headers: dict[str, Any] | None
    queue: Queue
    priority: int
    limits: RunLimits
    fair_key: str | None = Field(description="null also where limits with keys give the run its lane")
    force: bool = Field(description="No freeze holds it")
    retry_of: str | None
    scheduled_at: Time
    due_at: Time
    start_by: Time | None = Field(description="A run not started by then ends missed; null: no limit")
    end_by: Time | None = Field(description="A run not over by then has missed its SLA; null: it has none")
    sla_missed: bool | None = Field(description="null: it has no SLA, or its time has not come")
    state: RunState
    attempt: int
    reason: str | None
    cancel_requested_at: Time | None
    pending_at: Time | None
    published_at: Time | None
    started_at: Time | None
    finished_at: Time | None
    worker: str | None
    progress: RunProgress | None = Field(description="What its task shows, or showed last; null: nothing")
    term: int | None
    result: Any
    error: TaskError | None
    attempts: list[Attempt]


class RunPage(Counted):
    """A page of the list of runs."""

    items: list[RunOut]
    next_cursor: str | None


class BatchOut(BaseModel):
    """The runs of a batch, in its order."""

    runs: list[RunOut]


class LeftOut(BaseModel):
    """Occurrences that are not run, by reason: one of their runs completed, is in flight, or waits to be dispatched."""

    completed: int
    active: int
    planned: int


class BackfillOut(BaseModel):
    """The runs created, or planned: `runs` of so many `occurrences`; `first` are the first ten."""

    job_id: JobId
    start: Time = Field(alias="from")
    end: Time = Field(alias="to")
    overlap: Literal["queue_all", "allow"]
    dry_run: bool
    occurrences: int
    left_out: LeftOut
    runs: int
    first: list[Time]
    run_ids: list[str]
    warnings: list[str]


class Status(BaseModel):
    """The leader and its view; null where nobody can answer."""

    leader: str | None
    term: int | None
    since: Time | None
    last_leader: str | None = Field(description="The holder of the lease, or the last one")
    last_heard_at: Time | None = Field(description="When the last leader renewed its lease last, or gave it up")
    leader_answers: bool | None = Field(description="Whether the leader answers; null if nobody leads")
    leader_without_redis: bool | None = Field(description="Whether the leader cannot reach Redis or the broker")
    other_than_leaders: str | None = Field(description="What this API uses in place of the leader's Redis or broker")
    zone_rules: str | None = Field(description="IANA version of the zone rules that the leader plans by")
    zone_rules_api: str = Field(description="That installed on the API's host, which goes by the leader's")
    zone_rules_standby: str | None = Field(description="That of a standby with others, and its holder; else null")
    index_runs: int | None
    last_rebuild_at: Time | None
    last_iteration_at: Time | None
    oldest_due_at: Time | None
    active_runs: int | None
    inbox_depth: int | None = Field(description="Entries of the inbox; read entries stay up to ten seconds")
    workers: int | None


class FieldError(BaseModel):
    """One invalid value."""

    loc: list[str] = Field(examples=[["schedule", "expr"]])
    msg: str


class Problem(BaseModel):
    """An RFC 9457 problem document."""

    type: str = Field(examples=["urn:itinerary:problem:not-found"])
    title: str
    status: int
    detail: str
    request_id: str = Field("", description="As in the header X-Request-Id; the API's log names it")
    errors: list[FieldError] | None = None
