"""Jobs as systemd's timers with their services: commands as they are, tasks by `celery call`. Pure.

Reads each pair of units again, and refuses a job whose timer or command would be another.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from itinerary.protocol.instants import SECOND, Duration, Instant
from scheduler_service.core.model import Job, MisfirePolicy, Overlap
from scheduler_service.core.schedules.schedule import IntervalSchedule, zone_of
from scheduler_service.migrating.celery_call import sending_command
from scheduler_service.migrating.converted import job_id_of
from scheduler_service.migrating.cron_lines import CannotSay, schedule_differences
from scheduler_service.migrating.exported import (
    Exported,
    Refused,
    check_arguments,
    environment_of,
    export_each,
    policy_differences,
)
from scheduler_service.migrating.systemd_event import calendar_event
from scheduler_service.migrating.systemd_timers import read_timers
from scheduler_service.migrating.systemd_units import units_of

_FOLDER: Final = "/etc/systemd/system"
_HEADER: Final = re.compile(rf"^# {_FOLDER}/(\S+)\n", re.MULTILINE)
_KNOWN: Final = frozenset({"command", "stdin", "env", "user"})
_PHASE: Final = "systemd counts from its last start, which drifts"


def export_systemd(jobs: Sequence[Job], app: str | None, now: Instant, *, nearest: bool) -> tuple[str, list[Refused]]:
    """The units as `systemctl cat` prints them, and the jobs that have none; `app` is the app that `celery` knows."""
    taken: set[str] = set()
    done, refused = export_each(jobs, lambda job: _pair(job, app, taken, now), nearest=nearest)
    return "\n".join(each.said for each in done) or "# no job\n", refused


def units_in_text(text: str) -> dict[str, str]:
    """The files of an export: each unit's name with its text."""
    parts = _HEADER.split(text)[1:]
    return {name: f"{body.rstrip()}\n" for name, body in zip(parts[::2], parts[1::2], strict=True)}


def _pair(job: Job, app: str | None, taken: set[str], now: Instant) -> Exported:
    if job.paused:
        raise CannotSay("it is paused, and a timer has no word for that")
    check_arguments(job)
    name = job_id_of(job.job_id, taken, "job")
    when, differences = _when(job, now)
    service, more = _service(job, app)
    differences += [*_policies(job, now), *more]
    about = f"[Unit]\nDescription={_plain(job.title or job.job_id)}\n\n"
    comments = "".join(f"# differs: {line}\n" for line in differences)
    timer = [*when, *_lateness(job), "AccuracySec=1s"]
    text = (
        f"# {_FOLDER}/{name}.timer\n{comments}{about}[Timer]\n"
        + "\n".join(timer)
        + "\n\n[Install]\nWantedBy=timers.target\n"
        f"\n# {_FOLDER}/{name}.service\n{about}[Service]\n" + "\n".join(service) + "\n"
    )
    differences += _read_again(job, text, f"{name}.timer", now)
    taken.add(name)
    return Exported(job, text, tuple(differences))


def _when(job: Job, now: Instant) -> tuple[list[str], list[str]]:
    """The timer's lines, and for an interval that no calendar event says, how it differs."""
    try:
        return [f"OnCalendar={calendar_event(job, now)}"], []
    except CannotSay:
        if not isinstance(job.schedule, IntervalSchedule) or job.schedule.balanced:
            raise
    seconds = job.schedule.every // SECOND
    return [f"OnActiveSec={seconds}s", f"OnUnitActiveSec={seconds}s"], [_PHASE]


def _lateness(job: Job) -> list[str]:
    lines = [] if job.misfire.policy is MisfirePolicy.SKIP else ["Persistent=true"]
    return lines + ([f"RandomizedDelaySec={_span(job.jitter)}"] if job.jitter else [])


def _span(duration: Duration) -> str:
    """The exact text in one unit that systemd knows."""
    return f"{duration // SECOND}s" if duration % SECOND == 0 else f"{duration}us"


def _policies(job: Job, now: Instant) -> list[str]:
    found = policy_differences(job, now, keeps_one=False, jitters=True)
    if _runs_command(job) and job.overlap is not Overlap.SKIP:
        found.append(f"overlap {job.overlap.value}: systemd starts nothing while the last run is not over")
    return found


def _runs_command(job: Job) -> bool:
    return isinstance(job.kwargs.get("command"), str) and not job.args and not set(job.kwargs) - _KNOWN


def _service(job: Job, app: str | None) -> tuple[list[str], list[str]]:
    kwargs: Mapping[str, Any] = job.kwargs
    limit = [f"TimeoutStartSec={_span(job.timeout)}"] if job.timeout is not None else []
    if not _runs_command(job):
        if app is None:
            raise CannotSay(f"{job.task} is a Celery task: --celery-app MODULE:APP has the service send it")
        words, differences = sending_command(job, app)
        return ["Type=oneshot", "ExecStart=/usr/bin/env " + " ".join(map(_quoted, words))], differences
    if kwargs.get("stdin"):
        raise CannotSay("it feeds its command by `stdin`, which a service has not")
    lines = ["Type=oneshot", f"ExecStart=/bin/sh -c {_quoted(kwargs['command'])}", *limit]
    lines += [f"User={_plain(str(kwargs['user']))}"] if kwargs.get("user") else []
    return lines + [f"Environment={_text(f'{name}={value}')}" for name, value in environment_of(job).items()], []


def _plain(text: str) -> str:
    if not text.isprintable() or text.endswith("\\"):
        raise CannotSay(f"{text!r} does not fit into a line of a unit")
    return text.replace("%", "%%")


def _text(text: str) -> str:
    escaped = _plain(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _quoted(word: str) -> str:
    """One word of a command; systemd would fill in what follows a `$`."""
    return _text(word.replace("$", "$$"))


def _read_again(job: Job, text: str, name: str, now: Instant) -> list[str]:
    """How the timer's times differ; CannotSay unless the units are read as that job."""
    (found,) = read_timers(units_of(text), task=job.task, timezone=zone_of(job.schedule), now=now, only=name)
    if found.body is None:
        raise CannotSay(f"its units would not be read again: {found.refused}")
    wanted: dict[str, Any] = dict(job.kwargs)
    if _runs_command(job):
        wanted = {"stdin": "", **{key: value for key, value in wanted.items() if value}}
    if (found.body.get("args", []), found.body.get("kwargs", {})) != (list(job.args), wanted):
        raise CannotSay("its command, arguments or environment would not come out of a unit as they are")
    spec = found.body["schedule"]
    return [] if spec["kind"] == "interval" else schedule_differences(job, spec, "the timer", now)
