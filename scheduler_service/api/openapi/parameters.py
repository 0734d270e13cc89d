"""Query parameters in the OpenAPI document. The routes judge the values themselves, with better messages."""

from enum import StrEnum
from typing import Any, Final

from fastapi import Query

from scheduler_service.api.openapi.patterns import DURATION_PATTERN, TIME_PATTERN
from scheduler_service.api.services.list_orders import names_of

GIVEN: Final[dict[str, Any]] = {"minLength": 1, "pattern": r"^[^\u0000]*$"}
AS_TIME: Final[dict[str, Any]] = {"format": "date-time", "pattern": TIME_PATTERN}
AS_DURATION: Final[dict[str, Any]] = {"minLength": 2, "pattern": DURATION_PATTERN}
AS_CURSOR: Final[dict[str, Any]] = {"minLength": 1, "pattern": "^[A-Za-z0-9_-]+$"}


def text(longest: int, description: str, extra: dict[str, Any] | None = None) -> Any:
    """Describe a parameter that is a text."""
    return Query(max_length=longest, description=description, json_schema_extra=GIVEN if extra is None else extra)


def order_of(sorts: type[StrEnum], description: str) -> Any:
    """Describe the parameter that sorts a list."""
    return Query(max_length=40, description=description, json_schema_extra={"enum": names_of(sorts)})
