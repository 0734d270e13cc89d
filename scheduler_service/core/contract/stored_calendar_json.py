"""Stored calendars, their versions and their days as the API's JSON."""

from datetime import date, timedelta
from typing import Any, Final

from itinerary.protocol.instants import format_instant
from scheduler_service.core.calendars.model import Compiled
from scheduler_service.core.calendars.stored import PastVersion, StoredCalendar
from scheduler_service.core.calendars.year import days_of_year

_EPOCH: Final = date(1970, 1, 1)


def calendar_body(calendar: StoredCalendar) -> dict[str, Any]:
    """A calendar with its present definition; `effective_from` is when its newest version begins."""
    return {
        "calendar_id": calendar.calendar_id, **calendar.content.definition, "version": calendar.version,
        "effective_from": format_instant(calendar.effective_from),
        "known_until": _known_until(calendar.content.compiled), "created_at": format_instant(calendar.created_at),
        "updated_at": format_instant(calendar.updated_at),
    }  # fmt: skip


def version_body(version: PastVersion) -> dict[str, Any]:
    """A version of a calendar, and who made it."""
    return {
        "version": version.version, **version.content.definition,
        "effective_from": format_instant(version.effective_from),
        "known_until": _known_until(version.content.compiled), "created_at": format_instant(version.created_at),
        "actor": version.actor,
    }  # fmt: skip


def days_body(calendar: StoredCalendar, year: int) -> dict[str, Any]:
    """The days of this year that the calendar names."""
    compiled = calendar.content.compiled
    days = [
        {"date": one.day.isoformat(), "whole": one.whole, "names": list(one.names)}
        for one in days_of_year(compiled, year)
    ]
    return {"calendar_id": calendar.calendar_id, "timezone": compiled.timezone, "year": year, "days": days}


def _known_until(compiled: Compiled) -> str | None:
    return None if compiled.known_until is None else (_EPOCH + timedelta(compiled.known_until)).isoformat()
