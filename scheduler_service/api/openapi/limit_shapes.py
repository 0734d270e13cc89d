"""The shapes of limits, and of the bounds of queues, for the OpenAPI document."""

from typing import Annotated, Any

from pydantic import BaseModel, Field

from itinerary.protocol.limits import MOST_KEY
from scheduler_service.api.openapi.patterns import STORABLE, Duration, Words
from scheduler_service.api.openapi.schedule_schemas import Strict
from scheduler_service.api.openapi.table import json_type
from scheduler_service.core.contract.limit_json import CONCURRENCY, MOST_OVERRIDES, RATE

Concurrency: Any = json_type(CONCURRENCY)
Count: Any = json_type(RATE.types["count"])
Key = Annotated[str, Field(min_length=1, max_length=MOST_KEY, pattern=STORABLE)]
IN_FLIGHT = "How many runs may be pending or running; null: any number"
STARTING = "How many runs may start; null: any number"
_PURPOSE = "Free text"


class RateIn(Strict):
    """At most `count` runs start in any window of `per`."""

    count: Count
    per: Duration = Field(description="From 1s to 24h")


class BoundsIn(Strict):
    """One of the bounds, or both."""

    concurrency: Concurrency | None = Field(None, description=IN_FLIGHT)
    rate: RateIn | None = Field(None, description=STARTING)


class LimitIn(BoundsIn):
    """A limit: a concurrency, a rate, or both; for each key by itself if it is `per_key`."""

    per_key: bool = Field(False, description="Whether the bounds hold for each key by itself")
    overrides: Annotated[dict[Key, BoundsIn], Field(max_length=MOST_OVERRIDES)] | None = Field(
        None, description="Other bounds for some keys; they replace the limit's own part by part"
    )
    description: Words = Field("", description=_PURPOSE)


class LimitPatch(BoundsIn):
    """Fields to change; null lifts a bound, and removes an override."""

    per_key: bool = Field(False, description="Changes only while no job names the limit")
    overrides: dict[Key, BoundsIn | None] | None = Field(None, description="The keys to change; null removes one")
    description: Words = Field("", description=_PURPOSE)


class RateOut(BaseModel):
    """At most `count` runs start in any window of `per`."""

    count: int
    per: Duration


class BoundsOut(BaseModel):
    """The bounds that are set."""

    concurrency: int | None = None
    rate: RateOut | None = None


class KeyUse(BaseModel):
    """The use of a limit by one key."""

    key: str
    in_flight: int
    waiting: int


class LimitOut(BaseModel):
    """A limit with its use as the leader knows it, with its busiest keys, 20 at most; null if no leader answers.

    `waiting` counts due runs that the leader holds, up to 1,000.
    """

    name: str
    concurrency: int | None
    rate: RateOut | None
    per_key: bool
    overrides: dict[str, BoundsOut]
    description: str
    in_flight: int | None
    waiting: int | None
    waiting_is_exact: bool | None
    busiest_keys: list[KeyUse] | None


class Limits(BaseModel):
    """A page of limits."""

    items: list[LimitOut]
    next_cursor: str | None
