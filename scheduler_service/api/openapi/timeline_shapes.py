"""The shapes of the timeline, for the OpenAPI document."""

from pydantic import BaseModel, Field

from scheduler_service.api.openapi.schemas import Time
from scheduler_service.api.services.timelines import Detail
from scheduler_service.core.run_state import RunState
from scheduler_service.ports.timeline import LaneKind


class LaneRunOut(BaseModel):
    """A run in its lane."""

    run_id: str
    state: RunState
    scheduled_at: Time
    started_at: Time | None
    finished_at: Time | None


class LanePartOut(BaseModel):
    """The runs of a lane scheduled in one part of the time, by state."""

    since: Time
    counts: dict[RunState, int]


class LaneOut(BaseModel):
    """A lane: its runs if `detail` is `runs`, else its parts that have any.

    `name` is null for runs without a job, or runs that no worker has started.
    """

    name: str | None
    run_count: int
    runs: list[LaneRunOut]
    parts: list[LanePartOut]


class TimelineOut(BaseModel):
    """The runs scheduled in [since, until), and single ones that ran into it; the lanes with most runs first."""

    by: LaneKind
    since: Time
    until: Time
    part_seconds: float = Field(description="The length of a part")
    detail: Detail = Field(description="Whether runs are listed, counted, or estimated by a sample")
    run_count: int
    run_count_is_exact: bool
    lane_count: int
    next_lane: int | None = Field(description="first_lane of the following lanes; null if there are none")
    lanes: list[LaneOut]
