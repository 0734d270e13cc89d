"""Monitors as the API's JSON, and back. Reading reports every wrong value at once (BadValues)."""

from collections.abc import Mapping
from typing import Any, Final

from itinerary.protocol.errors import BadValue, BadValues, Conflict
from itinerary.protocol.field_types import Flag, Span, read_object
from itinerary.protocol.instants import DAY, SECOND, Instant, format_duration, format_instant
from itinerary.protocol.limits import LIMIT, LIMIT_RULE
from itinerary.protocol.run_request import read_field, refuse_unknown
from scheduler_service.core.contract.calendar_json import CALENDARS
from scheduler_service.core.contract.calendar_uses import misfits
from scheduler_service.core.contract.fields import read_text
from scheduler_service.core.monitors.judging import state_at
from scheduler_service.core.monitors.model import DEFAULT_GRACE, Monitor, MonitorContent, MonitorPing
from scheduler_service.core.schedules.schedule import parse_schedule

MONITOR_ID: Final = LIMIT
GRACE: Final = Span(SECOND, 30 * DAY)
FIELDS: Final = frozenset({"title", "schedule", "calendars", "grace", "description", "paused"})


def read_monitor(monitor_id: str, body: Mapping[str, Any], now: Instant) -> MonitorContent:
    """Return the definition of a monitor."""
    errors: list[BadValue] = []
    if not MONITOR_ID.fullmatch(monitor_id):
        errors.append(BadValue("monitor_id", monitor_id, LIMIT_RULE))
    refuse_unknown(body, FIELDS, errors)
    grace = read_field(body, "grace", GRACE.read, DEFAULT_GRACE, errors)
    texts = {name: read_field(body, name, read_text, "", errors) for name in ("title", "description")}
    paused = read_field(body, "paused", Flag().read, False, errors)
    calendars = read_field(body, "calendars", CALENDARS.read, None, errors)
    try:
        spec = read_object(body.get("schedule"), "schedule")
        _refuse_balanced(spec)
        parsed = parse_schedule(spec, job_id=monitor_id, created_at=now)
    except BadValue as error:
        raise BadValues([*errors, error]) from error
    errors += [] if calendars is None else misfits(calendars, parsed.schedule)
    if errors:
        raise BadValues(errors)
    return MonitorContent(parsed.schedule, parsed.spec, grace, paused=paused, calendars=calendars, **texts)


def definition_of(content: MonitorContent) -> dict[str, Any]:
    """Return the JSON from which `read_monitor` reads the same; the release before reads it without calendars."""
    calendars = {} if content.calendars is None else {"calendars": CALENDARS.write(content.calendars)}
    return {
        "title": content.title, "schedule": dict(content.schedule_spec), "grace": format_duration(content.grace),
        "description": content.description, "paused": content.paused, **calendars,
    }  # fmt: skip


def monitor_body(monitor: Monitor, now: Instant) -> dict[str, Any]:
    """Return the monitor as the API shows it; Conflict where this program cannot read its definition."""
    if monitor.content is None:
        raise Conflict(
            f"this release cannot read the definition of monitor {monitor.monitor_id}: a newer one defined it, or its "
            "time zone is gone; update this process, or replace or delete it. Its pings are taken."
        )
    return {
        "monitor_id": monitor.monitor_id, "calendars": None, **definition_of(monitor.content),
        "version": monitor.version, "state": state_at(monitor, now).value, "expected_at": _instant(monitor.expected_at),
        "last_ping_at": _instant(monitor.last_ping_at),
        "last_outcome": None if monitor.last_outcome is None else monitor.last_outcome.value,
        "last_duration": None if monitor.last_duration is None else format_duration(monitor.last_duration),
        "created_at": format_instant(monitor.created_at), "updated_at": format_instant(monitor.updated_at),
        "source": monitor.source,
    }  # fmt: skip


def pinged_body(monitor: Monitor, now: Instant) -> dict[str, Any]:
    """Return what a ping is answered."""
    expected = _instant(monitor.expected_at)
    return {"monitor_id": monitor.monitor_id, "state": state_at(monitor, now).value, "expected_at": expected}


def ping_body(ping: MonitorPing) -> dict[str, Any]:
    """Return a ping as the API shows it."""
    duration = None if ping.duration is None else format_duration(ping.duration)
    return {"at": format_instant(ping.at), "outcome": ping.outcome.value, "duration": duration}


def _refuse_balanced(spec: Mapping[str, Any]) -> None:
    several = spec.get("of")
    for one in several if isinstance(several, list) else [spec]:
        if isinstance(one, Mapping) and one.get("balanced"):
            raise BadValue("schedule.balanced", True, "nothing places a monitor; leave it out")


def _instant(at: Instant | None) -> str | None:
    return None if at is None else format_instant(at)
