"""Instants from texts, for tests that talk about times."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from itinerary.protocol.instants import Instant, format_instant, from_datetime
from scheduler_service.core.schedules.schedule import Schedule, parse_schedule


def at(text: str) -> Instant:
    """The instant of an RFC 3339 text, such as 2027-03-28T01:00:00Z."""
    return from_datetime(datetime.fromisoformat(text))


def texts(instants: Iterable[Instant]) -> list[str]:
    """Instants as texts in UTC."""
    return [format_instant(instant) for instant in instants]


def clocks(instants: Iterable[Instant]) -> list[str]:
    """The UTC times of day of instants: 00:27."""
    return [format_instant(instant)[11:16] for instant in instants]


def schedule_of(spec: Mapping[str, Any], created_at: str = "2026-11-27T10:00:00Z", job_id: str = "job") -> Schedule:
    """The schedule of a spec, for a job made at a given time."""
    return parse_schedule(spec, job_id=job_id, created_at=at(created_at)).schedule


def cron(expr: str, timezone: str = "UTC", **rules: str) -> Schedule:
    """A cron schedule."""
    return schedule_of({"kind": "cron", "expr": expr, "timezone": timezone, **rules})
