"""The shapes of monitors, for the OpenAPI document."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from scheduler_service.api.openapi.calendar_uses import JobCalendars
from scheduler_service.api.openapi.patterns import Duration, Time, Words
from scheduler_service.api.openapi.schedule_schemas import Schedule, Strict

_State = Literal["new", "up", "late", "down", "paused"]
_Outcome = Literal["start", "success", "fail"]
_PINGS = "The last 100"


class MonitorIn(Strict):
    """A schedule by which something outside pings."""

    schedule: Schedule = Field(description="As of a job; nothing places a balanced interval")
    calendars: JobCalendars | None = Field(None, description="By which its schedule keeps, as a job's")
    grace: Duration | None = Field(None, description="How late a ping may be; 5m by default, from 1s to 30d")
    title: Words | None = None
    description: Words | None = None
    paused: bool | None = Field(None, description="Whether nothing is expected for now")


class _Monitor(BaseModel):
    monitor_id: str
    title: str
    schedule: Schedule
    calendars: JobCalendars | None
    grace: Duration
    description: str
    paused: bool
    version: int
    state: _State = Field(description="late: its ping is due, and its grace runs; down: it did not come, or failed")
    expected_at: Time | None
    last_ping_at: Time | None
    last_outcome: _Outcome | None
    last_duration: Duration | None
    created_at: Time
    updated_at: Time
    source: str | None = Field(description="The file that owns it; null of one that was set by itself")


class MonitorPing(BaseModel):
    """A ping that came."""

    at: Time
    outcome: _Outcome
    duration: Duration | None


class MonitorListed(_Monitor):
    """A monitor in the list."""


class MonitorOut(_Monitor):
    """A monitor with its last pings, the newest first."""

    pings: Annotated[list[MonitorPing], Field(description=_PINGS)]


class MonitorSaved(_Monitor):
    """A monitor as it was saved."""

    token: str | None = Field(description="Of a new monitor: shown once; null for one that was there")


class MonitorToken(BaseModel):
    """A new token, shown once."""

    token: str


class PingAnswer(BaseModel):
    """The monitor after a ping."""

    monitor_id: str
    state: _State
    expected_at: Time | None


class Monitors(BaseModel):
    """A page of monitors."""

    items: list[MonitorListed]
    next_cursor: str | None
