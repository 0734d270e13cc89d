"""Limits and keys as jobs and runs name them, for the OpenAPI document."""

from typing import Annotated, Any, Final

from pydantic import Field

from itinerary.protocol.field_types import FieldType
from itinerary.protocol.limits import JOB_LIMITS, MOST_KEY, MOST_LIMITS, RUN_LIMITS
from itinerary.protocol.limits import Key as KeyType
from scheduler_service.api.openapi.patterns import STORABLE
from scheduler_service.api.openapi.schedule_schemas import Strict
from scheduler_service.api.openapi.table import NAMED

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$", examples=["api"])]
Key = Annotated[str, Field(min_length=1, max_length=MOST_KEY, pattern=STORABLE, examples=["acme"])]


class LimitUse(Strict):
    """A limit that a run counts for, and the key for which it does."""

    name: Name
    key: Key | None = None


class KeyFrom(Strict):
    """The argument that the key of each run is taken from."""

    path: str = Field(
        alias="from", max_length=MOST_KEY, pattern=r"^(args|kwargs)(\.[^.\u0000]+)+$", examples=["kwargs.tenant"]
    )


class JobLimit(Strict):
    """A limit that the runs of a job count for; its key may be taken from their arguments."""

    name: Name
    key: Key | KeyFrom | None = None


RunLimits = Annotated[list[Name | LimitUse], Field(max_length=MOST_LIMITS)]
_JobLimits = Annotated[list[Name | JobLimit], Field(max_length=MOST_LIMITS)]

_SHAPES: Final[dict[FieldType, Any]] = {
    RUN_LIMITS: RunLimits, JOB_LIMITS: _JobLimits, KeyType(): Key, KeyType(of_job=True): Key | KeyFrom,
}  # fmt: skip
NAMED.update(_SHAPES)
