"""The shapes of bulk operations, for the OpenAPI document."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from itinerary.protocol.identity import RUN_ID
from itinerary.protocol.limits import LIMIT
from scheduler_service.api.openapi.patterns import STORABLE, JobId, Key, Queue, Task, Time, Words
from scheduler_service.api.openapi.schedule_schemas import Strict
from scheduler_service.core.bulk import MOST_NAMED, BulkAction, BulkOn, BulkState
from scheduler_service.core.run_state import RunState

_MANY = Field(min_length=1, max_length=MOST_NAMED)
_Text = Annotated[str, Field(min_length=1, max_length=200, pattern=STORABLE)]
_ALL = Field(False, description="Everything: instead of a filter")
_DRY = Field(False, description="Only say what would happen")


class RunFilterIn(Strict):
    """The filters of the list of runs; `run_ids`: only these."""

    job_id: JobId | None = None
    state: Annotated[list[RunState], _MANY] | None = None
    queue: Queue | None = None
    since: Time | None = None
    until: Time | None = None
    task: Task | None = None
    limit_name: Annotated[str, Field(pattern=f"^{LIMIT.pattern}$")] | None = None
    limit_key: _Text | None = None
    run_ids: Annotated[list[Annotated[str, Field(pattern=f"^{RUN_ID.pattern}$")]], _MANY] | None = None


class JobFilterIn(Strict):
    """The filters of the list of jobs; `job_ids`: only these."""

    tag: _Text | None = None
    q: _Text | None = None
    paused: bool | None = None
    source: _Text | None = None
    queue: Queue | None = None
    task: Task | None = None
    last_state: Annotated[list[RunState], _MANY] | None = None
    job_ids: Annotated[list[JobId], _MANY] | None = None


class BulkRunsIn(Strict):
    """An action on every run that the filter finds; `retry` and `delete` need states or ids in the filter."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "action": "retry",
                    "filter": {"job_id": "billing.close", "state": ["failed"], "since": "2026-12-01T00:00:00Z"},
                    "dry_run": True,
                }
            ]
        }
    )

    action: Literal["cancel", "retry", "move", "delete"]
    filter: RunFilterIn | None = None
    all: bool | None = _ALL
    queue: Queue | None = Field(None, description="Where `move` moves them")
    dry_run: bool | None = _DRY
    idempotency_key: Key | None = None


class BulkJobsIn(Strict):
    """An action on every job that the filter finds."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"action": "pause", "filter": {"tag": "billing"}, "reason": "an incident", "dry_run": True}]
        }
    )

    action: Literal["pause", "resume", "move", "delete"]
    filter: JobFilterIn | None = None
    all: bool | None = _ALL
    queue: Queue | None = Field(None, description="Where `move` moves them")
    reason: Words | None = Field(None, description="Why they are paused")
    until: Time | None = Field(None, description="When a pause ends by itself")
    dry_run: bool | None = _DRY
    idempotency_key: Key | None = None


class BulkGroup(BaseModel):
    """A part of what matches: a state of runs, or jobs that are paused or active."""

    what: str
    count: int
    count_is_exact: bool
    outcome: str | None = Field(description="What becomes of them; null: nothing")
    why: str | None = Field(description="Why nothing becomes of them, or of some")


class BulkPlanOut(BaseModel):
    """The plan of an operation; counts are exact up to 10,000 of a group."""

    on: BulkOn
    action: BulkAction
    filter: dict[str, Any]
    matching: int
    matching_is_exact: bool
    changing: int
    changing_is_exact: bool
    groups: list[BulkGroup]
    sample: list[str] = Field(description="The ids of the first that match")


class BulkOut(BaseModel):
    """A bulk operation: `seen` of about `total`, and by outcome what became of them."""

    operation_id: str
    on: BulkOn
    action: BulkAction
    filter: dict[str, Any]
    queue: str | None
    reason: str | None
    until: Time | None
    undo_of: str | None = Field(description="The operation whose changes this one takes back")
    state: BulkState
    total: int
    total_is_exact: bool
    seen: int
    counts: dict[str, int]
    error: str | None
    actor: str
    created_at: Time
    updated_at: Time
    finished_at: Time | None
    undone_by: str | None
    can_be_undone: bool


class BulkPage(BaseModel):
    """A page of bulk operations, the newest first."""

    items: list[BulkOut]
    next_cursor: str | None
