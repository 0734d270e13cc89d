"""Schedules as JSON, one function a kind: what the decorators and `Schedule` have in common.

A value that is not given is left out, so that the service's own default holds.
"""

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Any

from itinerary.jobs.body import plain_fields
from itinerary.jobs.fields import (
    CronDialect,
    DayMatch,
    Duration,
    FoldRule,
    GapRule,
    Moment,
    MonthWeekday,
    SolarEvent,
    Unit,
    Window,
)

Spec = dict[str, Any]


def cron(
    expr: str, dialect: CronDialect | None, timezone: str | None, day_match: DayMatch | None, dst_gap: GapRule | None,
    dst_fold: FoldRule | None,
) -> Spec:  # fmt: skip
    """A cron line."""
    rules = {"day_match": day_match, "dst_gap": dst_gap, "dst_fold": dst_fold}
    return plain_fields({"kind": "cron", "expr": expr, "dialect": dialect, "timezone": timezone, **rules})


def hourly(minute: int, timezone: str | None) -> Spec:
    """A minute of each hour."""
    return plain_fields({"kind": "hourly", "minute": minute, "timezone": timezone})


def interval(
    every: Duration, offset: Duration | None, anchor: Moment | None, window: Window | None, timezone: str | None
) -> Spec:
    """A rhythm of elapsed time."""
    given = {"every": every, "offset": offset, "anchor": anchor, "window": window, "timezone": timezone}
    return plain_fields({"kind": "interval", **given})


def balanced(every: Duration, pinned: bool | None, timezone: str | None) -> Spec:
    """A rhythm whose place the scheduler chooses."""
    given = {"every": every, "balanced": True, "pinned": pinned, "timezone": timezone}
    return plain_fields({"kind": "interval", **given})


def calendar(
    unit: Unit, at: Sequence[str] | str, every: int | None, days: Sequence[int] | None,
    weekdays: Sequence[MonthWeekday] | None, nth: Sequence[int] | None, start: str | None, timezone: str | None,
) -> Spec:  # fmt: skip
    """Days, weeks or months at wall times."""
    times = [at] if isinstance(at, str) else at
    given = {"every": every, "unit": unit, "at": times, "days": days, "weekdays": weekdays, "nth": nth}
    return plain_fields({"kind": "calendar", **given, "start": start, "timezone": timezone})


def once(at: Moment, timezone: str | None) -> Spec:
    """One instant; a datetime without an offset is a wall time of the zone, if that is given."""
    if isinstance(at, datetime) and at.tzinfo is None and timezone is not None:
        at = at.isoformat()
    return plain_fields({"kind": "once", "at": at, "timezone": timezone})


def solar(event: SolarEvent, latitude: float, longitude: float, timezone: str | None) -> Spec:
    """An event of the sun at a place."""
    place = {"latitude": latitude, "longitude": longitude}
    return plain_fields({"kind": "solar", "event": event, **place, "timezone": timezone})


def rrule(rule: str, dtstart: str | datetime, exdate: Sequence[str | date] | None, timezone: str | None) -> Spec:
    """A recurrence rule; datetimes are wall times of the zone."""
    without = None if exdate is None else [_wall(each) for each in exdate]
    given = {"rrule": rule, "dtstart": _wall(dtstart), "exdate": without, "timezone": timezone}
    return plain_fields({"kind": "rrule", **given})


def _wall(moment: str | date) -> str:
    return moment if isinstance(moment, str) else moment.isoformat()


def any_of(of: Sequence[Mapping[str, Any]]) -> Spec:
    """Every time of the schedules, given as JSON."""
    return plain_fields({"kind": "any", "of": list(of)})


def in_zone(spec: Mapping[str, Any], timezone: str) -> Spec:
    """The schedule with a zone where it names none; each member of a union has its own, and an instant needs none."""
    if spec.get("kind") == "once":
        return dict(spec)
    if spec.get("kind") == "any" and isinstance(spec.get("of"), list):
        members = [in_zone(member, timezone) if isinstance(member, dict) else member for member in spec["of"]]
        return {**spec, "of": members}
    return {"timezone": timezone, **spec}
