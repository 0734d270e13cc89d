"""Solar specs: an event of the sun at a place, each day that has it."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from itinerary.protocol.errors import BadValue
from scheduler_service.core.schedules.kinds import SolarSchedule
from scheduler_service.core.schedules.solar_times import EVENTS, happens, has_every_day
from scheduler_service.core.schedules.spec_reading import only_known, zone_name

KEYS: Final = ("event", "latitude", "longitude", "timezone")


def canonical(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the spec of a solar event with its defaults."""
    only_known(spec, KEYS)
    event = spec.get("event")
    if not isinstance(event, str) or event not in EVENTS:
        raise BadValue("event", event, f"one of {', '.join(EVENTS)}")
    place = {"latitude": _degrees(spec, "latitude", 90), "longitude": _degrees(spec, "longitude", 180)}
    return {"kind": "solar", "event": event, **place, "timezone": zone_name(spec)}


def _degrees(spec: Mapping[str, Any], key: str, most: int) -> float:
    value = spec.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not -most <= value <= most:
        sides = "north is positive" if key == "latitude" else "east is positive"
        raise BadValue(key, value, f"degrees from -{most} to {most}; {sides}")
    return float(value) + 0.0  # -0.0 is 0.0


@lru_cache(maxsize=65_536)
def parse(event: str, latitude: float, longitude: float, timezone: str) -> tuple[SolarSchedule, tuple[str, ...]]:
    """Build the schedule, with warnings for its writer; BadValue for a place that never has the event."""
    schedule = SolarSchedule(event, latitude, longitude, timezone)
    if has_every_day(schedule):
        return schedule, ()
    if not happens(schedule):
        raise BadValue("event", event, f"the latitude {latitude:g} never has it; give a place further from the pole")
    return schedule, (f"some days of the year have no {event} at latitude {latitude:g}: the job does not run on them",)
