"""The shapes of the distribution and of rebalances, for the OpenAPI document."""

from typing import Annotated, Final, Literal

from pydantic import BaseModel, Field

from scheduler_service.api.openapi.schemas import JobId, Strict, Time

LONGEST_PLAN_ID: Final = 200
Score = Annotated[float, Field(ge=0, le=1, description="1 is even")]
Loads = Annotated[list[int], Field(description="Runs in each of 96 quarter hours from `first_slot` on")]
Reason = Literal["job_running", "protection_window", "placement_cooldown", "pinned", "changed"]


class RebalanceIn(Strict):
    """The plan to carry out; without one, the leader makes a plan now."""

    plan_id: str | None = Field(None, min_length=1, max_length=LONGEST_PLAN_ID)


class HourLoad(BaseModel):
    """The runs of an hour of the day, in UTC."""

    hour: int = Field(ge=0, le=23)
    job_count: int


class SlotLoad(BaseModel):
    """The runs of a quarter of an hour."""

    at: Time
    job_count: int


class DistributionOut(BaseModel):
    """The next 24 hours, from the present quarter of an hour on."""

    window_hours: int
    slot_minutes: int
    total_jobs: int
    hourly_distribution: list[HourLoad]
    distribution_score: Score
    peak_hour: int
    peak_count: int
    suggestion: str
    window_start: Time
    slot_distribution: list[SlotLoad]


class Skipped(BaseModel):
    """A job that is not moved."""

    job_id: JobId
    reason: Reason


class WouldMove(BaseModel):
    """A job's next run, now and after the rebalance."""

    job_id: JobId
    current_time: Time
    proposed_time: Time
    why: str


class Moved(BaseModel):
    """A job whose next run was moved."""

    job_id: JobId
    old_time: Time
    new_time: Time


class PreviewOut(BaseModel):
    """A plan."""

    plan_id: str
    would_move: int
    would_skip: int
    current_score: Score
    projected_score: Score
    preview: list[WouldMove]
    skipped: list[Skipped]
    first_slot: Time
    current_slots: Loads
    projected_slots: Loads


class RebalanceOut(BaseModel):
    """The changes that a rebalance, or its undoing, made."""

    plan_id: str
    moved: list[Moved]
    skipped: list[Skipped]
    new_distribution_score: Score
