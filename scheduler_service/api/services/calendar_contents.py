"""The content of a calendar from a request's body: its definition, and the set that its rules make now."""

from collections.abc import Mapping
from typing import Any

from itinerary.protocol.errors import BadValue, BadValues
from itinerary.protocol.instants import DAY, Instant
from scheduler_service.core.calendars.rules import compile_rules, read_calendar, written_out_elsewhere
from scheduler_service.core.calendars.stored import CalendarContent


def content_of(body: Mapping[str, Any], now: Instant) -> CalendarContent:
    """Return the content; BadValues with everything that is wrong."""
    definition = read_calendar(body)
    if places := written_out_elsewhere(definition):
        refused = "give days, ranges or weekly times"
        raise BadValues([BadValue(f"rules.{place}", rule, refused) for place, rule in places.items()])
    return CalendarContent(definition.to_json(), compile_rules(definition, now // DAY, {}))
