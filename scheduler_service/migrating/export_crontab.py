"""Writes jobs that run a command as lines of a crontab. Pure.

Parses each line again, and refuses a job whose line would run otherwise.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from itinerary.protocol.instants import Instant
from scheduler_service.core.model import Job
from scheduler_service.migrating.cron_lines import CannotSay, cron_line, time_differences
from scheduler_service.migrating.crontab_file import read_crontab
from scheduler_service.migrating.exported import (
    Exported,
    Refused,
    check_arguments,
    export_each,
    overlap_differences,
    policy_differences,
)

_HEAD: Final = (
    "# Written by `itinerary jobs export --format crontab`.",
    "# CRON_TZ is read by cronie; Debian's cron knows the machine's zone alone.",
    "# cron forgets what was due while it was down, and has no queue and no priority.",
)
_KNOWN: Final = frozenset({"command", "stdin", "env", "user"})


def export_crontab(jobs: Sequence[Job], now: Instant, *, nearest: bool) -> tuple[str, list[Refused]]:
    """The file's text, and the jobs that are not in it. Lines name a user where any of the jobs does."""
    system = any("user" in job.kwargs for job in jobs)
    ordered = sorted(jobs, key=lambda job: (len(_env(job)), sorted(_env(job).items())))
    done, refused = export_each(ordered, lambda job: _line(job, system, now), nearest=nearest)
    lines, zone = list(_HEAD), ""
    environment: dict[str, str] = {}
    for each in done:
        wanted = _env(each.job)
        if left := sorted(set(environment) - set(wanted)):
            refused.append(Refused(each.job.job_id, f"{', '.join(left)} of the lines above would hold for it too"))
            continue
        lines += ["", f"# {each.job.title or each.job.job_id}".replace("\n", " ")]
        lines += [f"# differs: {difference}" for difference in each.differences]
        line_zone, text = each.said
        lines += [f"CRON_TZ={line_zone}"] if line_zone != zone else []
        lines += [f'{name}="{value}"' for name, value in wanted.items() if environment.get(name) != value]
        zone, environment = line_zone, wanted
        lines.append(text)
    return "\n".join(lines) + "\n", refused


def _env(job: Job) -> dict[str, str]:
    held = job.kwargs.get("env")
    return {str(name): str(value) for name, value in held.items()} if isinstance(held, Mapping) else {}


def _line(job: Job, system: bool, now: Instant) -> Exported:
    kwargs: Mapping[str, Any] = job.kwargs
    if not isinstance(kwargs.get("command"), str) or job.args or set(kwargs) - _KNOWN:
        raise CannotSay(f"{job.task} is given no command alone: cron runs commands, and no Celery tasks")
    if job.paused:
        raise CannotSay("it is paused, and a crontab has no word for that")
    check_arguments(job)
    if system and not kwargs.get("user"):
        raise CannotSay("it names no user, which each line of a system's crontab does: export it apart, by --source")
    line = cron_line(job, now)
    if line.has_both_days and line.both_days:
        raise CannotSay(f"{line.expr} runs where both of its days match, and cron on either")
    differences = time_differences(job, line, {}, now)
    differences += [*overlap_differences(job), *policy_differences(job, now, keeps_one=False)]
    differences += ["timeout: cron ends no command"] if job.timeout is not None else []
    user = f"{kwargs['user']} " if system else ""
    text = f"{line.expr} {user}{_escaped(str(kwargs['command']))}{_fed(str(kwargs.get('stdin') or ''))}"
    _check(text, job, line.timezone, system, now)
    return Exported(job, (line.timezone, text), tuple(differences))


def _escaped(text: str) -> str:
    return text.replace("%", "\\%")


def _fed(stdin: str) -> str:
    return "".join(f"%{_escaped(line)}" for line in stdin.split("\n")) if stdin else ""


def _check(text: str, job: Job, zone: str, system: bool, now: Instant) -> None:
    """CannotSay unless cron would run just that command with just that input."""
    set_above = "".join(f'{name}="{value}"\n' for name, value in _env(job).items())
    found = read_crontab(f"{set_above}{text}\n", task=job.task, timezone=zone, now=now, system=system)
    wanted = {"stdin": "", **{key: value for key, value in job.kwargs.items() if value}}
    if len(found) != 1 or found[0].body is None or found[0].body["kwargs"] != wanted:
        raise CannotSay("its command, input or environment would not come out of a crontab as they are")
