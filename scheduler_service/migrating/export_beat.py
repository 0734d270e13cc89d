"""Jobs as a Celery configuration module: `timezone` and `beat_schedule`. Pure."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from celery.schedules import crontab, solar

from itinerary.protocol.instants import DAY, SECOND, Instant
from itinerary.protocol.message_headers import SHADOW
from itinerary.protocol.run_fields import DEFAULT_PRIORITY
from scheduler_service.core.model import Job
from scheduler_service.core.schedules.schedule import IntervalSchedule, SolarSchedule
from scheduler_service.migrating.beat_moving import app_of_zone
from scheduler_service.migrating.comparing import clock_differences, compare
from scheduler_service.migrating.cron_lines import CannotSay, CronLine, cron_line
from scheduler_service.migrating.exported import (
    Exported,
    Refused,
    check_arguments,
    export_each,
    overlap_differences,
    policy_differences,
)

_HEAD: Final = '''"""Beat's schedule, written by `itinerary jobs export --format beat`.

Read it by `app.config_from_object("NAME_OF_THIS_MODULE")`, or copy what you need into your configuration.
"""

from datetime import timedelta

from celery.schedules import {names}

'''
_PHASE: Final = "beat counts from its own start, and each time from when it last sent"


def export_beat(jobs: Sequence[Job], now: Instant, *, nearest: bool) -> tuple[str, list[Refused]]:
    """The module's text, and the jobs that are not in it."""
    zone = _zone(jobs, now)
    done, refused = export_each(jobs, lambda job: _entry(job, zone, now), nearest=nearest)
    lines = [f"timezone = {zone!r}", "beat_schedule = {"]
    for each in done:
        lines += [f"    # differs: {difference}" for difference in each.differences]
        lines += [f"    {each.job.job_id!r}: {{", *(f"        {key!r}: {text}," for key, text in each.said), "    },"]
    names = "crontab, solar" if any(isinstance(each.job.schedule, SolarSchedule) for each in done) else "crontab"
    return _HEAD.format(names=names) + "\n".join([*lines, "}"]) + "\n", refused


def _zone(jobs: Sequence[Job], now: Instant) -> str:
    """The zone of most of the crontabs; beat has one for the whole app."""
    found: Counter[str] = Counter()
    for job in jobs:
        try:
            found[cron_line(job, now).timezone] += not isinstance(job.schedule, IntervalSchedule)
        except CannotSay:
            continue
    return max(sorted(found), key=lambda name: found[name], default="UTC")


def _entry(job: Job, zone: str, now: Instant) -> Exported:
    if job.paused:
        raise CannotSay("it is paused, and beat's configuration has no word for that")
    check_arguments(job)
    when, differences = _schedule(job, zone, now)
    differences += [*overlap_differences(job), *policy_differences(job, now)]
    options: dict[str, Any] = {"queue": job.queue}
    if job.priority != DEFAULT_PRIORITY:
        options["priority"] = job.priority
    if job.start_within is not None:
        options["expires"] = job.start_within / SECOND
    headers = dict(job.headers or {})
    if SHADOW in headers:
        options[SHADOW] = headers.pop(SHADOW)
    if headers:
        options["headers"] = headers
    if job.timeout is not None:
        options |= {"soft_time_limit": job.timeout / SECOND, "time_limit": job.timeout / SECOND + 10}
    said = [("task", repr(job.task)), ("schedule", when)]
    said += [("args", repr(tuple(job.args)))] if job.args else []
    said += [("kwargs", repr(dict(job.kwargs)))] if job.kwargs else []
    return Exported(job, [*said, ("options", repr(options))], tuple(differences))


def _schedule(job: Job, zone: str, now: Instant) -> tuple[str, list[str]]:
    if isinstance(job.schedule, IntervalSchedule):
        if job.schedule.balanced:
            raise CannotSay("the scheduler places it, and may move it")
        return f"timedelta(seconds={job.schedule.every // SECOND})", [_PHASE]
    if isinstance(job.schedule, SolarSchedule):
        event: Any = job.schedule.event
        latitude, longitude = job.schedule.latitude, job.schedule.longitude
        given = solar(event, latitude, longitude)
        if compare(given, app_of_zone(zone), job.schedule, now, now + 400 * DAY).differences:
            raise CannotSay("a season without the event begins or ends on another day there")
        return f"solar({event!r}, {latitude}, {longitude})", []
    line = cron_line(job, now)
    if line.timezone != zone:
        raise CannotSay(f"it is meant in {line.timezone}, and beat has one zone for the whole app, here {zone}")
    if line.has_both_days and not line.both_days:
        raise CannotSay(f"{line.expr} runs on either of its days, and beat only where both match")
    given, text = _crontab(line)
    app = app_of_zone(zone)
    clocks = clock_differences(given, app, job.schedule, now)
    span = 2 * DAY if len(given.minute) * len(given.hour) > 100 else 40 * DAY
    if not clocks and compare(given, app, job.schedule, now, now + span).differences:
        raise CannotSay(f"no crontab of Celery's has its times: {line.expr} is the closest")
    return text, clocks


def _crontab(line: CronLine) -> tuple[Any, str]:
    minute, hour, day, month, weekday = line.expr.split()
    fields = {"minute": minute, "hour": hour, "day_of_month": day, "month_of_year": month, "day_of_week": weekday}
    shown = ", ".join(f"{name}={value!r}" for name, value in fields.items() if value != "*" or name == "minute")
    return crontab(**fields), f"crontab({shown})"
