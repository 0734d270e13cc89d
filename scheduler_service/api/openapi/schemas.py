"""The shapes of requests for the OpenAPI document, with examples; answers.py has the answers.

core.contract reads the requests and reports invalid values; tests hold this document against it.
"""

from typing import Any, Literal

from pydantic import ConfigDict, Field

from itinerary.protocol.limits import LIMIT
from itinerary.protocol.run_fields import RETRY, RUN_FIELDS
from scheduler_service.api.openapi import calendar_uses as calendar_uses
from scheduler_service.api.openapi import ping_schemas as ping_schemas
from scheduler_service.api.openapi.limit_uses import Key as FairKey
from scheduler_service.api.openapi.limit_uses import RunLimits
from scheduler_service.api.openapi.monitor_shapes import MonitorIn
from scheduler_service.api.openapi.patterns import Duration as Duration
from scheduler_service.api.openapi.patterns import JobId as JobId
from scheduler_service.api.openapi.patterns import Key as Key
from scheduler_service.api.openapi.patterns import Source as Source
from scheduler_service.api.openapi.patterns import Time as Time
from scheduler_service.api.openapi.patterns import Words as Words
from scheduler_service.api.openapi.schedule_schemas import Schedule as Schedule
from scheduler_service.api.openapi.schedule_schemas import Strict as Strict
from scheduler_service.api.openapi.table import NAMED, group, requested
from scheduler_service.api.openapi.table import stored as stored
from scheduler_service.core.contract.fields import MISFIRE
from scheduler_service.core.contract.job_table import JOB_TYPES, SCHEDULE
from scheduler_service.core.contract.run_again import CHANGEABLE


@group("misfire", MISFIRE)
class Misfire(Strict):
    """The policy for occurrences that could not be dispatched within the grace."""


@group("retry", RETRY)
class Retry(Strict):
    """How often, and after which pauses, a failed attempt is retried."""


NAMED[SCHEDULE] = Schedule


@requested("job_id", "task", "schedule")
class JobIn(Strict):
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


@requested("task", "schedule")
class JobPut(Strict):
    """A job whose id is in the address."""


@requested(only=JOB_TYPES.keys() - {"job_id"})
class JobPatch(Strict):
    """Fields to change; null resets one to its default."""

    schedule: dict[str, Any] | None = Field(None, examples=[{"expr": "0 3 1 * *"}])


class ApplyIn(Strict):
    """All jobs of a source; with `prune`, the jobs that it owns and does not name are deleted.

    So are monitors, where `monitors` is given; without it they stay as they are.
    """

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
    monitors: dict[str, MonitorIn] | None = Field(
        None, description="By their ids", json_schema_extra={"propertyNames": {"pattern": f"^{LIMIT.pattern}$"}}
    )
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


@requested(only=("kwargs", "overlap"))
class TriggerIn(Strict):
    """Deviations from the job for this run."""

    limits: RunLimits | None = Field(None, description="In place of the job's limits; an empty list: none")
    fair_key: FairKey | None = Field(None, description="In place of the job's fair key")
    force: bool = Field(False, description="Whether no freeze holds the run; a pause does")
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
    calendars: calendar_uses.JobCalendars | None = None


@requested("task", only=RUN_FIELDS)
class RunIn(Strict):
    """A run to enqueue."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"task": "itinerary.echo", "kwargs": {"message": "hello"}, "idempotency_key": "order-17"}]
        }
    )

    run_at: Time | None = None
    limits: RunLimits | None = Field(None, description="Limits that it counts for, of a key where the limit has keys")
    fair_key: FairKey | None = Field(None, description="It waits in one lane with the runs of the same key")
    idempotency_key: Key | None = None


@requested(only=CHANGEABLE)
class AgainIn(Strict):
    """The changes to an earlier run; null resets a field to its default. A mask keeps the stored value."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"kwargs": {"month": 11}, "queue": "slow"}]})

    run_at: Time | None = None
    idempotency_key: Key | None = None


class BatchIn(Strict):
    """Runs to enqueue together."""

    runs: list[RunIn] = Field(min_length=1, max_length=1000)
    idempotency_key: Key | None = None
