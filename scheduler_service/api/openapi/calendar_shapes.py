"""The shapes of named calendars for the OpenAPI document."""

from typing import Annotated, Any

from pydantic import BaseModel, Field

from scheduler_service.api.openapi.patterns import Time, Words
from scheduler_service.api.openapi.schedule_schemas import Strict
from scheduler_service.core.calendars.rules import MOST_RULES

_ZONE = "The zone whose days these are, such as Europe/Berlin"
_NAME = "What it is called where it closes a day"


class _Rule(Strict):
    name: Words = Field("", description=_NAME)


class DateRule(_Rule):
    """One day."""

    date: str = Field(description="A day, such as 2026-12-24")


class RangeRule(_Rule):
    """Days with the last one, or times up to the end."""

    from_: str = Field(alias="from", description="A day, or a time such as 2026-03-01T02:00")
    until: str = Field(description="The last day, or the time of the end")


class HolidaysRule(_Rule):
    """The public holidays of a country, or of a part of it."""

    holidays: str = Field(description="The two letters of a country by ISO 3166-1, such as DE")
    subdivision: str | None = Field(None, description="A part of it, such as BE")


class WeeklyTimes(Strict):
    """Times of each week; without `from` and `until` whole days."""

    days: Any = Field(description="Weekdays, such as sat,sun")
    from_: str | None = Field(None, alias="from", description="A time of day, such as 22:00")
    until: str | None = Field(None, description="Not after `from`: on the following day")


class WeeklyRule(_Rule):
    """Days or times of each week."""

    weekly: list[WeeklyTimes]


class IcsSource(Strict):
    """An iCalendar file: its address, which is asked for again each hour, or its text."""

    url: str | None = None
    text: str | None = None


class IcsRule(_Rule):
    """The events of an iCalendar file."""

    ics: IcsSource


Rules = list[DateRule | RangeRule | HolidaysRule | WeeklyRule | IcsRule]


class CalendarIn(Strict):
    """A calendar: all instants of its rules."""

    timezone: str = Field("UTC", description=_ZONE)
    rules: Annotated[Rules, Field(min_length=1, max_length=MOST_RULES)]
    description: Words = Field("", description="Free text")


class _Definition(BaseModel):
    timezone: str
    rules: list[dict[str, Any]]
    description: str
    version: int
    effective_from: Time = Field(description="When this version begins to hold for jobs that use the calendar")
    known_until: str | None = Field(description="The last day up to which holidays and iCalendar files are written out")
    created_at: Time


class CalendarOut(_Definition):
    """A calendar with its newest version."""

    calendar_id: str
    updated_at: Time


class CalendarFeed(BaseModel):
    """A source that a calendar is refreshed from, and how the last try went; no `url`: rules that need no file."""

    url: str | None
    fetched_at: str | None = Field(description="When its server last answered well")
    good_at: str | None = Field(description="When the copy that holds was taken")
    error: str | None = Field(description="Why the last copy still holds, or null")
    failing_since: str | None


class CalendarWithFeeds(CalendarOut):
    """A calendar with what it is refreshed from."""

    feeds: list[CalendarFeed]


class CalendarVersionOut(_Definition):
    """A version of a calendar."""

    actor: str


class Calendars(BaseModel):
    """A page of calendars."""

    items: list[CalendarOut]
    next_cursor: str | None


class CalendarVersions(BaseModel):
    """A page of versions, the newest first."""

    items: list[CalendarVersionOut]
    next_cursor: str | None


class CalendarJobs(BaseModel):
    """Ids of the current jobs that name the calendar."""

    items: list[str]
    next_cursor: str | None


class CalendarMonitors(BaseModel):
    """Ids of the monitors that name the calendar."""

    items: list[str]
    next_cursor: str | None


class CalendarDay(BaseModel):
    """A day of the calendar; `whole`: all of it, by one rule."""

    date: str
    whole: bool
    names: list[str]


class CalendarDays(BaseModel):
    """The days of a year with an instant of the calendar."""

    calendar_id: str
    timezone: str
    year: int
    days: list[CalendarDay]


class MovedJob(BaseModel):
    """The next times of a job, as they are and as they would be."""

    job_id: str
    before: list[Time]
    after: list[Time]


class CalendarPreview(BaseModel):
    """The jobs that an edit would move, of the first `checked` that name the calendar; `more`: others name it too."""

    jobs: list[MovedJob]
    checked: int
    more: bool
