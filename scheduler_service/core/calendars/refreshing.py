"""Whether a calendar that was written out anew is another one, and whether a file is too small to be believed. Pure."""

from typing import Any

from itinerary.protocol.instants import SECOND, Instant
from scheduler_service.core.calendars.ics import IcsEvents
from scheduler_service.core.calendars.model import Compiled
from scheduler_service.core.schedules.zones import DAY_SECONDS, first_instant_from, offset_at


def today_in(timezone: str, now: Instant) -> int:
    """Return the day number that the zone's clocks show at `now`."""
    second = now // SECOND
    return (second + offset_at(timezone, second)) // DAY_SECONDS


def differs(before: Compiled, after: Compiled, today: int) -> bool:
    """Whether the two are different sets from the day `today` on: the past is planned, and names close nothing."""
    return _ahead(before, today) != _ahead(after, today)


def too_few(before: IcsEvents, after: IcsEvents, timezone: str, today: int) -> tuple[int, int] | None:
    """Return the numbers of events from `today` on, after and before, where not even half of them are left."""
    counts = [_count(events, timezone, today) for events in (after, before)]
    return (counts[0], counts[1]) if 2 * counts[0] < counts[1] else None


def _count(events: IcsEvents, timezone: str, today: int) -> int:
    start = first_instant_from(timezone, today * DAY_SECONDS) * SECOND
    return sum(each.last >= today for each in events.days) + sum(each.end > start for each in events.spans)


def _ahead(compiled: Compiled, today: int) -> tuple[Any, ...]:
    start = first_instant_from(compiled.timezone, today * DAY_SECONDS) * SECOND
    days = {(max(each.first, today), each.last) for each in compiled.days if each.last >= today}
    spans = {(max(each.start, start), each.end) for each in compiled.spans if each.end > start}
    return compiled.timezone, days, spans, {each[:3] for each in compiled.weekly}, compiled.known_until
