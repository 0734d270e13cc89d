"""Decorators that declare jobs beside their tasks: `from itinerary import schedule`, `@schedule.cron("0 2 * * *")`.

Each works above or below `@app.task` and `@shared_task`, and on classes of tasks. Promises that decorating evaluates no
task and loads no Celery. Without a timezone of its own a job has the app's (`timezone` of its configuration).
"""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final, TypeVar

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
from itinerary.protocol.errors import BadValue
from itinerary.protocol.identity import check_job_id

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["any", "balanced", "calendar", "cron", "hourly", "interval", "once", "rrule", "solar"]

_Task = TypeVar("_Task")


@dataclass(frozen=True)
class Declared:
    """A decorator's job: `target` returns what was decorated, or None once the program has dropped it."""

    target: Callable[[], Any]
    place: str
    job_id: str | None
    fields: Mapping[str, Any]


declared: Final[list[Declared]] = []
"""Every job that a decorator of this process has declared, in their order."""


def cron(
    expr: str,
    *,
    timezone: str | None = None,
    dialect: CronDialect | None = None,
    day_match: DayMatch | None = None,
    dst_gap: GapRule | None = None,
    dst_fold: FoldRule | None = None,
    job_id: str | None = None,
    **job: Unpack[JobFields],
) -> Callable[[_Task], _Task]:
    """Run the task by a cron line: five fields, or six with seconds last; or a line of the dialect.

    `job_id` is the task's name by default.
    """
    return _declare(lambda: specs.cron(expr, dialect, timezone, day_match, dst_gap, dst_fold), job_id, job)


def hourly(
    minute: int, *, timezone: str | None = None, job_id: str | None = None, **job: Unpack[JobFields]
) -> Callable[[_Task], _Task]:
    """Run the task every hour at a minute."""
    return _declare(lambda: specs.hourly(minute, timezone), job_id, job)


def interval(
    every: Duration,
    *,
    offset: Duration | None = None,
    anchor: Moment | None = None,
    window: Window | None = None,
    timezone: str | None = None,
    job_id: str | None = None,
    **job: Unpack[JobFields],
) -> Callable[[_Task], _Task]:
    """Run the task in a rhythm of elapsed time, such as every `4m` with an offset of `1m`.

    With a `window` the count begins anew at each opening.
    """
    return _declare(lambda: specs.interval(every, offset, anchor, window, timezone), job_id, job)


def balanced(
    every: Duration,
    *,
    pinned: bool | None = None,
    timezone: str | None = None,
    job_id: str | None = None,
    **job: Unpack[JobFields],
) -> Callable[[_Task], _Task]:
    """Run the task in a rhythm whose place the scheduler chooses, so that jobs do not start together."""
    return _declare(lambda: specs.balanced(every, pinned, timezone), job_id, job)


def calendar(
    unit: Unit,
    at: Sequence[str] | str,
    *,
    every: int | None = None,
    days: Sequence[int] | None = None,
    weekdays: Sequence[MonthWeekday] | None = None,
    nth: Sequence[int] | None = None,
    start: str | None = None,
    timezone: str | None = None,
    job_id: str | None = None,
    **job: Unpack[JobFields],
) -> Callable[[_Task], _Task]:
    """Run the task every N days, weeks or months, at wall times."""
    return _declare(lambda: specs.calendar(unit, at, every, days, weekdays, nth, start, timezone), job_id, job)


def once(
    at: Moment, *, timezone: str | None = None, job_id: str | None = None, **job: Unpack[JobFields]
) -> Callable[[_Task], _Task]:
    """Run the task once, at an aware datetime or an RFC 3339 text."""
    return _declare(lambda: specs.once(at, timezone), job_id, job)


def solar(
    event: SolarEvent,
    *,
    latitude: float,
    longitude: float,
    timezone: str | None = None,
    job_id: str | None = None,
    **job: Unpack[JobFields],
) -> Callable[[_Task], _Task]:
    """Run the task at an event of the sun, such as sunset, at a place."""
    return _declare(lambda: specs.solar(event, latitude, longitude, timezone), job_id, job)


def rrule(
    rrule: str,
    dtstart: str | datetime,
    *,
    exdate: Sequence[str | date] | None = None,
    timezone: str | None = None,
    job_id: str | None = None,
    **job: Unpack[JobFields],
) -> Callable[[_Task], _Task]:
    """Run the task by a recurrence rule of RFC 5545, such as `FREQ=MONTHLY;BYDAY=2FR`, in wall times of the zone."""
    return _declare(lambda: specs.rrule(rrule, dtstart, exdate, timezone), job_id, job)


def any(
    of: Sequence[Mapping[str, Any]], *, job_id: str | None = None, **job: Unpack[JobFields]
) -> Callable[[_Task], _Task]:
    """Run the task at every time of several schedules, each given as JSON: `{"kind": "cron", "expr": "0 9 * * *"}`."""
    return _declare(lambda: specs.any_of(of), job_id, job)


def _declare(
    spec: Callable[[], Mapping[str, Any]], job_id: str | None, job: Mapping[str, Any]
) -> Callable[[_Task], _Task]:
    place = _place(sys._getframe(2))
    try:
        for name in sorted(set(job) - set(JobFields.__annotations__)):
            known = ", ".join(sorted(JobFields.__annotations__))
            raise BadValue(name, job[name], f"this field is not known; known are {known}")
        if job_id is not None:
            check_job_id(job_id)
        fields = {**plain_fields(job), "schedule": spec()}
    except BadValue as exc:
        raise BadValue(f"{place}: {exc.field}", exc.value, exc.allowed) from None

    def decorate(task: _Task) -> _Task:
        declared.append(Declared(_holder(task, place), place, job_id, fields))
        return task

    return decorate


def _holder(task: Any, place: str) -> Callable[[], Any]:
    """Refer to what is decorated: weakly to a function or a class, which must not outlive its app.

    A task that `@app.task` returns is a promise that only its holder keeps. It is not asked what it is: that would
    evaluate it, and configure the app too early.
    """
    if issubclass(type(task), FunctionType | type):
        return weakref.ref(task)
    if not hasattr(type(task), "apply_async") and not type(task).__module__.startswith("celery."):
        raise BadValue(f"{place}: task", task, "decorate a Celery task: a function, or a class of tasks")
    return lambda: task


def _place(frame: Any) -> str:
    try:
        folder = os.getcwd() + os.sep
    except OSError:
        folder = ""  # it was deleted, which is no reason to stop a worker
    return f"{frame.f_code.co_filename.removeprefix(folder)}:{frame.f_lineno}"
