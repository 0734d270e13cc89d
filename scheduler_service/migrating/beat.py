"""An app's beat schedule as jobs: `beat_schedule`, what `add_periodic_task` added, and beat's own clean-up.

Promises: every entry is moved with its differences told, or refused by name; the app is read as beat would read it,
and no connection is opened.
"""

import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from celery import Celery
from celery.app.utils import find_app
from celery.backends.base import DisabledBackend
from celery.schedules import crontab, maybe_schedule

from itinerary.protocol.app_errors import first_error, renamed_hint
from itinerary.protocol.errors import BadValue, ItineraryError
from itinerary.protocol.instants import Instant
from scheduler_service.migrating.beat_entry import BeatEntry, ConvertedEntry
from scheduler_service.migrating.beat_moving import move_entries

NOTES: Final = (
    "beat sends whether or not an entry's last run is over, so overlap is `allow`; `skip` may be what you want",
    "after an outage beat sends each entry once; so does misfire `fire_once`, for what is later than its grace of 30s",
)
_CLEAN_UP: Final = "celery.backend_cleanup"
_KEYS: Final = ("task", "schedule", "args", "kwargs", "options", "relative")


def load_app(place: str) -> Celery:
    """The Celery app at `module:app`, ready as beat needs it; ItineraryError where it cannot be had."""
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        app: Celery = find_app(place)
        app.loader.import_default_modules()
        app.finalize()
    except (Exception, SystemExit) as exc:
        cause = first_error(place, exc)
        message = " ".join(str(cause).split())
        raise ItineraryError(
            f"cannot load the app {place}: {type(cause).__name__}: {message}{renamed_hint(message)}"
        ) from exc
    if not isinstance(app, Celery):
        raise BadValue("MODULE:APP", place, "it must name a Celery app")
    return app


def entries_of(app: Celery) -> list[BeatEntry]:
    """Every entry that beat would send, by name."""
    found = {str(name): dict(entry) for name, entry in (app.conf.beat_schedule or {}).items()}
    has_backend = not isinstance(app.backend, DisabledBackend)
    if _CLEAN_UP not in found and app.conf.result_expires and has_backend and not app.backend.supports_autoexpire:
        found[_CLEAN_UP] = {"task": _CLEAN_UP, "schedule": crontab("0", "4", "*"), "options": {"expires": 12 * 3600}}
    return [_entry(app, name, entry) for name, entry in sorted(found.items())]


def _entry(app: Celery, name: str, entry: Mapping[str, Any]) -> BeatEntry:
    given: Any = entry.get("schedule")
    schedule = maybe_schedule(given, entry.get("relative", False), app=app)
    return BeatEntry(
        name,
        str(entry.get("task")),
        schedule,
        entry.get("args") or (),
        entry.get("kwargs") or {},
        entry.get("options") or {},
        tuple(sorted(set(entry) - set(_KEYS))),
    )


def convert_beat(
    app: Celery,
    now: Instant,
    each: Callable[[list[BeatEntry]], Iterable[BeatEntry]] = lambda entries: entries,
    *,
    clocks: bool = True,
) -> list[ConvertedEntry]:
    """Every entry of the app's own schedule, as `move_entries` moves it."""
    return move_entries(entries_of(app), app, now, each, clocks=clocks)
