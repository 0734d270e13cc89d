"""The shape of logs for the OpenAPI document."""

from typing import Any, Final

from pydantic import BaseModel, Field


class LogOut(BaseModel):
    """The end of an attempt's log, or what follows a position; positions are characters since the attempt began."""

    run_id: str
    attempt: int
    text: str
    start: int = Field(description="The position of the text's first character")
    end: int = Field(description="The position after its last one: the `after` of the next request")
    missing: int = Field(description="Characters before the text that are not in this answer")
    complete: bool = Field(description="Whether the attempt is over and nothing follows")


LOG: Final[dict[str, Any]] = {
    "run_id": "billing.close_2026-12-01T01:00:00Z", "attempt": 1,
    "text": "2026-12-01 01:00:01.250 INFO billing.tasks: 3 rows\n", "start": 0, "end": 51, "missing": 0,
    "complete": True,
}  # fmt: skip
