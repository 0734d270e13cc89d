"""Specs of an interval with a window: `{"from": "09:00", "until": "17:00", "days": "mon-fri"}`.

The count begins anew at each opening. The window has its first instant and not its last; an `until` that is not later
than `from` is on the next day.
"""

from collections.abc import Mapping
from typing import Any, Final

from itinerary.protocol.errors import BadValue
from itinerary.protocol.instants import SECOND, Duration
from scheduler_service.core.schedules.kinds import WindowSchedule, shared_window
from scheduler_service.core.schedules.spec_reading import time_of_day, time_text, weekday_mask, weekdays
from scheduler_service.core.schedules.zones import DAY_SECONDS

KEYS: Final = ("from", "until", "days")


def from_text(text: str) -> dict[str, str]:
    """Read `09:00-17:00 mon-fri` as people type it into the fields of a window; the days may be left out."""
    times, _, days = text.strip().partition(" ")
    opens, _, until = times.partition("-")
    return {"from": opens, "until": until, **({"days": days.strip()} if days.strip() else {})}


def canonical(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the window of an interval's spec with its defaults."""
    window = spec["window"]
    if not isinstance(window, Mapping):
        raise BadValue("window", window, f"an object with {', '.join(KEYS)}")
    for key in window:
        if key not in KEYS:
            raise BadValue(f"window.{key}", window[key], f"a window has {', '.join(KEYS)}")
    try:
        times = {key: time_text(time_of_day(window.get(key), key)) for key in ("from", "until")}
        return {**times, "days": weekdays(window, "days")}
    except BadValue as refused:
        raise refused.under("window") from None


def check(spec: Mapping[str, Any]) -> None:
    """Refuse what a count that begins anew each day cannot have."""
    if spec.get("balanced"):
        raise BadValue("balanced", True, "an interval with a window begins at each opening; leave one of both out")
    if spec.get("anchor") is not None:
        raise BadValue("anchor", spec["anchor"], "an interval with a window counts from each opening; leave it out")


def parse(spec: Mapping[str, Any], every: Duration, offset: Duration) -> WindowSchedule:
    """Build the schedule of a canonical interval spec that has a window."""
    window = spec["window"]
    opens, closes = time_of_day(window["from"], "from"), time_of_day(window["until"], "until")
    closes += DAY_SECONDS if closes <= opens else 0
    if offset >= (closes - opens) * SECOND:
        raise BadValue("offset", spec["offset"], "the window is over by then, so it would never run; give less")
    days = weekday_mask(window["days"])
    return shared_window(WindowSchedule(every, offset, days, opens, closes, spec["timezone"]))
