"""Schedules built by picking: the common ones as a few choices, made into the spec of their kind. Pure."""

import re
from collections.abc import Collection
from typing import Any, Final

from itinerary.protocol.errors import BadValue
from scheduler_service.api.pages.csrf import Form
from scheduler_service.core.schedules.spec_reading import WEEKDAYS

PICKS: Final = (
    ("every", "Every few minutes"),
    ("within", "Every few minutes between two times"),
    ("daily", "Every day"),
    ("weekly", "On days of the week"),
    ("monthly", "On a day of the month"),
    ("nth", "On the first, second, ... weekday of the month"),
    ("business", "On the last business day of the month"),
)
NTHS: Final = (("1", "first"), ("2", "second"), ("3", "third"), ("4", "fourth"), ("last", "last"))
DAYS_OF_MONTH: Final = (*map(str, range(1, 32)), "last")
LABELS: Final = {
    "pick.what": "Runs", "pick.every": "Every", "pick.at": "At", "pick.day": "Day", "pick.nth": "Which",
    "pick.weekday": "Weekday", "pick.weekdays": "Days", "pick.from": "From", "pick.until": "Until",
    "pick.timezone": "Time zone",
}  # fmt: skip
BLANK: Final = {
    "pick.what": "daily", "pick.every": "15", "pick.at": "02:00", "pick.day": "1", "pick.nth": "1",
    "pick.weekday": "mon", "pick.from": "09:00", "pick.until": "17:00",
    **{f"pick.{day}": "" if day in ("sat", "sun") else "on" for day in WEEKDAYS},
}  # fmt: skip
_TIME: Final = re.compile(r"([01]\d|2[0-3]):([0-5]\d)")
_MOST_MINUTES: Final = 1_440


def picked(form: Form) -> dict[str, Any]:
    """Return the schedule's JSON; BadValue names the choice that is missing."""
    zone = {"timezone": form.one("pick.timezone")} if form.one("pick.timezone") else {}
    what = form.one("pick.what")
    if what == "every":
        return {"kind": "interval", "every": _minutes(form), **zone}
    if what == "within":
        opens, until = ("{}:{}".format(*_time(form, name)) for name in ("from", "until"))
        window = {"from": opens, "until": until, "days": _days(form)}
        return {"kind": "interval", "every": _minutes(form), "window": window, **zone}
    hour, minute = _time(form, "at")
    return {"kind": "cron", "expr": f"{int(minute)} {int(hour)} {_day_fields(form, what)}", **zone}


def _day_fields(form: Form, what: str) -> str:
    match what:
        case "daily":
            return "* * *"
        case "weekly":
            return f"* * {','.join(_days(form))}"
        case "monthly":
            day = _one_of(form, "day", DAYS_OF_MONTH)
            return f"{'L' if day == 'last' else day} * *"
        case "nth":
            which = _one_of(form, "nth", [nth for nth, _ in NTHS])
            weekday = _one_of(form, "weekday", WEEKDAYS)
            return f"* * {weekday}L" if which == "last" else f"* * {weekday}#{which}"
        case "business":
            return "LW * *"
        case _:
            raise BadValue("schedule.what", what, f"one of {', '.join(name for name, _ in PICKS)}")


def _minutes(form: Form) -> str:
    text = form.one("pick.every")
    if not (text.isascii() and text.isdigit()) or not 1 <= int(text[:5]) <= _MOST_MINUTES:
        raise BadValue("schedule.every", text, f"give minutes, from 1 to {_MOST_MINUTES}")
    return f"{int(text)}m"


def _time(form: Form, name: str) -> tuple[str, str]:
    found = _TIME.fullmatch(form.one(f"pick.{name}"))
    if found is None:
        raise BadValue(f"schedule.{name}", form.one(f"pick.{name}"), "give a time of day, such as 09:30")
    return found[1], found[2]


def _days(form: Form) -> list[str]:
    days = [day for day in WEEKDAYS if form.one(f"pick.{day}")]
    if not days:
        raise BadValue("schedule.weekdays", "", "tick at least one day")
    return days


def _one_of(form: Form, name: str, allowed: Collection[str]) -> str:
    value = form.one(f"pick.{name}")
    if value not in allowed:
        raise BadValue(f"schedule.{name}", value, f"one of {', '.join(allowed)}")
    return value
