"""The shapes of plans of jobs and monitors as code, for the OpenAPI document."""

from typing import Any

from pydantic import BaseModel, Field

from scheduler_service.api.openapi.patterns import JobId


class PlannedJob(BaseModel):
    """A job that is created or deleted."""

    job_id: JobId
    job: dict[str, Any]


class PlannedField(BaseModel):
    """A field that changes, by its path."""

    field: str = Field(examples=["schedule.expr"])
    before: Any
    after: Any


class PlannedChange(BaseModel):
    """A job that changes, and the version that changes."""

    job_id: JobId
    version: int
    changes: list[PlannedField]


class JobWarning(BaseModel):
    """A warning about a job's schedule."""

    job_id: JobId
    msg: str


class PlannedMonitor(BaseModel):
    """A monitor that is created or deleted."""

    monitor_id: str
    monitor: dict[str, Any]


class PlannedMonitorChange(BaseModel):
    """A monitor that changes, and the version that changes."""

    monitor_id: str
    version: int
    changes: list[PlannedField]


class PlannedMonitors(BaseModel):
    """The changes of monitors; `left`: those that the source owns and does not name, kept. It has no tokens."""

    added: list[PlannedMonitor]
    changed: list[PlannedMonitorChange]
    removed: list[PlannedMonitor]
    left: list[str]
    unchanged: int


class PlanOut(BaseModel):
    """The changes made, or planned; `left`: jobs that the source owns and does not name, kept."""

    source: str | None
    plan_version: str
    applied: bool
    added: list[PlannedJob]
    changed: list[PlannedChange]
    removed: list[PlannedJob]
    left: list[JobId]
    unchanged: int
    monitors: PlannedMonitors
    warnings: list[JobWarning]
