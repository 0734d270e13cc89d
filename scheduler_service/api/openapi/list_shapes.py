"""The shapes that lists of jobs and runs share, for the OpenAPI document."""

from typing import Literal

from pydantic import BaseModel

from scheduler_service.api.openapi.schemas import Time

State = Literal[
    "scheduled", "pending", "running", "retrying", "completed", "failed", "cancelled", "skipped", "missed"
]  # fmt: skip


class LastRun(BaseModel):
    """The newest run of a job that was due."""

    run_id: str
    state: State
    scheduled_at: Time
    finished_at: Time | None


class Counted(BaseModel):
    """The total if `total=true`: exact up to 10,000, else that number or more."""

    total: int | None = None
    total_is_exact: bool | None = None
