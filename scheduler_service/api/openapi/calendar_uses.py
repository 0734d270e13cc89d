"""The calendars that a job names, for the OpenAPI document."""

from typing import Annotated, Literal

from pydantic import Field

from itinerary.protocol.limits import LIMIT
from scheduler_service.api.openapi.schedule_schemas import Strict
from scheduler_service.api.openapi.table import NAMED
from scheduler_service.core.contract.calendar_json import CALENDARS, MOST_CALENDARS

CalendarId = Annotated[str, Field(pattern=f"^{LIMIT.pattern}$", examples=["holidays-de"])]
_Ids = Annotated[list[CalendarId], Field(max_length=MOST_CALENDARS)]


class JobCalendars(Strict):
    """The calendars by which a job keeps; one of the first two, or `workdays`, is given."""

    exclude: _Ids | None = Field(None, description="An occurrence in one of these does not fire")
    only: _Ids | None = Field(None, description="An occurrence outside all of these does not fire")
    when_excluded: Literal["skip", "next_day", "previous_day"] | None = Field(
        "skip", description="What becomes of it: it is left out, or moves to the next or previous open day, 31 at most"
    )
    workdays: CalendarId | None = Field(
        None, description="The free days by which W of a cron line, and `workday` of a calendar of months, count"
    )


NAMED[CALENDARS] = JobCalendars
