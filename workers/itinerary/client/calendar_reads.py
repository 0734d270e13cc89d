"""The client's reading of the calendar of runs."""

from datetime import date
from typing import Literal

from itinerary.client.log_reads import LogReads
from itinerary.client.results import RunCalendar
from itinerary.client.transport import given


class CalendarReads(LogReads):
    """The request for what is planned and what ended."""

    def run_calendar(
        self,
        first: date | str | None = None,
        *,
        days: int | None = None,
        unit: Literal["day", "hour"] | None = None,
        timezone: str | None = None,
        job_id: str | None = None,
        tag: str | None = None,
        queue: str | None = None,
    ) -> RunCalendar:
        """The planned and the ended runs by days, or hours, of a zone; seven days from today on if none is given."""
        asked = given(days=days, unit=unit, timezone=timezone, job_id=job_id, tag=tag, queue=queue)
        if first is not None:
            asked["date"] = str(first)
        return RunCalendar.of(self._api.object("GET", "/runs/calendar", params=asked))
