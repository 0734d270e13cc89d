"""The shapes of requests for the OpenAPI document, with examples; answers.py has the answers.

core.contract reads the requests and reports invalid values; tests hold this document against it.
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
        "first", description="Default: first, or both if the line has seconds",
        json_schema_extra=_without_default,
    )  # fmt: skip


class Hourly(Strict):
    """Every hour at a minute."""

    kind: Literal["hourly"]
    minute: int = Field(ge=0, le=59)
    timezone: Zone = "UTC"


class Interval(Strict):
    """A rhythm in elapsed time."""

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
        None, max_length=62, description="Days of the month; -1 is the last. For the unit month only"
    )
    weekdays: list[Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]] | None = Field(
        None, max_length=14, examples=[["mon"]], description="For the unit week only"
    )
    start: Annotated[str, Field(pattern=f"^({DATE}|{WALL})$")] | None = Field(
        None, description="The date, or wall time, to count from"
    )
    timezone: Zone = "UTC"


class Once(Strict):
    """One instant."""

    kind: Literal["once"]
    at: WallOrTime
    timezone: Zone | None = Field(None, description="The zone of an `at` without an offset; the answer is in UTC")


Schedule = Annotated[Cron | Hourly | Interval | Calendar | Once, Field(discriminator="kind")]


class Misfire(Strict):
    """The policy for occurrences that could not be dispatched within the grace."""

    policy: Literal["fire_once", "fire_all", "skip"] = "fire_once"
    grace: Duration = "30s"
    max_catch_up: int = Field(100, ge=1, le=10_000)


class Retry(Strict):
    """How often, and after which pauses, a failed attempt is retried."""

    max_attempts: int = Field(1, ge=1, le=1000)
    initial: Duration = "5s"
    factor: float = Field(2, ge=1, le=100)
    max: Duration = "10m"
    jitter: bool = True


class JobFields(Strict):
    """The fields of a job."""

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
    """A job to create."""

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
    """Fields to change; null resets one to its default."""

    task: Task | None = None
    schedule: dict[str, Any] | None = Field(None, examples=[{"expr": "0 3 1 * *"}])


class ApplyIn(Strict):
    """All jobs of a source; with `prune`, the jobs that it owns and does not name are deleted."""

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
    take_over: bool = Field(False, description="Take over jobs that belong to another source")
    plan_version: str | None = Field(None, max_length=64, description="The version of the plan to carry out")


class PauseIn(Strict):
    """The reason and end of a pause, and what happens to runs that were due before it and still wait."""

    reason: Words | None = None
    until: Time | None = None
    waiting: Literal["keep", "skip"] | None = Field(
        None, description="keep (the default): they run after the resume; skip: they end as skipped"
    )


class TriggerIn(Strict):
    """Deviations from the job for this run."""

    kwargs: dict[str, Any] | None = None
    overlap: OverlapChoice | None = None
    idempotency_key: Key | None = None


class RetryIn(Strict):
    """An optional key, so that repeating the request creates no second run."""

    idempotency_key: Key | None = None


class BackfillIn(Strict):
    """A window of the past: its occurrences that did not complete are run, each with its own time."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"from": "2026-11-01T00:00:00Z", "to": "2026-11-08T00:00:00Z", "dry_run": True}]
        }
    )

    start: Time = Field(alias="from", description="The first instant in the window, RFC 3339")
    end: Time = Field(alias="to", description="The first instant after the window, not later than now")
    dry_run: bool | None = Field(False, description="Only show what would be created")
    overlap: Literal["queue_all", "allow"] | None = Field(
        "queue_all", description="`queue_all`: one after the other; `allow`: all at once"
    )
    idempotency_key: Key | None = None


class PreviewIn(Strict):
    """A schedule to preview; `job_id` determines what `H` in a cron expression stands for."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"schedule": {"kind": "interval", "every": "25m", "offset": "2m"}}]}
    )

    schedule: Schedule
    start: Time | None = Field(None, alias="from")
    count: int | None = Field(None, ge=1, le=1000)
    job_id: JobId | None = None


class RunIn(Strict):
    """A run to enqueue."""

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
    """Runs to enqueue together."""

    runs: list[RunIn] = Field(min_length=1, max_length=1000)
    idempotency_key: Key | None = None
