"""The shapes of requests for the OpenAPI document, with examples; answers.py has the answers.

core.contract reads the requests and reports invalid values; tests hold this document against it.
"""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from scheduler_service.api.openapi.patterns import Duration as Duration
from scheduler_service.api.openapi.patterns import JobId as JobId
from scheduler_service.api.openapi.patterns import Key as Key
from scheduler_service.api.openapi.patterns import Priority as Priority
from scheduler_service.api.openapi.patterns import Queue as Queue
from scheduler_service.api.openapi.patterns import Source as Source
from scheduler_service.api.openapi.patterns import Task as Task
from scheduler_service.api.openapi.patterns import Time as Time
from scheduler_service.api.openapi.patterns import Words as Words
from scheduler_service.api.openapi.schedule_schemas import Schedule as Schedule
from scheduler_service.api.openapi.schedule_schemas import Strict as Strict

OverlapChoice = Literal["skip", "allow", "queue", "queue_all", "cancel_running"]


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
