"""Calendars in a file of jobs: by id, with rules as objects or as lines of text.

Promises that every wrong value is named by its calendar and place; never contacts the service.
"""

from collections.abc import Mapping
from typing import Any

from itinerary.protocol.errors import BadValue, BadValues
from itinerary.protocol.field_types import read_object
from itinerary.protocol.limits import LIMIT_RULE
from scheduler_service.core.calendars.rule_texts import read_line
from scheduler_service.core.calendars.rules import read_calendar
from scheduler_service.core.contract.calendar_json import CALENDAR_ID


def read_calendars(given: Any, errors: list[BadValue]) -> dict[str, dict[str, Any]]:
    """Return the definitions as the service keeps them, by id; what is wrong is added to `errors`."""
    found: dict[str, dict[str, Any]] = {}
    try:
        items = {} if given is None else read_object(given, "calendars")
    except BadValue as error:
        errors.append(error)
        return found
    for calendar_id, body in items.items():
        try:
            found[calendar_id] = _read(calendar_id, body)
        except BadValues as error:
            errors += [one.under(f"calendar {calendar_id}") for one in error.errors]
    return found


def _read(calendar_id: str, body: Any) -> dict[str, Any]:
    try:
        if not CALENDAR_ID.fullmatch(calendar_id):
            raise BadValue("", calendar_id, LIMIT_RULE)
        wanted = read_object(body, "")
        rules = wanted.get("rules")
        if isinstance(rules, list):
            wanted = {**wanted, "rules": [_rule(rule, place) for place, rule in enumerate(rules)]}
    except BadValue as error:
        raise BadValues([error]) from error
    return read_calendar(wanted).to_json()


def _rule(rule: Any, place: int) -> Any:
    try:
        return read_line(rule) if isinstance(rule, str) else rule
    except BadValue as error:
        raise error.under(f"rules.{place}") from error


def changes_of(wanted: Mapping[str, Mapping[str, Any]], stored: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Return which wanted calendars are `added` or `changed`, by id."""
    kinds = {}
    for calendar_id, definition in wanted.items():
        there = stored.get(calendar_id)
        if there is None:
            kinds[calendar_id] = "added"
        elif any(there[name] != value for name, value in definition.items()):
            kinds[calendar_id] = "changed"
    return kinds
