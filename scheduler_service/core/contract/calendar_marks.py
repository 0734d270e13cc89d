"""The marks of calendars in a preview, as JSON: what they leave out or move, and for which days a run stands."""

from datetime import date, timedelta
from typing import Any, Final

from itinerary.protocol.instants import Instant, format_instant
from scheduler_service.core.calendars.reasons import left_out, moved_from
from scheduler_service.core.schedules.preview import occurrence
from scheduler_service.core.schedules.schedule import Schedule, own_schedule

_EPOCH: Final = date(1970, 1, 1)


def left_out_body(schedule: Schedule, start: Instant, end: Instant, most: int) -> list[dict[str, Any]]:
    """Return the first occurrences of [start, end) that calendars leave out or move, each with the reason."""
    own = own_schedule(schedule)
    return [
        {
            "at": format_instant(one.at),
            "local": occurrence(own, one.at).local,
            "because": str(one.because),
            "moved_to": None if one.moved_to is None else _day(one.moved_to),
        }
        for one in left_out(schedule, start, end, most)
    ]


def stands_for(schedule: Schedule, at: Instant) -> list[dict[str, str]]:
    """Return the other days for which the run of an instant stands, each with the reason."""
    return [{"day": _day(one.day), "because": str(one.because)} for one in moved_from(schedule, at)]


def _day(number: int) -> str:
    return str(_EPOCH + timedelta(days=number))
