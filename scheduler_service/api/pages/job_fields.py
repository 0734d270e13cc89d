"""The fields of the form of a job: from a job's JSON to texts, and back. Pure; core.contract judges the values."""

from collections.abc import Mapping
from typing import Any, Final

from itinerary.protocol.errors import BadValue
from scheduler_service.api.http.bodies import read_json
from scheduler_service.api.pages.csrf import Form
from scheduler_service.api.pages.moments import pretty

KINDS: Final = (
    ("interval", "Interval", "a fixed interval, in elapsed time"),
    ("cron", "Cron", "a cron line of five fields, or six with seconds last"),
    ("hourly", "Hourly", "every hour at a minute"),
    ("calendar", "Calendar", "every N days, weeks or months, at wall times"),
    ("once", "Once", "one instant"),
    ("solar", "Solar", "sunrise, dusk, ... at a place"),
)
_PLAIN: Final = (
    "title",
    "task",
    "queue",
    "jitter",
    "timeout",
    "start_within",
    "start_at",
    "end_at",
    "overlap",
    "description",
)
# The fields of each kind of schedule; the form's names have the kind as prefix.
_TEXTS: Final = {
    "cron": ("expr", "timezone", "day_match", "dst_gap", "dst_fold"),
    "hourly": ("timezone",),
    "interval": ("every", "offset", "anchor", "timezone"),
    "calendar": ("unit", "start", "timezone"),
    "once": ("at",),
    "solar": ("event", "timezone"),
}
_NUMBERS: Final = {"hourly": ("minute",), "calendar": ("every",)}
_DECIMALS: Final = {"solar": ("latitude", "longitude")}
_LISTS: Final = {"calendar": ("at", "weekdays")}
_SWITCHES: Final = {"interval": ("balanced", "pinned")}
_GROUPS: Final = {
    "misfire": ("policy", "grace", "max_catch_up"),
    "retry": ("max_attempts", "initial", "factor", "max", "jitter"),
}
_SHOWN: Final = frozenset({"job_id", "schedule", "priority", "tags", "args", "kwargs", *_PLAIN, *_GROUPS})
LABELS: Final = {
    "job_id": "Id", "task": "Task", "title": "Title", "queue": "Queue", "priority": "Priority", "timeout": "Timeout",
    "start_within": "Start within",
    "overlap": "If the previous run is not over", "jitter": "Jitter", "kwargs": "By name (a JSON object)",
    "args": "In order (a JSON list)", "start_at": "Not before", "end_at": "Not from", "tags": "Tags",
    "description": "Description", "kind": "Schedule",
    "interval.every": "Every", "interval.offset": "Offset", "interval.anchor": "Counted from",
    "interval.timezone": "Time zone", "interval.balanced": "Balanced", "interval.pinned": "Pinned",
    "cron.expr": "Line", "cron.timezone": "Time zone", "cron.day_match": "Day and weekday",
    "cron.dst_gap": "Skipped times", "cron.dst_fold": "Repeated times",
    "hourly.minute": "Minute", "hourly.timezone": "Time zone",
    "calendar.every": "Every", "calendar.unit": "Unit", "calendar.at": "At", "calendar.weekdays": "Weekdays",
    "calendar.days": "Days", "calendar.start": "First day", "calendar.timezone": "Time zone", "once.at": "At",
    "solar.event": "Event", "solar.latitude": "Latitude", "solar.longitude": "Longitude", "solar.timezone": "Time zone",
    "retry.max_attempts": "Attempts in all", "retry.initial": "First pause", "retry.factor": "Factor",
    "retry.max": "Longest pause", "retry.jitter": "Random variation of each pause",
    "misfire.policy": "Late runs", "misfire.grace": "Late after", "misfire.max_catch_up": "Catch up at most",
}  # fmt: skip
"""The form's labels of its fields, used in its errors too."""
BLANK: Final[dict[str, str]] = {
    "kind": "interval", "interval.every": "1h", "cron.expr": "0 2 * * *", "hourly.minute": "0", "calendar.every": "1",
    "calendar.unit": "day", "calendar.at": "05:30", "solar.event": "sunrise",
    "queue": "default", "priority": "5", "overlap": "skip",
    "misfire.policy": "fire_once", "misfire.grace": "30s", "misfire.max_catch_up": "100", "retry.max_attempts": "1",
    "retry.initial": "5s", "retry.factor": "2", "retry.max": "10m", "retry.jitter": "on", "jitter": "0s",
    "args": "[]", "kwargs": "{}",
}  # fmt: skip


def fields_of(definition: Mapping[str, Any]) -> dict[str, str]:
    """Return the texts of the form for a job's JSON."""
    schedule = definition["schedule"]
    kind = schedule["kind"]
    fields = {**BLANK, "kind": kind, "job_id": definition["job_id"]}
    fields |= {name: _text(definition.get(name)) for name in (*_PLAIN, "priority")}
    fields |= {f"{kind}.{name}": _text(value) for name, value in schedule.items() if name != "kind"}
    for group in ("misfire", "retry"):
        fields |= {f"{group}.{name}": _text(value) for name, value in definition[group].items()}
    fields |= {name: pretty(definition[name]) for name in ("args", "kwargs")}
    return {**fields, "tags": ", ".join(definition["tags"])}


def laid_over(definition: Mapping[str, Any], form: Form, errors: list[BadValue]) -> dict[str, Any]:
    """Apply the form to a stored job's JSON: fields that the form does not show stay as stored."""
    body = body_of(form, errors)
    if form.one("tags") == fields_of(definition)["tags"]:  # a tag may hold a comma
        body["tags"] = definition["tags"]
    for group, shown in _GROUPS.items():
        if group in body:
            body[group] = {name: value for name, value in definition[group].items() if name not in shown} | body[group]
    return {name: value for name, value in definition.items() if name not in _SHOWN} | body


def field_in_form(name: str, kind: str) -> str:
    """Return the form's field for a field of the JSON: `cron.expr` for `schedule.expr`, `kwargs` for `kwargs.n`."""
    group, _, rest = name.partition(".")
    if group == "schedule":
        inner = rest.split(".")[0]
        return f"{kind}.{inner}" if f"{kind}.{inner}" in LABELS else "kind"
    return name if name in LABELS else group


def shown_again(form: Form) -> dict[str, str]:
    """Return the typed values; the browser does not send unticked boxes."""
    return {**dict.fromkeys(BLANK, ""), **form.texts()}


def schedule_of(form: Form) -> dict[str, Any]:
    """Return the schedule's JSON; BadValue for a text that is not a number."""
    kind = form.one("kind")
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
    if kind == "calendar" and (days := _parts(form.one("calendar.days"))):
        spec["days"] = [_number(day, "schedule.days") for day in days]
    return spec


def body_of(form: Form, errors: list[BadValue]) -> dict[str, Any]:
    """Return the job's JSON; values that cannot be parsed are added to `errors`."""

    def tried(name: str, read: Any) -> Any:
        try:
            return read()
        except BadValue as exc:
            errors.append(exc)
            return None

    body: dict[str, Any] = {name: form.one(name) or None for name in ("job_id", *_PLAIN)}
    body["schedule"] = tried("schedule", lambda: schedule_of(form))
    body["priority"] = tried("priority", lambda: _number(form.one("priority") or "5", "priority"))
    body["tags"] = _parts(form.one("tags"))
    for name in ("args", "kwargs"):
        body[name] = tried(name, lambda name=name: _json(form.one(name), name))
    body["misfire"] = tried("misfire", lambda: _misfire(form))
    body["retry"] = tried("retry", lambda: _retry(form))
    return {name: value for name, value in body.items() if value is not None}


def _misfire(form: Form) -> dict[str, Any]:
    found = {name: form.one(f"misfire.{name}") for name in ("policy", "grace") if form.one(f"misfire.{name}")}
    most = form.one("misfire.max_catch_up")
    return {**found, **({"max_catch_up": _number(most, "misfire.max_catch_up")} if most else {})}


def _retry(form: Form) -> dict[str, Any]:
    found: dict[str, Any] = {
        name: form.one(f"retry.{name}") for name in ("initial", "max") if form.one(f"retry.{name}")
    }
    if most := form.one("retry.max_attempts"):
        found["max_attempts"] = _number(most, "retry.max_attempts")
    if factor := form.one("retry.factor"):
        found["factor"] = _json(factor, "retry.factor")
    return {**found, "jitter": bool(form.one("retry.jitter"))}


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


def _json(text: str, field: str) -> Any:
    return read_json(text, field) if text else None


def _parts(text: str) -> list[str]:
    return [part for part in (piece.strip() for piece in text.split(",")) if part]


def _text(value: Any) -> str:
    if value is None or value is False:
        return ""
    if value is True:
        return "on"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
