"""The shape of logs for the OpenAPI document."""

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
