"""Times as people type them into a filter: `16:00`, `yesterday`, `2h` (ago), beside those with a date. Pure.

Promises that a relative one stays relative in the address, so that a bookmark of the last hour is always the last hour.
"""

import re
from contextlib import suppress
from typing import Final

from itinerary.protocol.errors import BadValue
from itinerary.protocol.instants import DAY, SECOND, Instant, format_instant, parse_duration
from scheduler_service.api.pages.moments import read_time, typed_time
from scheduler_service.api.pages.reader_zone import UTC, reader_zone
from scheduler_service.core.schedules.zones import offset_at

_CLOCK: Final = re.compile(r"([01]?\d|2[0-3]):[0-5]\d")
_DAYS: Final = {"today": 0, "yesterday": -1, "tomorrow": 1}


def read_typed_time(text: str, field: str, now: Instant) -> Instant:
    """Read a time of a filter; BadValue says what may be typed."""
    words = text.strip().lower()
    if words == "now":
        return now
    if words in _DAYS:
        return read_time(f"{_today(now + _DAYS[words] * DAY)} 00:00", field)
    if _CLOCK.fullmatch(words):
        return read_time(f"{_today(now)} {words:0>5}", field)
    with suppress(BadValue):
        found = now - parse_duration(words.removesuffix(" ago").replace(" ", ""), field)
        if found >= 0:  # what is longer ago than 1970 may have no date at all
            return found
    try:
        return read_time(text, field)
    except BadValue as exc:
        raise BadValue(field, text, f"{exc.allowed}; or 16:00, yesterday, 2h (ago)") from None


def check_order(since: Instant | None, until: Instant | None, typed: str) -> None:
    """Raise BadValue for an end that is not after its beginning; it quotes the end as its field shows it."""
    if since is not None and until is not None and until <= since:
        raise BadValue("until", typed_time(typed), "give a time after From")


def _today(now: Instant) -> str:
    """Return the date at an instant, by the clocks of the zone that times are typed in."""
    name, second = reader_zone().typed, now // SECOND
    offset = offset_at(name, second) if name != UTC else 0
    return format_instant((second + offset) * SECOND)[:10]
