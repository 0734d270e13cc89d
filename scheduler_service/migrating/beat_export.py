"""An app's beat schedule from its JSON, as `python -m itinerary export-beat` prints it in the app's own environment.

Promises: entries become what they would become beside the app itself; nothing of the app is imported.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from celery import Celery
from celery.schedules import crontab, schedule, solar

from itinerary.apps.beat_schedule import CRON_FIELDS, FORMAT
from itinerary.protocol.errors import BadValue
from scheduler_service.core.schedules.zones import zone
from scheduler_service.migrating.beat_entry import BeatEntry

NOTES: Final = (
    "beat sends whether or not an entry's last run is over, so overlap is `allow`; `skip` may be what you want",
    "after an outage beat sends each entry once; so does misfire `fire_once`, for what is later than its grace of 30s",
)
MOST_BYTES: Final = 16 * 1024 * 1024
_GIVE: Final = "give what `python -m itinerary export-beat MODULE:APP` prints"


@dataclass(frozen=True, slots=True)
class ExportedApp:
    """The entries, and an app of nobody's with the zone, the queues and the tasks of theirs."""

    place: str
    app: Celery
    entries: list[BeatEntry]
    scheduler: Mapping[str, Any]


def parse_export(text: str | bytes, where: str) -> ExportedApp:
    """Read the JSON; BadValue names `where` it is from."""
    try:
        return read_export(json.loads(text))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as exc:
        raise BadValue("--from-json", where, f"{_GIVE} ({type(exc).__name__}: {exc})") from exc


def read_export(body: Mapping[str, Any]) -> ExportedApp:
    """Read the export; ValueError, KeyError or TypeError for anything else."""
    if body["format"] != FORMAT:
        raise ValueError(f"the format is {body['format']!r}, this service reads {FORMAT}: install the same release")
    app, known_zone = _stand_in(body)
    entries = [_entry(app, known_zone, entry, body["timezone"]) for entry in body["entries"]]
    return ExportedApp(str(body["app"]), app, entries, dict(body["scheduler"]))


def _stand_in(body: Mapping[str, Any]) -> tuple[Celery, bool]:
    """An app that routes, knows tasks and counts time as theirs; whether its zone has an IANA name."""
    try:
        name, known = zone(body["timezone"]).key, True
    except BadValue:
        name, known = "UTC", False
    tasks: dict[str, str] = dict(body["tasks"])
    conf = {
        "timezone": name,
        "enable_utc": body["enable_utc"],
        "broker_url": f"{body['transport']}://",
        "task_default_queue": body["queue"],
        "task_routes": {task: {"queue": queue} for task, queue in tasks.items()},
    }
    # Without fixups: DJANGO_SETTINGS_MODULE is the app's, and Django is not installed beside the service.
    app = Celery("itinerary-moving-in", set_as_current=False, fixups=[], changes=conf)
    app.finalize()
    for task in set(tasks) - set(app.tasks):
        app.task(name=task, shared=False, rate_limit=body.get("rate_limits", {}).get(task))(_nothing)
    return app, known


def _nothing() -> None:
    """The body of a task that only its name is needed of."""


def _entry(app: Celery, known_zone: bool, entry: Mapping[str, Any], named: str) -> BeatEntry:
    refused, given = entry["refused"], None
    if refused is None:
        given, refused = _schedule(app, entry["schedule"])
    if refused is None and not known_zone:
        given, refused = None, f"the app's time zone {named!r} has no IANA name: set app.conf.timezone"
    return BeatEntry(
        str(entry["name"]),
        str(entry["task"]),
        given,
        list(entry["args"]),
        dict(entry["kwargs"]),
        {**entry["options"], "queue": str(entry["queue"])},
        tuple(entry["unknown"]),
        refused=refused,
        differences=tuple(_varying(entry)),
        stored=True,
    )


def _schedule(app: Celery, given: Mapping[str, Any]) -> tuple[Any, str | None]:
    """Celery's object, or why there is none."""
    clock: dict[str, Any] = {"nowfun": app.now} if given.get("nowfun") else {}
    match given["kind"]:
        case "crontab":
            try:
                return crontab(**{name: given[name] for name in CRON_FIELDS}, **clock), None
            except ValueError as exc:
                return None, f"its crontab is not understood by the service's Celery: {exc}"
        case "interval":
            return schedule(timedelta(microseconds=given["microseconds"]), given["relative"], **clock), None
        case "solar":
            return solar(given["event"], given["lat"], given["lon"]), None
        case other:
            raise ValueError(f"a schedule of kind {other!r}")


def _varying(entry: Mapping[str, Any]) -> list[str]:
    """Name what differs each time the app is loaded, and what to write instead."""
    again: Any = entry.get("again", {})
    if again is None:
        return ["it is not there when the app is loaded again, so each import would remove it: give it a fixed name"]
    found = []
    for field, other in again.items():
        if field == "schedule":
            found.append(
                f"its schedule is another each time the app is loaded ({_short(entry[field])}, then {_short(other)}), "
                f"so each import would move it: {_stable(entry[field], other)}"
            )
        else:
            found.append(f"its {field} differ each time the app is loaded; what is shown here would be kept")
    return found


def _short(given: Any) -> str:
    if not isinstance(given, dict):
        return "none"
    if given["kind"] == "crontab":
        return "crontab " + " ".join(_text(given[name]) for name in CRON_FIELDS)
    return f"every {given['microseconds'] / 1_000_000:g} s" if given["kind"] == "interval" else str(given["kind"])


def _stable(given: Any, other: Any) -> str:
    """The schedule that is spread as evenly, and the same at every import."""
    if isinstance(given, dict) and isinstance(other, dict) and given["kind"] == other["kind"] == "crontab":
        fields = ["H" if given[name] != other[name] else _text(given[name]) for name in CRON_FIELDS]
        return f"the cron line `{' '.join(fields)}` is spread by the job's id and stays (`itinerary jobs add --cron`)"
    return "an interval with `balanced` is given an even phase that stays (`itinerary jobs add --every ... --balanced`)"


def _text(field: Any) -> str:
    return ",".join(map(str, field)) if isinstance(field, list) else str(field)
