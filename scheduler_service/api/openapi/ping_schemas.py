"""The ping of a job, for the OpenAPI document."""

from typing import Annotated, Literal

from pydantic import Field

from scheduler_service.api.openapi.schedule_schemas import Strict
from scheduler_service.api.openapi.table import NAMED
from scheduler_service.core.contract.ping_json import PINGS

_State = Literal["start", "success", "failure"]


class JobPing(Strict):
    """The address that hears of a job's events, by a GET of its own for each."""

    url: Annotated[
        str,
        Field(
            pattern="^https?://[!-~]+$", max_length=2_000, examples=["https://hc-ping.com/0b8f"],
            description="In style plain, {state} in it stands for the event",
        ),
    ]  # fmt: skip
    on: Annotated[list[_State], Field(min_length=1)] | None = Field(
        None,
        description="success and failure by default; a start is that of the first attempt",
    )
    style: Literal["plain", "healthchecks", "sentry"] | None = Field(
        "plain", description="healthchecks: /start and /fail after the address; sentry: ?status=in_progress, ok, error"
    )


NAMED[PINGS] = JobPing
