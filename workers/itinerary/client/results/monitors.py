"""Monitors as the API answers."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from itinerary.client.results.record import Answer, Record


@dataclass(frozen=True, eq=False)
class MonitorPing(Answer):
    """A ping that came."""

    at: datetime
    outcome: str
    duration: str | None


@dataclass(frozen=True, eq=False)
class Monitor(Record):
    """A monitor. `token` is that of one just created, `pings` are of one that was asked for by itself; else None."""

    monitor_id: str
    title: str
    schedule: dict[str, Any]
    calendars: dict[str, Any] | None
    grace: str
    description: str
    paused: bool
    version: int
    state: str
    expected_at: datetime | None
    last_ping_at: datetime | None
    last_outcome: str | None
    last_duration: str | None
    created_at: datetime
    updated_at: datetime
    source: str | None
    token: str | None
    pings: list[MonitorPing] | None
