"""Calendars as users keep them: the present definition with its version, and the version before each. Values only."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from itinerary.protocol.instants import Instant
from scheduler_service.core.calendars.model import Compiled


@dataclass(frozen=True, slots=True)
class CalendarContent:
    """The content that an edit stores: the definition as users wrote it, and the set that its rules make."""

    definition: Mapping[str, Any]
    compiled: Compiled


@dataclass(frozen=True, slots=True)
class StoredCalendar:
    """The present version of a calendar; `effective_from` may be to come."""

    calendar_id: str
    version: int
    effective_from: Instant
    content: CalendarContent
    created_at: Instant
    updated_at: Instant


@dataclass(frozen=True, slots=True)
class PastVersion:
    """One version of a calendar, with the actor who made it."""

    version: int
    effective_from: Instant
    content: CalendarContent
    created_at: Instant
    actor: str
