"""Stored jobs in the form of a file: only the fields that differ from the defaults. Pure."""

from collections.abc import Mapping
from typing import Any, Final

from itinerary.protocol.errors import BadValue
from itinerary.protocol.instants import format_duration
from scheduler_service.core.calendars.model import JobCalendars
from scheduler_service.core.contract.calendar_json import CALENDARS
from scheduler_service.core.contract.job_json import DEFAULTS
from scheduler_service.core.contract.job_table import GROUPS
from scheduler_service.core.monitors.model import DEFAULT_GRACE
from scheduler_service.core.schedules.schedule import canonical_spec

_PARTS: Final = {**{group: DEFAULTS[group] for group in GROUPS}, "calendars": CALENDARS.write(JobCalendars())}


def short_body(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the job without the fields that the service fills in; read again, it is the same definition."""
    job_id = body["job_id"]
    short: dict[str, Any] = {"job_id": job_id, "task": body["task"], "schedule": short_spec(body["schedule"], job_id)}
    for key, default in DEFAULTS.items():
        value = body.get(key)
        if value != default and value is not None:
            short[key] = _differing(value, _PARTS[key]) if key in _PARTS else value
    return short


def short_monitor(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the monitor without what the service fills in, and without its pause, which stays where none is named."""
    short: dict[str, Any] = {"schedule": short_spec(body["schedule"], body["monitor_id"])}
    if body["grace"] != format_duration(DEFAULT_GRACE):
        short["grace"] = body["grace"]
    if body.get("calendars") is not None:
        short["calendars"] = _differing(body["calendars"], _PARTS["calendars"])
    return short | {name: body[name] for name in ("title", "description") if body[name]}


def short_spec(spec: Mapping[str, Any], job_id: str) -> dict[str, Any]:
    """Return the schedule without the keys that the service would fill in equally."""
    short = dict(spec)
    whole = canonical_spec(spec, job_id=job_id)
    for key in list(short):
        less = {name: value for name, value in short.items() if name != key}
        if _canonical(less, job_id) == whole:
            short = less
    return short


def _canonical(spec: Mapping[str, Any], job_id: str) -> Mapping[str, Any] | None:
    try:
        return canonical_spec(spec, job_id=job_id)
    except BadValue:
        return None


def _differing(value: Mapping[str, Any], default: Mapping[str, Any]) -> dict[str, Any]:
    return {key: item for key, item in value.items() if item != default[key]}
