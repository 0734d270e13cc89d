"""systemd's timers and their services as jobs of one task that runs commands. Pure.

A calendar event has an exact equal here. A timer that counts from the machine's boot, or from the end of the last run,
has none: it is named as what it is.
"""

import shlex
from collections.abc import Iterator, Mapping
from typing import Any, Final

from itinerary.protocol.errors import BadValue
from itinerary.protocol.instants import SECOND, Instant, format_duration
from scheduler_service.migrating.celery_call import celery_call
from scheduler_service.migrating.converted import CannotConvert, Converted, checked, job_id_of
from scheduler_service.migrating.systemd_calendar import calendar_spec, span_of, zone_named_in
from scheduler_service.migrating.systemd_command import filled, plain_command, shell_command
from scheduler_service.migrating.systemd_units import Unit, service_of
from scheduler_service.migrating.their_times import calendar_fires, interval_fires

NOTES: Final = (
    "systemd starts nothing while the service still runs, so overlap is `skip`",
    "systemd may start a timer late by AccuracySec (a minute by default); here it runs at the time itself",
)
_FROM_BOOT: Final = {
    "OnBootSec": "the machine's boot", "OnStartupSec": "the start of systemd", "OnActiveSec": "the start of the timer",
}  # fmt: skip
_TIMER: Final = frozenset(
    {
        "OnCalendar", "OnUnitActiveSec", "OnUnitInactiveSec", "RandomizedDelaySec", "Persistent", "Unit", "AccuracySec",
        "RemainAfterElapse", *_FROM_BOOT,
    }
)  # fmt: skip
_SERVICE: Final = frozenset(
    {
        "Type",
        "ExecStartPre",
        "ExecStart",
        "ExecStartPost",
        "User",
        "Environment",
        "WorkingDirectory",
        "TimeoutStartSec",
        "RuntimeMaxSec",
        "TimeoutSec",
    }
)
_NO: Final = frozenset({"no", "false", "off", "0"})


def read_timers(
    units: Mapping[str, Unit],
    *,
    task: str,
    timezone: str,
    now: Instant,
    queue: str | None = None,
    only: str | None = None,
) -> list[Converted]:
    """Every timer, or the one that is named `only`; BadValue where there is none."""
    timers = sorted(name for name in units if name.endswith(".timer") and name == (only or name))
    if not timers:
        raise BadValue("PLACE", only, "no timer is there: give a folder of .timer files, or what systemctl cat prints")
    taken: set[str] = set()
    return [each for name in timers for each in _timer(units[name], units, task, timezone, now, queue, taken)]


def _timer(
    timer: Unit, units: Mapping[str, Unit], task: str, timezone: str, now: Instant, queue: str | None, taken: set[str]
) -> Iterator[Converted]:
    if timer.masked:
        yield Converted(timer.name, left_out="it is masked there")
        return
    triggers = [(key, value) for key in ("OnCalendar", "OnUnitActiveSec") for value in timer.all("Timer", key)]
    try:
        _check(timer, triggers)
        body, differences = _of_service(timer, units, task, queue)
    except CannotConvert as exc:
        yield Converted(timer.name, refused=str(exc))
        return
    for number, (key, value) in enumerate(triggers, 1):
        name = timer.name if len(triggers) == 1 else f"{timer.name} {key} {number}"
        try:
            spec, more = _schedule(key, value, timezone)
        except CannotConvert as exc:
            yield Converted(name, refused=str(exc))
            continue
        several = ["it has several times: a job each, of which each heeds its own last run alone"] * (len(triggers) > 1)
        job_id = job_id_of(timer.name.removesuffix(".timer"), taken, "timer")
        taken.add(job_id)
        jitter, delays = _jitter(timer)
        fields = {"job_id": job_id, "schedule": spec, "overlap": "skip", **body, **jitter, **_misfire(timer, key)}
        has_zone = zone_named_in(value) is not None
        fires = calendar_fires(value, timezone, has_zone) if key == "OnCalendar" else interval_fires(spec)
        yield checked(name, fields, (*more, *several, *delays, *differences), now, fires)[0]


def _check(timer: Unit, triggers: list[tuple[str, str]]) -> None:
    if timer.name.endswith("@.timer"):
        raise CannotConvert("it is a template: name its instances, as systemctl cat prints them")
    if inactive := timer.last("Timer", "OnUnitInactiveSec"):
        raise CannotConvert(f"OnUnitInactiveSec={inactive} counts from the end of the last run: no schedule here does")
    if not triggers:
        for key, since in _FROM_BOOT.items():
            if value := timer.last("Timer", key):
                raise CannotConvert(f"{key}={value} counts from {since}: no schedule here does")
        raise CannotConvert("it has no OnCalendar and no OnUnitActiveSec")


def _schedule(key: str, value: str, timezone: str) -> tuple[dict[str, Any], list[str]]:
    if key == "OnCalendar":
        return calendar_spec(value, timezone), []
    every = span_of(value, key)
    if every < SECOND or every % SECOND:
        raise CannotConvert(f"{key}={value}: intervals here are whole seconds, 1 s or more")
    length = format_duration(every)
    counted = f"systemd counts from its last start, which drifts; here it runs at 00:00 ({timezone}) + k x {length}"
    return {"kind": "interval", "every": length, "timezone": timezone}, [counted]


def _jitter(timer: Unit) -> tuple[dict[str, str], list[str]]:
    """RandomizedDelaySec as jitter, and what else of the timer is not carried over."""
    left_out = [
        f"{key}={value}, counted from {since}, is not carried over"
        for key, since in _FROM_BOOT.items()
        if (value := timer.last("Timer", key))
    ]
    if left := [key for key in timer.keys("Timer") if key not in _TIMER]:
        left_out.append(f"the timer's {', '.join(left)}: not carried over")
    delay = timer.last("Timer", "RandomizedDelaySec")
    span = span_of(delay, "RandomizedDelaySec") if delay else 0
    return ({"jitter": format_duration(span)} if span else {}), left_out


def _misfire(timer: Unit, key: str) -> dict[str, Any]:
    """Persistent= makes up for one missed time; without it, what was due while the machine was down is lost."""
    persistent = (timer.last("Timer", "Persistent") or "no").lower() not in _NO
    return {} if persistent or key != "OnCalendar" else {"misfire": {"policy": "skip"}}


def _of_service(
    timer: Unit, units: Mapping[str, Unit], task: str, queue: str | None
) -> tuple[dict[str, Any], list[str]]:
    name, service = service_of(timer, units)
    if service is None or service.masked:
        raise CannotConvert(f"it starts {name}, which is not beside it: give both units")
    title = timer.last("Unit", "Description") or service.last("Unit", "Description")
    common = {**({"title": filled(title, name, "Description")} if title else {}), **({"queue": queue} if queue else {})}
    lines = _commands(service, name)
    if (sent := _sent(lines, name)) is not None:
        return {**sent, "overlap": "allow", **common}, list(_not_carried(service, name))
    folder = service.last("Service", "WorkingDirectory")
    command = shell_command(lines, name, alone=not folder)
    if folder:
        if folder[0] in "-~":
            raise CannotConvert(f"WorkingDirectory={folder} of {name}: write the whole path")
        command = f"cd {shlex.quote(filled(folder, name, 'WorkingDirectory'))} && {command}"
    kwargs: dict[str, Any] = {"command": command, "stdin": ""}
    differences = list(_not_carried(service, name))
    if user := service.last("Service", "User"):
        kwargs["user"] = filled(user, name, "User")
        differences.append(f"systemd runs it as {user}; here the worker's user does, the task is told by `user`")
    if environment := _environment(service, name):
        kwargs["env"] = environment
        differences.append(f"it sets {', '.join(environment)} for the command; the task is given them as `env`")
    return {"task": task, "kwargs": kwargs, **common, **_timeout(service)}, differences


def _sent(lines: list[str], name: str) -> dict[str, Any] | None:
    """The task of an only `celery call`, which ends when it has sent."""
    words = plain_command(lines, name) or []
    return celery_call(words[1:] if words[:1] == ["/usr/bin/env"] else words)


def _commands(service: Unit, name: str) -> list[str]:
    before, lines, after = (service.all("Service", key) for key in ("ExecStartPre", "ExecStart", "ExecStartPost"))
    if not lines:
        raise CannotConvert(f"{name} has no ExecStart")
    if service.all("Service", "ExecCondition"):
        raise CannotConvert(f"{name} has ExecCondition: let the command itself ask")
    if after and service.last("Service", "Type") != "oneshot":
        raise CannotConvert(f"{name} has ExecStartPost, which runs beside its command: put both into one script")
    return [*before, *lines, *after]


def _environment(service: Unit, name: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in service.all("Service", "Environment"):
        try:
            words = shlex.split(line)
        except ValueError as exc:
            raise CannotConvert(f"Environment={line} is not understood: {exc}") from exc
        found |= {key: filled(value, name, "Environment") for key, _, value in (word.partition("=") for word in words)}
    return found


def _timeout(service: Unit) -> dict[str, str]:
    """How long a run may take: that of its start for a oneshot, else RuntimeMaxSec."""
    is_oneshot = (service.last("Service", "Type") or "simple") == "oneshot"
    keys = ("TimeoutStartSec", "TimeoutSec") if is_oneshot else ("RuntimeMaxSec",)
    for key in keys:
        value = service.last("Service", key)
        if value and value != "infinity" and (limit := span_of(value, key)):
            return {"timeout": format_duration(limit)}
    return {}


def _not_carried(service: Unit, name: str) -> Iterator[str]:
    kind = service.last("Service", "Type") or "simple"
    if kind not in ("oneshot", "simple", "exec"):
        yield f"{name} is of Type={kind}; here the run ends when its command ends"
    if left := [key for key in service.keys("Service") if key not in _SERVICE]:
        yield f"{', '.join(left)} of {name}: not carried over, see to it where the worker runs"
    if asked := [key for key in service.keys("Unit") if key.startswith(("Condition", "Assert"))]:
        yield f"{', '.join(asked)} of {name}: not asked here, let the task ask"
