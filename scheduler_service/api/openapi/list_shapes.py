"""The shapes that lists of jobs and runs share, for the OpenAPI document."""

from pydantic import BaseModel

from scheduler_service.api.openapi.schemas import Time
from scheduler_service.core.run_state import RunState


class LastRun(BaseModel):
    """The newest run of a job that was due."""

    run_id: str
    state: RunState
    scheduled_at: Time
    finished_at: Time | None


class Counted(BaseModel):
    """The total if `total=true`: exact up to 10,000, else that number or more."""

    total: int | None = None
    total_is_exact: bool | None = None
