"""Jobs in Python: `schedule = Schedule(); schedule.hourly("job-1", task="shop.report", minute=17)`.

A task is given by its name, by the Celery task itself, or by a plain function of (job_id, scheduled_at). Promises: an
error in a job is raised where it is added; threads may add jobs at any time, also while `run()` blocks.
"""

import inspect
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from itinerary.protocol.errors import BadValue, ItineraryError
from itinerary.protocol.identity import check_job_id, is_task_name
from itinerary.protocol.instants import MICROSECOND, format_duration, format_instant, from_datetime
from itinerary.protocol.redaction import unmasked
from scheduler_service.core.contract.job_json import READ_ONLY, read_job
from scheduler_service.core.contract.job_plan import read_source

Function = Callable[..., Any]

being_loaded: ContextVar[str | None] = ContextVar("itinerary_being_loaded", default=None)
"""The file that `itinerary jobs apply` is loading: a `run()` in it would block forever."""


class Schedule:
    """The jobs of one program or file.

    `source` owns them once they are applied to a service; `timezone` and the other fields (`queue`, `retry`, `tags`,
    ...) are defaults for every job. Invalid values raise BadValue or BadValues.
    """

    def __init__(self, source: str | None = None, *, timezone: str = "UTC", **defaults: Any) -> None:
        self.source = read_source(source)
        self._timezone = timezone
        self._defaults = defaults
        self._lock = threading.RLock()
        self._bodies: dict[str, dict[str, Any]] = {}
        self._functions: dict[str, Function] = {}
        self._apps: list[Any] = []
        self._listener: Callable[[str], None] | None = None
        self.stopped = threading.Event()

    def cron(
        self, job_id: str, *, task: Any, expr: str, timezone: str | None = None, day_match: str = "or",
        dst_gap: str = "next_valid", dst_fold: str | None = None, **fields: Any,
    ) -> None:  # fmt: skip
        """Add a job by a cron line: five fields, or six with seconds last.

        `dst_fold` None: `first`, with seconds `both`.
        """
        choices = {"day_match": day_match, "dst_gap": dst_gap, **({} if dst_fold is None else {"dst_fold": dst_fold})}
        self._add(job_id, task, {"kind": "cron", "expr": expr, **choices, **self._zone(timezone)}, fields)

    def hourly(self, job_id: str, *, task: Any, minute: int, timezone: str | None = None, **fields: Any) -> None:
        """Add a job that runs every hour at a minute."""
        self._add(job_id, task, {"kind": "hourly", "minute": minute, **self._zone(timezone)}, fields)

    def interval(
        self, job_id: str, *, task: Any, every: str | timedelta, offset: str | timedelta = "0s",
        anchor: str | datetime | None = None, balanced: bool = False, pinned: bool = False,
        timezone: str | None = None, **fields: Any,
    ) -> None:  # fmt: skip
        """Add a job in a rhythm of elapsed time, such as every `4m` with an offset of `1m`."""
        spec = {"every": every, "offset": offset, "anchor": anchor, "balanced": balanced, "pinned": pinned}
        self._add(job_id, task, {"kind": "interval", **spec, **self._zone(timezone)}, fields)

    def calendar(
        self, job_id: str, *, task: Any, unit: str, at: list[str], every: int = 1, days: list[int] | None = None,
        weekdays: list[str] | None = None, start: str | None = None, timezone: str | None = None, **fields: Any,
    ) -> None:  # fmt: skip
        """Add a job that runs every N days, weeks or months, at wall times."""
        spec = {"every": every, "unit": unit, "at": at, "days": days, "weekdays": weekdays, "start": start}
        self._add(job_id, task, {"kind": "calendar", **spec, **self._zone(timezone)}, fields)

    def once(self, job_id: str, *, task: Any, at: str | datetime, **fields: Any) -> None:
        """Add a job that runs once, at an aware datetime or an RFC 3339 text."""
        self._add(job_id, task, {"kind": "once", "at": at}, fields)

    def solar(
        self, job_id: str, *, task: Any, event: str, latitude: float, longitude: float, timezone: str | None = None,
        **fields: Any,
    ) -> None:  # fmt: skip
        """Add a job that runs at an event of the sun, such as `sunrise`, at a place in degrees."""
        spec = {"event": event, "latitude": latitude, "longitude": longitude}
        self._add(job_id, task, {"kind": "solar", **spec, **self._zone(timezone)}, fields)

    def run(self, *, concurrency: int = 8, **settings: Any) -> None:
        """Block, with a leader and a Celery worker in this program, until Ctrl-C, SIGTERM or `stop()`.

        Up to `concurrency` tasks run at once, in threads. All data is in `.itinerary`; Redis is embedded unless
        ITINERARY_REDIS_URL is set. `settings` are the service's, such as data_dir. Call it from the main thread.
        """
        if being_loaded.get():
            raise ItineraryError("put schedule.run() under `if __name__ == '__main__':`, so that the file can be read")
        from scheduler_service.local.embedded import run_embedded

        run_embedded(self, self.source or program_name(), concurrency, settings)

    def stop(self) -> None:
        """Let `run()` end, from any thread; running tasks finish first."""
        self.stopped.set()

    @property
    def bodies(self) -> list[dict[str, Any]]:
        """Return every job's JSON as the API takes it, in the order of adding."""
        with self._lock:
            return [dict(body) for body in self._bodies.values()]

    @property
    def functions(self) -> Mapping[str, Function]:
        """Return the plain functions, by their task names."""
        with self._lock:
            return dict(self._functions)

    @property
    def celery_apps(self) -> list[Any]:
        """Return the Celery apps of the given tasks."""
        with self._lock:
            return list(self._apps)

    def watch(self, listener: Callable[[str], None] | None) -> list[dict[str, Any]]:
        """Call `listener` with the id of each job added from now on, in the adding thread; return the jobs so far."""
        with self._lock:
            self._listener = listener
            return self.bodies

    def body(self, job_id: str) -> dict[str, Any]:
        """Return one job's JSON."""
        with self._lock:
            return dict(self._bodies[job_id])

    def _zone(self, timezone: str | None) -> dict[str, str]:
        return {"timezone": self._timezone if timezone is None else timezone}

    def _add(self, job_id: str, task: Any, spec: dict[str, Any], fields: Mapping[str, Any]) -> None:
        check_job_id(job_id)
        refuse_read_only(fields)
        with self._lock:
            if job_id in self._bodies:
                raise BadValue("job_id", job_id, "duplicate job id; give each job an id of its own")
            name = self._task_name(job_id, task, fields)
            given = {**self._defaults, **fields, "schedule": spec}
            body = {"job_id": job_id, "task": name, **{key: _plain(value) for key, value in given.items()}}
            read_job(unmasked(body), created_at=time.time_ns() // 1_000)
            self._bodies[job_id] = body
            if callable(task) and not _is_celery_task(task):
                self._functions[name] = task
            listener = self._listener
        if listener is not None:
            self._notify(listener, job_id)

    def _notify(self, listener: Callable[[str], None], job_id: str) -> None:
        """Notify the running program; if it cannot store the job, remove it again."""
        try:
            listener(job_id)
        except BaseException:
            with self._lock:
                del self._bodies[job_id]
            raise

    def _task_name(self, job_id: str, task: Any, fields: Mapping[str, Any]) -> str:
        if isinstance(task, str):
            return task
        if _is_celery_task(task):
            if not any(app is task.app for app in self._apps):
                self._apps.append(task.app)
            return str(task.name)
        if not callable(task) or not _takes(task, fields):
            raise BadValue("task", task, "give a task's name, a Celery task, or a function of (job_id, scheduled_at)")
        name = function_name(task)
        # A function without an importable name (a lambda, one defined inside another) is named by its job.
        if "<" in name or not is_task_name(name) or self._functions.get(name, task) is not task:
            name = f"{_module_of(task)}.{job_id}"
        return name


def function_name(function: Function) -> str:
    """Return `module.function`; the main program is named by its file, whether run or imported."""
    return f"{_module_of(function)}.{getattr(function, '__qualname__', '<unnamed>')}"


def program_name() -> str:
    """Return the name of the file that this process runs."""
    path = getattr(sys.modules.get("__main__"), "__file__", None)
    return Path(path).stem if path else "main"


def refuse_read_only(fields: Mapping[str, Any]) -> None:
    """Raise BadValue if a job's file sets a field that only the service may set."""
    for name in fields:
        if name in READ_ONLY:
            raise BadValue(name, fields[name], "leave it out: only the service sets it, see `itinerary jobs --help`")


def _module_of(function: Function) -> str:
    module = getattr(function, "__module__", None) or "__main__"
    return program_name() if module == "__main__" else str(module)


def _takes(function: Function, fields: Mapping[str, Any]) -> bool:
    """Whether the function can be called with an id, a time and the job's own arguments."""
    try:
        inspect.signature(function).bind("", None, *fields.get("args", ()), **fields.get("kwargs", {}))
    except (TypeError, ValueError):
        return False
    return True


def _is_celery_task(task: Any) -> bool:
    return callable(getattr(task, "apply_async", None)) and isinstance(getattr(task, "name", None), str)


def _plain(value: Any) -> Any:
    """Convert datetimes and timedeltas to the texts that the API takes, at any depth."""
    if isinstance(value, timedelta):
        return format_duration(value // timedelta(microseconds=MICROSECOND))
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise BadValue("at", value.isoformat(), "give an aware datetime, or a text with an offset")
        return format_instant(from_datetime(value))
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value
