"""Job files: from a place, a file, `module:schedule` or `module:app`, to its jobs and their owner.

Promises: every error names the file and the job; never contacts the service. A Python file is executed, as by an
import.
"""

import importlib
import importlib.util
import re
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from celery import Celery

from itinerary.jobs import Body, collect
from itinerary.protocol.errors import BadValue, BadValues, ItineraryError
from itinerary.protocol.field_types import read_list, read_object
from itinerary.protocol.redaction import unmasked
from scheduler_service.core.contract.job_json import read_job
from scheduler_service.core.contract.job_plan import read_source
from scheduler_service.jobs_as_code.calendars import read_calendars
from scheduler_service.jobs_as_code.monitors import read_monitors, short_schedule
from scheduler_service.jobs_as_code.schedule import Schedule, being_loaded, refuse_read_only
from scheduler_service.jobs_as_code.texts import FORMATS, read_text_as
from scheduler_service.runtime.app_python import ELSEWHERE

_MOST_BYTES: Final = 8 * 1024 * 1024
_LONGEST_SOURCE: Final = 128
_KEYS: Final = ("source", "defaults", "calendars", "monitors", "jobs")


@dataclass(frozen=True, slots=True)
class JobFile:
    """The content of a place: `source` is None if it names no owner, empty if the jobs have none.

    `monitors` is None of a place that can have none.
    """

    source: str | None
    jobs: list[dict[str, Any]]
    calendars: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    monitors: Mapping[str, Mapping[str, Any]] | None = None


def read_place(place: str) -> JobFile:
    """Read the jobs of a TOML, YAML, JSON or Python file, of a Schedule or a Celery app; BadValues, ItineraryError."""
    kind = FORMATS.get(Path(place).suffix.lower())
    if kind is not None:
        return read_jobs(read_text_as(kind, _text_of(place)))
    found = load_place(place)
    if isinstance(found, Schedule):
        return JobFile(found.source, found.bodies, monitors=found.monitors)
    return JobFile(None, _judged(found))


def source_of_place(place: str) -> str:
    """Return the default owner of a place: the file in its folder, `shop/jobs.toml`, or the module."""
    path = Path(place)
    is_file = path.suffix.lower() in FORMATS or path.suffix == ".py"
    name = f"{path.absolute().parent.name}/{path.name}" if is_file else place.partition(":")[0]
    return re.sub(r"[^A-Za-z0-9._:/@-]+", "-", name).lstrip("._:/@-")[:_LONGEST_SOURCE] or "file"


def read_jobs(content: Mapping[str, Any]) -> JobFile:
    """Parse a file: `source`, `defaults` for fields that a job does not name, `calendars`, `monitors` and `jobs`."""
    errors = [BadValue(key, content[key], f"known are {', '.join(_KEYS)}") for key in sorted({*content} - {*_KEYS})]
    try:
        source = content.get("source")
        read_source(source)
        given = content.get("defaults")
        defaults = read_object({} if given is None else given, "defaults")
        items = read_list(content.get("jobs"), "jobs")
    except BadValue as exc:
        raise BadValues([*errors, exc]) from exc
    calendars = read_calendars(content.get("calendars"), errors)
    monitors = read_monitors(content.get("monitors"), defaults.get("timezone"), errors)
    jobs = []
    for number, item in enumerate(items):
        try:
            jobs.append(_read_item(item, defaults))
        except BadValues as exc:
            errors += [error.under(_named(item, number)) for error in exc.errors]
        except BadValue as exc:
            errors.append(exc.under(_named(item, number)))
    if errors:
        raise BadValues(errors)
    return JobFile(source, jobs, calendars, monitors)


def _read_item(item: Any, defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Parse one job over the defaults; a text in place of the schedule is a cron line."""
    given = read_object(item, "")
    refuse_read_only(given)
    merged = {key: value for key, value in defaults.items() if key != "timezone"} | given
    body = {**merged, "schedule": short_schedule(merged.get("schedule"), defaults.get("timezone"))}
    read_job(body, created_at=time.time_ns() // 1_000)
    return body


def _named(item: Any, number: int) -> str:
    job_id = item.get("job_id") if isinstance(item, dict) else None
    return f"job {job_id}" if isinstance(job_id, str) else f"jobs[{number}]"


def _text_of(place: str) -> str:
    try:
        path = Path(place)
        if path.stat().st_size > _MOST_BYTES:
            raise BadValue("file", place, f"give a file of at most {_MOST_BYTES} bytes")
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        raise BadValue("file", place, f"give a readable file ({exc})") from exc


def _judged(bodies: list[Body]) -> list[dict[str, Any]]:
    """Return the jobs that an app's modules declare; an error names file and line."""
    errors: list[BadValue] = []
    for body in bodies:
        try:
            read_job(unmasked(body), created_at=time.time_ns() // 1_000)
        except BadValues as exc:
            errors += [error.under(body.named) for error in exc.errors]
        except BadValue as exc:
            errors.append(exc.under(body.named))
    if errors:
        raise BadValues(errors)
    return [dict(body) for body in bodies]


def load_place(place: str) -> Schedule | list[Body]:
    """Load a Python file or `module:name` (default name: `schedule`): its Schedule, or the jobs of its Celery app."""
    name, _, attribute = place.partition(":") if not place.endswith(".py") else (place, "", "")
    token = being_loaded.set(place)
    try:
        module = _from_file(Path(place)) if place.endswith(".py") else _imported(name)
        found = getattr(module, attribute or "schedule", None)
        if isinstance(found, Celery):
            return collect(found)
    except ItineraryError:
        raise
    except (Exception, SystemExit) as exc:
        elsewhere = isinstance(exc, ImportError) and not place.endswith(".py")
        more = f"; {ELSEWHERE} python -m itinerary jobs apply {place}" if elsewhere else ""
        raise ItineraryError(f"{place} cannot be loaded: {type(exc).__name__}: {exc}{more}") from exc
    finally:
        being_loaded.reset(token)
    if not isinstance(found, Schedule):
        what = f"a Schedule or a Celery app named {attribute}" if attribute else "a Schedule named schedule"
        raise BadValue("file", place, f"it must define {what}; of an app give MODULE:APP")
    return found


def _imported(name: str) -> ModuleType:
    if "" not in sys.path:
        sys.path.insert(0, "")
    return importlib.import_module(name)


def _from_file(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise BadValue("file", str(path), "give a readable Python file")
    sys.path.insert(0, str(path.parent.absolute()))
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)  # dataclasses and pickles of the file find it there
    spec.loader.exec_module(module)
    return module
