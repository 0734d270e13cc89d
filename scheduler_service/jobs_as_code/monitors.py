"""Monitors in a file of jobs: by id, as the API takes them, with a cron line for a schedule.

Promises that every wrong value is named by its monitor and place; never contacts the service.
"""

import time
from collections.abc import Mapping
from typing import Any

from itinerary.jobs.specs import in_zone
from itinerary.protocol.errors import BadValue, BadValues
from itinerary.protocol.field_types import read_object
from scheduler_service.core.contract.monitor_json import read_monitor


def short_schedule(schedule: Any, timezone: Any) -> Any:
    """Return the JSON of a schedule: a text is a cron line, and `timezone` the zone of one that names none."""
    spec = {"kind": "cron", "expr": schedule} if isinstance(schedule, str) else schedule
    return in_zone(spec, timezone) if isinstance(spec, dict) and timezone is not None else spec


def read_monitors(given: Any, timezone: Any, errors: list[BadValue]) -> dict[str, dict[str, Any]]:
    """Return the monitors by id; what is wrong is added to `errors`."""
    found: dict[str, dict[str, Any]] = {}
    try:
        items: Mapping[str, Any] = {} if given is None else read_object(given, "monitors")
    except BadValue as error:
        errors.append(error)
        return found
    for monitor_id, body in items.items():
        try:
            found[monitor_id] = checked(monitor_id, read_object(body, ""), timezone)
        except BadValues as error:
            errors += [one.under(f"monitor {monitor_id}") for one in error.errors]
        except BadValue as error:
            errors.append(error.under(f"monitor {monitor_id}"))
    return found


def checked(monitor_id: str, body: Mapping[str, Any], timezone: Any) -> dict[str, Any]:
    """Return the monitor as the API takes it; BadValue, BadValues."""
    whole = {**body, "schedule": short_schedule(body.get("schedule"), timezone)}
    read_monitor(monitor_id, whole, time.time_ns() // 1_000)
    return whole
