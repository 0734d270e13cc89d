"""The shapes of queues, for the OpenAPI document."""

from pydantic import BaseModel, Field

from scheduler_service.api.openapi.limit_shapes import BoundsIn, RateOut
from scheduler_service.api.openapi.schemas import Duration, Strict, Time, Words


class QueueIn(BoundsIn):
    """The definition of a queue; its pause is no part of it."""

    fair: bool = Field(False, description="Whether runs of different keys and jobs take turns")
    description: Words = Field("", description="Free text")


class QueuePauseIn(Strict):
    """The reason and the end of a pause."""

    reason: Words = Field(description="Shown wherever a run of the queue waits", min_length=1)
    until: Time | None = Field(None, description="When it resumes by itself; null: when somebody resumes it")


class QueueOut(BaseModel):
    """A queue: `waiting` runs are due and not dispatched, up to 1,000; `pending` ones dispatched and not started.

    `depth` is what the leader counts as pending; `lag` is how long a run is overdue, dispatched or not. The leader's
    figures are null if none answers.
    """

    name: str
    defined: bool
    concurrency: int | None
    rate: RateOut | None
    fair: bool
    description: str
    paused: bool
    pause_reason: str | None
    paused_at: Time | None
    paused_by: str | None
    paused_until: Time | None
    waiting: int
    waiting_is_exact: bool
    pending: int
    running: int
    in_flight_is_exact: bool = Field(description="Whether all pending and running ones were counted")
    depth: int
    oldest_age: Duration | None
    lag: Duration | None
    workers: int | None


class Queues(BaseModel):
    """A page of queues."""

    items: list[QueueOut]
    next_cursor: str | None
