"""Changes to come, beside runs: freezes that begin or end, and the next closed day of each calendar. Only shows."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, time
from typing import Final
from urllib.parse import quote
from zoneinfo import ZoneInfo

from itinerary.protocol.instants import DAY, Instant, from_datetime, to_datetime
from scheduler_service.api.context import ApiContext
from scheduler_service.api.http.problems import Problem
from scheduler_service.api.pages.moments import Moment, moment
from scheduler_service.core.calendars.year import days_of_year
from scheduler_service.core.freezes import FreezeStatus

_WITHIN: Final = 14 * DAY
_LISTED: Final = 20
_SHOWN: Final = 6


@dataclass(frozen=True, slots=True)
class Change:
    """Something that will hold or end at a time, and the page that tells more."""

    at: Moment
    text: str
    link: str


def changes_to_come(context: ApiContext, now: Instant) -> list[Change]:
    """Return the next changes of two weeks, the soonest first."""
    found = [one for one in [*_freezes(context), *_closings(context, now)] if now <= one[0] < now + _WITHIN]
    return [Change(moment(at, now), text, link) for at, text, link in sorted(found)[:_SHOWN]]


def _freezes(context: ApiContext) -> Iterator[tuple[Instant, str, str]]:
    for status in (FreezeStatus.COMING, FreezeStatus.ACTIVE):
        try:
            freezes = context.stores.freeze_store.list(status, _LISTED, None).items
        except Problem:  # a limited token sees none
            return
        for freeze in freezes:
            if status is FreezeStatus.COMING:
                yield freeze.since, f"Freeze {freeze.freeze_id} begins: {freeze.reason[:80]}", "/freezes"
            if freeze.end is not None:
                yield freeze.end, f"Freeze {freeze.freeze_id} ends: {freeze.reason[:80]}", "/freezes"


def _closings(context: ApiContext, now: Instant) -> Iterator[tuple[Instant, str, str]]:
    """Name the next day of each calendar, days of every week aside."""
    for calendar in context.stores.calendar_store.list(_LISTED, None).items:
        compiled = replace(calendar.content.compiled, weekly=())
        zone = ZoneInfo(compiled.timezone)
        today = to_datetime(now).astimezone(zone).date()
        coming = (day for year in (today.year, today.year + 1) for day in days_of_year(compiled, year))
        day = next((day for day in coming if day.day > today), None)
        if day is not None:
            begins_at = from_datetime(datetime.combine(day.day, time(), zone))
            link = f"/calendars/{quote(calendar.calendar_id)}?year={day.day.year}"
            yield begins_at, f"Calendar {calendar.calendar_id}: {', '.join(day.names) or 'a closed day'}", link
