"""The shapes of requests for the OpenAPI document, with examples; the answers are in answers.py.

Requests are read by core.job_body and core.run_requests, which also say what is wrong with a value; tests hold the
document against what they do.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from scheduler_service.api.openapi.patterns import CLOCK, DATE, WALL
from scheduler_service.api.openapi.patterns import Duration as Duration
from scheduler_service.api.openapi.patterns import JobId as JobId
from scheduler_service.api.openapi.patterns import Key as Key
from scheduler_service.api.openapi.patterns import Priority as Priority
from scheduler_service.api.openapi.patterns import Queue as Queue
from scheduler_service.api.openapi.patterns import Source as Source
from scheduler_service.api.openapi.patterns import Task as Task
from scheduler_service.api.openapi.patterns import Time as Time
from scheduler_service.api.openapi.patterns import WallOrTime as WallOrTime
from scheduler_service.api.openapi.patterns import Words as Words
from scheduler_service.api.openapi.patterns import Zone as Zone

OverlapChoice = Literal["skip", "allow", "queue", "queue_all", "cancel_running"]


class Strict(BaseModel):
    """No unknown fields, no coercion."""

    model_config = ConfigDict(extra="forbid", strict=True)


def _without_default(schema: dict[str, Any]) -> None:
    schema.pop("default", None)


class Cron(Strict):
    """A cron expression: five fields, or six with seconds last."""

    kind: Literal["cron"]
    expr: str = Field(max_length=256, pattern=r"^[ -~\t]+$", examples=["0 2 1 * *"])
    timezone: Zone = "UTC"
    day_match: Literal["or", "and"] = "or"
    dst_gap: Literal["next_valid", "shift", "skip"] = "next_valid"
    dst_fold: Literal["first", "last", "both"] = Field(
        "first", description="Left out: first, or both where the line has seconds",
        json_schema_extra=_without_default,
    )  # fmt: skip


class Hourly(Strict):
    """Every hour at a minute."""

    kind: Literal["hourly"]
    minute: int = Field(ge=0, le=59)
    timezone: Zone = "UTC"


class Interval(Strict):
    """Every so often, in elapsed time."""

    kind: Literal["interval"]
    every: Duration
    offset: Duration | None = None
    anchor: WallOrTime | None = None
    timezone: Zone = "UTC"
    balanced: bool = False
    pinned: bool = False


class Calendar(Strict):
    """Every N days, weeks or months, at wall times."""

    kind: Literal["calendar"]
    every: int = Field(1, ge=1, le=3660, description="At most 3,660 days, 520 weeks or 120 months")
    unit: Literal["day", "week", "month"]
    at: list[Annotated[str, Field(pattern=f"^{CLOCK}$")]] | None = Field(
        None, max_length=288, examples=[["05:30"]], description="Wall times; without one 00:00, or that of `start`"
    )
    days: list[Annotated[int, Field(ge=1, le=31)] | Annotated[int, Field(ge=-31, le=-1)]] | None = Field(
        None, max_length=62, description="Of the month; -1 is its last day. For the unit month alone"
    )
    weekdays: list[Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]] | None = Field(
        None, max_length=14, examples=[["mon"]], description="For the unit week alone"
    )
    start: Annotated[str, Field(pattern=f"^({DATE}|{WALL})$")] | None = Field(
        None, description="The date, or wall time, that is counted from"
    )
    timezone: Zone = "UTC"


class Once(Strict):
    """One instant."""

    kind: Literal["once"]
    at: WallOrTime
    timezone: Zone | None = Field(None, description="Of an `at` without an offset; the answer is in UTC")


Schedule = Annotated[Cron | Hourly | Interval | Calendar | Once, Field(discriminator="kind")]


class Misfire(Strict):
    """What happens to occurrences that could not be released within the grace."""

    policy: Literal["fire_once", "fire_all", "skip"] = "fire_once"
    grace: Duration = "30s"
    max_catch_up: int = Field(100, ge=1, le=10_000)


class Retry(Strict):
    """How often, and after which pauses, an attempt that failed is tried anew."""

    max_attempts: int = Field(1, ge=1, le=1000)
    initial: Duration = "5s"
    factor: float = Field(2, ge=1, le=100)
    max: Duration = "10m"
    jitter: bool = True


class JobFields(Strict):
    """What a job is made of."""

    title: Words | None = None
    args: list[Any] | None = None
    kwargs: dict[str, Any] | None = None
    queue: Queue | None = None
    priority: Priority | None = None
    start_at: Time | None = None
    end_at: Time | None = None
    jitter: Duration | None = None
    misfire: Misfire | None = None
    overlap: OverlapChoice | None = None
    retry: Retry | None = None
    timeout: Duration | None = None
    start_within: Duration | None = Field(
        default=None, description="From 1s to 365d; a run not started so long after its due time ends missed"
    )
    tags: list[Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[^\u0000]*$")]] | None = Field(
        None, max_length=50
    )
    description: Words | None = None


class JobIn(JobFields):
    """A job to be made."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "job_id": "billing.close",
                    "task": "billing.close_month",
                    "schedule": {"kind": "cron", "expr": "0 2 1 * *", "timezone": "Europe/Berlin"},
                    "retry": {"max_attempts": 3},
                    "tags": ["finance"],
                }
            ]
        }
    )

    job_id: JobId
    task: Task
    schedule: Schedule


class JobPut(JobFields):
    """A job whose id is in the address."""

    job_id: JobId | None = None
    task: Task
    schedule: Schedule


class JobPatch(JobFields):
    """Fields to change; null takes one back to its default."""

    task: Task | None = None
    schedule: dict[str, Any] | None = Field(None, examples=[{"expr": "0 3 1 * *"}])


class ApplyIn(Strict):
    """All jobs of a source; what it owns and does not name is deleted where `prune` says so."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "source": "shop",
                    "jobs": [
                        {
                            "job_id": "shop.report",
                            "task": "itinerary.echo",
                            "schedule": {"kind": "hourly", "minute": 17},
                        }
                    ],
                    "prune": True,
                    "dry_run": True,
                }
            ]
        }
    )

    source: Source | None = None
    jobs: list[JobIn] = Field(max_length=5000)
    prune: bool = False
    dry_run: bool = False
    take_over: bool = Field(False, description="Have jobs that belong to another source")
    plan_version: str | None = Field(None, max_length=64, description="Of the plan that this is to carry out")


class PauseIn(Strict):
    """Why, until when, and what becomes of runs that were due before the pause and had to wait."""

    reason: Words | None = None
    until: Time | None = None
    waiting: Literal["keep", "skip"] | None = Field(
        None, description="keep (the default): they run after the resume; skip: they end as skipped"
    )


class TriggerIn(Strict):
    """What differs from the job for this run."""

    kwargs: dict[str, Any] | None = None
    overlap: OverlapChoice | None = None
    idempotency_key: Key | None = None


class RetryIn(Strict):
    """A key, where sending it again must make no second run."""

    idempotency_key: Key | None = None


class BackfillIn(Strict):
    """A window of the past: its occurrences that did not complete are run, each with its own time."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"from": "2026-11-01T00:00:00Z", "to": "2026-11-08T00:00:00Z", "dry_run": True}]
        }
    )

    start: Time = Field(alias="from", description="The first instant that belongs to it, RFC 3339")
    end: Time = Field(alias="to", description="The first instant that does not, not later than now")
    dry_run: bool | None = Field(False, description="Only say what would be made")
    overlap: Literal["queue_all", "allow"] | None = Field(
        "queue_all", description="One after the other, or all at once"
    )
    idempotency_key: Key | None = None


class PreviewIn(Strict):
    """A schedule to look ahead with; `job_id` is what `H` in a cron expression is made of."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"schedule": {"kind": "interval", "every": "25m", "offset": "2m"}}]}
    )

    schedule: Schedule
    start: Time | None = Field(None, alias="from")
    count: int | None = Field(None, ge=1, le=1000)
    job_id: JobId | None = None


class RunIn(Strict):
    """A run to be enqueued."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"task": "itinerary.echo", "kwargs": {"message": "hello"}, "idempotency_key": "order-17"}]
        }
    )

    task: Task
    args: list[Any] | None = None
    kwargs: dict[str, Any] | None = None
    run_at: Time | None = None
    queue: Queue | None = None
    priority: Priority | None = None
    timeout: Duration | None = None
    start_within: Duration | None = Field(
        default=None, description="From 1s to 365d; a run not started so long after its due time ends missed"
    )
    retry: Retry | None = None
    idempotency_key: Key | None = None


class BatchIn(Strict):
    """Runs to be enqueued together."""

    runs: list[RunIn] = Field(min_length=1, max_length=1000)
    idempotency_key: Key | None = None
