"""The fields of the form of a job: from a job's JSON to texts, and back. Pure; core.contract judges the values."""

from collections.abc import Mapping
from typing import Any, Final

from itinerary.protocol.errors import BadValue
from itinerary.protocol.field_types import FieldType, Flag, Number, Whole
from itinerary.protocol.limits import JOB_LIMITS, Key
from itinerary.protocol.run_fields import ARGS, HEADERS, KWARGS
from scheduler_service.api.http.bodies import read_json
from scheduler_service.api.pages import calendar_fields, picking
from scheduler_service.api.pages.csrf import Form
from scheduler_service.api.pages.moments import pretty
from scheduler_service.api.pages.reader_zone import UTC
from scheduler_service.core.contract.calendar_json import CALENDARS
from scheduler_service.core.contract.fields import Tags
from scheduler_service.core.contract.job_json import DEFAULTS
from scheduler_service.core.contract.job_table import (
    ARGUMENTS,
    JOB_FIELDS,
    NOTES,
    PLACE,
    SCHEDULE,
    TROUBLE,
    leaves,
)
from scheduler_service.core.contract.ping_json import PINGS
from scheduler_service.core.schedules import window_specs
from scheduler_service.core.schedules.spec_reading import WEEKDAYS

KINDS: Final = (
    ("pick", "Common", "the usual ones, by picking"),
    ("interval", "Interval", "a fixed interval, in elapsed time"),
    ("cron", "Cron", "a cron line of five fields, or six with seconds last"),
    ("hourly", "Hourly", "every hour at a minute"),
    ("calendar", "Calendar", "every N days, weeks or months, at wall times"),
    ("once", "Once", "one instant"),
    ("solar", "Solar", "sunrise, dusk, ... at a place"),
    ("rrule", "Recurrence", "a rule of RFC 5545, as calendar programs write it"),
    ("any", "Any of", "every time of several schedules"),
)
# The fields of each kind of schedule; the form's names have the kind as prefix.
_TEXTS: Final = {
    "cron": ("expr", "dialect", "timezone", "day_match", "dst_gap", "dst_fold"),
    "hourly": ("timezone",),
    "interval": ("every", "offset", "anchor", "timezone"),
    "calendar": ("unit", "start", "timezone"),
    "once": ("at",),
    "solar": ("event", "timezone"),
    "rrule": ("rrule", "dtstart", "timezone"),
}
_NUMBERS: Final = {"hourly": ("minute",), "calendar": ("every",)}
_DECIMALS: Final = {"solar": ("latitude", "longitude")}
_LISTS: Final = {"calendar": ("at", "weekdays"), "rrule": ("exdate",)}
_WHOLES: Final = {"calendar": ("days", "nth")}
_SWITCHES: Final = {"interval": ("balanced", "pinned")}
_JSON: Final = (ARGS, KWARGS, HEADERS, JOB_LIMITS, PINGS)
_OWN_FIELDS: Final = (SCHEDULE, CALENDARS)
_SHOWN: Final = [field for field in JOB_FIELDS if field.type not in _OWN_FIELDS]
_LEAVES: Final = {path: leaf for field in _SHOWN for path, leaf in leaves(field)}
LABELS: Final = {path: leaf.label for path, leaf in _LEAVES.items()} | {
    "kind": "Schedule",
    "interval.every": "Every", "interval.offset": "Offset", "interval.anchor": "Counted from",
    "interval.timezone": "Time zone", "interval.window": "Window",
    "interval.balanced": "Balanced", "interval.pinned": "Pinned",
    "cron.expr": "Line", "cron.dialect": "Dialect", "cron.timezone": "Time zone",
    "cron.day_match": "Day and weekday", "cron.dst_gap": "Skipped times", "cron.dst_fold": "Repeated times",
    "hourly.minute": "Minute", "hourly.timezone": "Time zone",
    "calendar.every": "Every", "calendar.unit": "Unit", "calendar.at": "At", "calendar.weekdays": "Weekdays",
    "calendar.days": "Days", "calendar.nth": "Which of them",
    "calendar.start": "First day", "calendar.timezone": "Time zone", "once.at": "At",
    "solar.event": "Event", "solar.latitude": "Latitude", "solar.longitude": "Longitude", "solar.timezone": "Time zone",
    "rrule.rrule": "Rule", "rrule.dtstart": "Start", "rrule.exdate": "Except", "rrule.timezone": "Time zone",
    "any.of": "Schedules", **picking.LABELS, **calendar_fields.LABELS,
}  # fmt: skip
"""The form's labels of its fields, used in its errors too."""


CHOICE_TEXTS: Final = {
    "cron.dialect": {"": "as crontab", "quartz": "as Quartz", "spring": "as Spring"},
    "cron.day_match": {"": "as the dialect says", "or": "one of the two is enough", "and": "both must hold"},
    "cron.dst_gap": {
        "next_valid": "run at the next time that exists", "shift": "run as much later as is skipped",
        "skip": "leave it out",
    },
    "cron.dst_fold": {"": "as the line says", "first": "run the first time", "last": "run the last time",
                      "both": "run both times"},
    "calendars.when_excluded": {
        "skip": "do not run", "next_day": "run on the next open day", "previous_day": "run on the open day before",
    },
    "overlap": {
        "skip": "the later one is skipped", "allow": "both run", "queue": "one waits for the other",
        "queue_all": "all wait, one after the other", "cancel_running": "the earlier one is cancelled",
    },
    "misfire.policy": {
        "fire_once": "run the newest once", "fire_all": "run all, one after the other", "skip": "run none",
    },
}  # fmt: skip
"""The words of the form for the values of a choice."""
PARTS: Final = [
    (part, [leaf for field in _SHOWN if field.part == part for leaf in leaves(field)])
    for part in (ARGUMENTS, PLACE, TROUBLE, NOTES)
]
"""The parts of the form below the schedule, with their fields by path."""
INPUTS: Final = {Whole: "number", Flag: "checkbox"}
"""The inputs of types that are not typed as text; a Choice has its texts."""


def fields_of(definition: Mapping[str, Any]) -> dict[str, str]:
    """Return the texts of the form for a job's JSON."""
    schedule = definition["schedule"]
    kind = schedule["kind"]
    return {
        **BLANK,
        **_texts(definition),
        "kind": kind,
        **{f"{kind}.{name}": _of_schedule(name, value) for name, value in schedule.items() if name != "kind"},
    }


def _of_schedule(name: str, value: Any) -> str:
    if name == "window":
        days = "" if len(value["days"]) == len(WEEKDAYS) else f" {','.join(value['days'])}"
        return f"{value['from']}-{value['until']}{days}"
    return pretty(value) if name == "of" else _text(value)


def _texts(definition: Mapping[str, Any]) -> dict[str, str]:
    texts = {}
    for path, leaf in _LEAVES.items():
        group, _, inner = path.partition(".")
        value = definition.get(group)
        value = value[inner] if inner and value else value
        is_json = isinstance(value, dict) or (leaf.type in _JSON and value is not None)
        texts[path] = pretty(value) if is_json else _text(value)
    return texts | calendar_fields.texts_of(definition.get("calendars"))


def _text(value: Any) -> str:
    if value is None or value is False:
        return ""
    if value is True:
        return "on"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


BLANK: Final[dict[str, str]] = _texts(DEFAULTS) | {
    **picking.BLANK, **{f"{kind}.timezone": UTC for kind, texts in _TEXTS.items() if "timezone" in texts},
    "pick.timezone": UTC, "kind": "pick", "interval.every": "1h", "cron.expr": "0 2 * * *", "hourly.minute": "0",
    "calendar.every": "1", "calendar.unit": "day", "calendar.at": "05:30", "solar.event": "sunrise",
    "rrule.rrule": "FREQ=MONTHLY;BYDAY=2FR",
    "any.of": '[\n  {"kind": "cron", "expr": "0 9 * * *"},\n  {"kind": "cron", "expr": "30 17 * * fri"}\n]',
}  # fmt: skip
"""A new form: the defaults of a job, and a schedule of each kind."""


def laid_over(definition: Mapping[str, Any], form: Form, errors: list[BadValue]) -> dict[str, Any]:
    """Return the job's JSON; tags that were not touched stay as stored, since one may hold a comma."""
    body = body_of(form, errors)
    untouched = form.one("tags") == fields_of(definition)["tags"]
    return {**body, "tags": definition["tags"]} if untouched else body


def field_in_form(name: str, kind: str) -> str:
    """Return the form's field for a field of the JSON: `cron.expr` for `schedule.expr`, `kwargs` for `kwargs.n`."""
    group, _, rest = name.partition(".")
    if group == "schedule":
        inner = rest.split(".")[0]
        return f"{kind}.{inner}" if f"{kind}.{inner}" in LABELS else "kind"
    of_list = name.rpartition(".")[0]
    return next((known for known in (name, of_list) if known in LABELS), group)


def shown_again(form: Form) -> dict[str, str]:
    """Return the typed values; the browser does not send unticked boxes."""
    return {**dict.fromkeys(BLANK, ""), **form.texts()}


def schedule_of(form: Form) -> dict[str, Any]:
    """Return the schedule's JSON; BadValue for a text that is not a number."""
    kind = form.one("kind")
    if form.texts().get(f"{kind}.timezone", UTC).strip() == "":
        raise BadValue("schedule.timezone", "", "give a time zone, such as Europe/Berlin; write UTC if you mean UTC")
    if kind == "pick":
        return picking.picked(form)
    spec: dict[str, Any] = {"kind": kind}
    for name in _TEXTS.get(kind, ()):
        if text := form.one(f"{kind}.{name}"):
            spec[name] = text
    for name in _NUMBERS.get(kind, ()):
        if text := form.one(f"{kind}.{name}"):
            spec[name] = _number(text, f"schedule.{name}")
    for name in _DECIMALS.get(kind, ()):
        if text := form.one(f"{kind}.{name}"):
            spec[name] = _decimal(text, f"schedule.{name}")
    for name in _LISTS.get(kind, ()):
        if parts := _parts(form.one(f"{kind}.{name}")):
            spec[name] = parts
    for name in _SWITCHES.get(kind, ()):
        if form.one(f"{kind}.{name}"):
            spec[name] = True
    if kind == "interval" and (window := form.one("interval.window")):
        spec["window"] = window_specs.from_text(window)
    if kind == "any":
        spec["of"] = read_json(form.one("any.of") or "[]", "schedule.of")
    for name in _WHOLES.get(kind, ()):
        if numbers := _parts(form.one(f"{kind}.{name}")):
            spec[name] = [_number(number, f"schedule.{name}") for number in numbers]
    return spec


def body_of(form: Form, errors: list[BadValue]) -> dict[str, Any]:
    """Return the job's JSON; values that cannot be parsed are added to `errors`."""

    def tried(name: str, read: Any) -> Any:
        try:
            return read()
        except BadValue as exc:
            errors.append(exc)
            return None

    body: dict[str, Any] = {}
    for path, leaf in _LEAVES.items():
        value = tried(path, lambda path=path, leaf=leaf: _typed(form.one(path), leaf.type, path))
        group, _, inner = path.partition(".")
        if value is not None and inner:
            body.setdefault(group, {})[inner] = value
        elif value is not None:
            body[path] = value
    if (calendars := calendar_fields.calendars_of(form)) is not None:
        body["calendars"] = calendars
    schedule = tried("schedule", lambda: schedule_of(form))
    return body if schedule is None else {**body, "schedule": schedule}


def _typed(text: str, of: FieldType, path: str) -> Any:
    """Return the JSON of an input's text; None for nothing."""
    if isinstance(of, Flag):
        return bool(text)
    if not text:
        return None
    if isinstance(of, Whole):
        return _number(text, path)
    if isinstance(of, Number) or of in _JSON:
        return read_json(text, path)
    if isinstance(of, Key) and text.startswith("{"):
        return read_json(text, path)
    return _parts(text) if isinstance(of, Tags) else text


def _number(text: str, field: str) -> int:
    try:
        return int(text[:20])
    except ValueError:
        raise BadValue(field, text, "give a whole number") from None


def _decimal(text: str, field: str) -> float:
    try:
        return float(text[:40])
    except ValueError:
        raise BadValue(field, text, "give a number of degrees, such as 52.52") from None


def _parts(text: str) -> list[str]:
    return [part for part in (piece.strip() for piece in text.split(",")) if part]
