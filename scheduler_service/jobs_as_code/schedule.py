"""Jobs in Python: `schedule = Schedule(); schedule.hourly("job-1", task="shop.report", minute=17)`.

A task is given by its name, by the Celery task itself, or by a plain function of (job_id, scheduled_at), of job_id or
of nothing. Promises: an error in a job is raised where it is added; threads may add jobs at any time, also while
`run()` blocks.
"""

import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from datetime import date, datetime
from pathlib import Path
from typing import Any, Final, Unpack

from itinerary.jobs import specs
from itinerary.jobs.body import plain_fields
from itinerary.jobs.fields import (
    CronDialect,
    DayMatch,
    Duration,
    FoldRule,
    GapRule,
    JobFields,
    Moment,
    MonthWeekday,
    SolarEvent,
    Unit,
    Window,
)
from itinerary.jobs.functions import leading
from itinerary.protocol.errors import BadValue, ItineraryError
from itinerary.protocol.identity import check_job_id, is_task_name
from itinerary.protocol.redaction import unmasked
from scheduler_service.core.contract.job_json import READ_ONLY, read_job
from scheduler_service.core.contract.job_plan import read_source
from scheduler_service.jobs_as_code.monitors import checked

Function = Callable[..., Any]
_TASKS: Final = "give a task's name, a Celery task, or a function of (job_id, scheduled_at), of job_id or of nothing"

being_loaded: ContextVar[str | None] = ContextVar("itinerary_being_loaded", default=None)
"""The file that `itinerary jobs apply` is loading: a `run()` in it would block forever."""


class Schedule:
    """The jobs of one program or file.

    `source` owns them once they are applied to a service; `timezone` and the other fields (`queue`, `retry`, `tags`,
    ...) are defaults for every job. Invalid values raise BadValue or BadValues.
    """

    def __init__(self, source: str | None = None, *, timezone: str = "UTC", **defaults: Unpack[JobFields]) -> None:
        self.source = read_source(source)
        self._timezone = timezone
        self._defaults = defaults
        self._lock = threading.RLock()
        self._bodies: dict[str, dict[str, Any]] = {}
        self._monitors: dict[str, dict[str, Any]] = {}
        self._functions: dict[str, Function] = {}
        self._apps: list[Any] = []
        self._listener: Callable[[str], None] | None = None
        self.stopped = threading.Event()

    def cron(
        self, job_id: str, expr: str, *, task: Any, timezone: str | None = None, dialect: CronDialect | None = None,
        day_match: DayMatch | None = None, dst_gap: GapRule | None = None, dst_fold: FoldRule | None = None,
        **job: Unpack[JobFields],
    ) -> None:  # fmt: skip
        """Add a job by a cron line: five fields, or six with seconds last; or a line of the dialect."""
        self._add(job_id, task, specs.cron(expr, dialect, self._zone(timezone), day_match, dst_gap, dst_fold), job)

    def hourly(
        self, job_id: str, minute: int, *, task: Any, timezone: str | None = None, **job: Unpack[JobFields]
    ) -> None:
        """Add a job that runs every hour at a minute."""
        self._add(job_id, task, specs.hourly(minute, self._zone(timezone)), job)

    def interval(
        self, job_id: str, every: Duration, *, task: Any, offset: Duration | None = None, anchor: Moment | None = None,
        window: Window | None = None, timezone: str | None = None, **job: Unpack[JobFields],
    ) -> None:  # fmt: skip
        """Add a job in a rhythm of elapsed time; with a `window` the count begins anew at each opening."""
        self._add(job_id, task, specs.interval(every, offset, anchor, window, self._zone(timezone)), job)

    def balanced(
        self, job_id: str, every: Duration, *, task: Any, pinned: bool | None = None, timezone: str | None = None,
        **job: Unpack[JobFields],
    ) -> None:  # fmt: skip
        """Add a job in a rhythm whose place the scheduler chooses."""
        self._add(job_id, task, specs.balanced(every, pinned, self._zone(timezone)), job)

    def calendar(
        self, job_id: str, unit: Unit, at: Sequence[str] | str, *, task: Any, every: int | None = None,
        days: Sequence[int] | None = None, weekdays: Sequence[MonthWeekday] | None = None,
        nth: Sequence[int] | None = None, start: str | None = None, timezone: str | None = None,
        **job: Unpack[JobFields],
    ) -> None:  # fmt: skip
        """Add a job that runs every N days, weeks or months, at wall times."""
        spec = specs.calendar(unit, at, every, days, weekdays, nth, start, self._zone(timezone))
        self._add(job_id, task, spec, job)

    def once(
        self, job_id: str, at: Moment, *, task: Any, timezone: str | None = None, **job: Unpack[JobFields]
    ) -> None:
        """Add a job that runs once, at an aware datetime or an RFC 3339 text."""
        self._add(job_id, task, specs.once(at, timezone), job)

    def solar(
        self, job_id: str, event: SolarEvent, *, task: Any, latitude: float, longitude: float,
        timezone: str | None = None, **job: Unpack[JobFields],
    ) -> None:  # fmt: skip
        """Add a job that runs at an event of the sun, such as sunset, at a place."""
        self._add(job_id, task, specs.solar(event, latitude, longitude, self._zone(timezone)), job)

    def rrule(
        self, job_id: str, rrule: str, dtstart: str | datetime, *, task: Any,
        exdate: Sequence[str | date] | None = None, timezone: str | None = None, **job: Unpack[JobFields],
    ) -> None:  # fmt: skip
        """Add a job that runs by a recurrence rule of RFC 5545, in wall times of the zone."""
        self._add(job_id, task, specs.rrule(rrule, dtstart, exdate, self._zone(timezone)), job)

    def any(self, job_id: str, of: Sequence[Mapping[str, Any]], *, task: Any, **job: Unpack[JobFields]) -> None:
        """Add a job that runs at every time of several schedules, each given as JSON."""
        self._add(job_id, task, specs.in_zone(specs.any_of(of), self._timezone), job)

    def monitor(
        self, monitor_id: str, schedule: str | Mapping[str, Any], *, grace: str | None = None, title: str | None = None,
        description: str | None = None, paused: bool | None = None, calendars: Mapping[str, Any] | None = None,
        timezone: str | None = None,
    ) -> None:  # fmt: skip
        """Add a monitor of a program elsewhere, which pings by a cron line or a schedule as JSON; `run()` has none."""
        fields = {
            "grace": grace, "title": title, "description": description, "paused": paused, "calendars": calendars,
        }  # fmt: skip
        body = {name: value for name, value in fields.items() if value is not None} | {"schedule": schedule}
        with self._lock:
            if monitor_id in self._monitors:
                raise BadValue("monitor_id", monitor_id, "duplicate id; give each monitor an id of its own")
            self._monitors[monitor_id] = checked(monitor_id, body, self._zone(timezone))

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
    def monitors(self) -> dict[str, dict[str, Any]]:
        """Return every monitor's JSON as the API takes it, by id."""
        with self._lock:
            return dict(self._monitors)

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

    def _zone(self, timezone: str | None) -> str:
        return self._timezone if timezone is None else timezone

    def _add(self, job_id: str, task: Any, spec: dict[str, Any], fields: Mapping[str, Any]) -> None:
        check_job_id(job_id)
        refuse_read_only(fields)
        with self._lock:
            if job_id in self._bodies:
                raise BadValue("job_id", job_id, "duplicate job id; give each job an id of its own")
            name = self._task_name(job_id, task, fields)
            body = {"job_id": job_id, "task": name, **plain_fields({**self._defaults, **fields}), "schedule": spec}
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
        if not callable(task) or leading(task, fields.get("args", ()), fields.get("kwargs", {})) is None:
            raise BadValue("task", task, _TASKS)
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


def _is_celery_task(task: Any) -> bool:
    return callable(getattr(task, "apply_async", None)) and isinstance(getattr(task, "name", None), str)
