"""Interval specs: a rhythm in elapsed time, counted from an anchor.

Occurrences are anchor + offset + k * every: from k = 0 if the user gives the anchor, else from k = 1. The default
anchor is 00:00 of the day on which the job was created: every 25th minute with offset 2 starts at 00:27. A balanced
interval has no anchor of its own: it has no occurrences until the leader places it.
"""

from collections.abc import Mapping
from typing import Any, Final

from itinerary.protocol.errors import BadValue
from itinerary.protocol.instants import DAY, SECOND, Duration, Instant, format_duration, format_instant
from scheduler_service.core.schedules import window_specs
from scheduler_service.core.schedules.kinds import UNPLACED, IntervalSchedule, WindowSchedule, shared_interval
from scheduler_service.core.schedules.spec_reading import duration, flag, moment, only_known, zone_name
from scheduler_service.core.schedules.warnings import rhythm_warnings
from scheduler_service.core.schedules.zone_eras import cached_by_rules
from scheduler_service.core.schedules.zones import DAY_SECONDS, first_instant_from, offset_at

KEYS: Final = ("every", "offset", "anchor", "balanced", "pinned", "window", "timezone")
_LONGEST: Final = 3_660 * DAY


def canonical(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the spec of an interval with its defaults."""
    only_known(spec, KEYS)
    timezone, every = zone_name(spec), _every(spec)
    offset, anchor = _offset(spec, every), spec.get("anchor")
    balanced, pinned = flag(spec, "balanced"), flag(spec, "pinned")
    if balanced and (offset or anchor is not None):
        key = "offset" if offset else "anchor"
        raise BadValue(key, spec[key], "a balanced interval is placed by the scheduler; leave it out")
    if pinned and not balanced:
        raise BadValue("pinned", True, "only a balanced interval can be pinned to its place")
    with_window = spec.get("window") is not None
    if with_window:
        window_specs.check(spec)
    return {
        "kind": "interval",
        "every": format_duration(every),
        "offset": format_duration(offset),
        "anchor": None if anchor is None else format_instant(moment(anchor, "anchor", timezone)),
        "balanced": balanced,
        "pinned": pinned,
        # Absent where it is not given: the release before refuses a definition with a field that it does not know.
        **({"window": window_specs.canonical(spec)} if with_window else {}),
        "timezone": timezone,
    }


def _every(spec: Mapping[str, Any]) -> Duration:
    every = duration(spec, "every")
    if not SECOND <= every <= _LONGEST:
        raise BadValue("every", spec["every"], "whole seconds, from 1s to 3660d")
    return every


def _offset(spec: Mapping[str, Any], every: Duration) -> Duration:
    offset = duration(spec, "offset", "0s")
    if not 0 <= offset < every:
        raise BadValue("offset", spec["offset"], "from 0s up to, and less than, every")
    return offset


def parse(spec: Mapping[str, Any], created_at: Instant) -> IntervalSchedule | WindowSchedule:
    """Build the schedule of a canonical spec, for a job created at `created_at`."""
    every, offset = _every(spec), duration(spec, "offset")
    if "window" in spec:
        return window_specs.parse(spec, every, offset)
    if spec["balanced"]:
        first = UNPLACED
    elif spec["anchor"] is None:
        first = midnight(spec["timezone"], created_at) + offset + every
    else:
        first = moment(spec["anchor"], "anchor", None) + offset
    return shared_interval(IntervalSchedule(every, first, spec["timezone"], spec["balanced"], spec["pinned"]))


def midnight(timezone: str, instant: Instant) -> Instant:
    """Return 00:00, or the first existing moment after it, of the instant's day in a zone."""
    second = instant // SECOND
    local = second + offset_at(timezone, second)
    return _day_begins(timezone, local - local % DAY_SECONDS)


@cached_by_rules(maxsize=4_096)
def _day_begins(timezone: str, local: int) -> Instant:
    return first_instant_from(timezone, local) * SECOND


def warnings(schedule: IntervalSchedule | WindowSchedule, since: int) -> tuple[str, ...]:
    """Return the warnings for the writer of an interval; clock changes are considered from `since` (seconds) on."""
    if schedule.every < 10 * SECOND:
        return ("this runs more often than every 10 seconds",)
    of_days = isinstance(schedule, IntervalSchedule) and schedule.every % DAY == 0
    return rhythm_warnings(schedule.zone, since) if of_days else ()
