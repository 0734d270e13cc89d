"""The shapes of freezes, for the OpenAPI document."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from itinerary.protocol.identity import JOB_ID, QUEUE
from scheduler_service.api.openapi.patterns import STORABLE, Time, Words
from scheduler_service.api.openapi.schedule_schemas import Strict
from scheduler_service.core.contract.freeze_json import MOST_NAMES
from scheduler_service.core.freezes import During, FreezeStatus

_QueueName = Annotated[str, Field(pattern=f"^{QUEUE.pattern}$")]
_JobId = Annotated[str, Field(pattern=f"^{JOB_ID.pattern}$")]
_Tag = Annotated[str, Field(min_length=1, max_length=100, pattern=STORABLE)]
_MANY = Field(min_length=1, max_length=MOST_NAMES)


class ScopeAll(Strict):
    """Every run."""

    all: Literal[True]


class ScopeQueues(Strict):
    """The runs of these queues."""

    queues: Annotated[list[_QueueName], _MANY]


class ScopeTags(Strict):
    """The runs of jobs with one of these tags."""

    tags: Annotated[list[_Tag], _MANY]


class ScopeJobs(Strict):
    """The runs of these jobs."""

    jobs: Annotated[list[_JobId], _MANY]


FreezeScope = ScopeAll | ScopeQueues | ScopeTags | ScopeJobs


class FreezeIn(Strict):
    """A freeze: nothing in its scope starts from its beginning to its end."""

    scope: FreezeScope
    reason: Words = Field(description="Shown wherever a run waits or was skipped", min_length=1)
    since: Time | None = Field(None, alias="from", description="When it begins; null: at once. Not in the past")
    until: Time | None = Field(None, description="When it ends by itself; null: when somebody ends it")
    during: During = Field(During.HOLD, description="Whether occurrences that fall due within it wait or are skipped")


class FreezeOut(BaseModel):
    """A freeze. While it holds, `running` runs of its scope run on, and `pending` ones are not recalled yet."""

    freeze_id: int
    status: FreezeStatus
    scope: FreezeScope
    during: During
    since: Time = Field(alias="from")
    until: Time | None
    reason: str
    created_at: Time
    created_by: str
    ended_at: Time | None
    ended_by: str | None
    running: int | None
    pending: int | None
    in_flight_is_exact: bool | None = Field(description="Whether all pending and running ones were counted")


class Freezes(BaseModel):
    """A page of freezes."""

    items: list[FreezeOut]
    next_cursor: str | None
