"""APScheduler's jobs from the JSON that `python -m itinerary export-apscheduler` prints beside the app. Pure.

A function is no Celery task: it becomes one by a decorator, or one task of the caller's calls any function by its name.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from itinerary.apps.apscheduler_jobs import FORMAT
from itinerary.protocol.errors import BadValue
from itinerary.protocol.instants import SECOND, Instant, format_duration, format_instant, parse_instant
from scheduler_service.core.model import Job
from scheduler_service.core.schedules.schedule import occurrences, upcoming
from scheduler_service.core.schedules.zones import zone
from scheduler_service.migrating.apscheduler_cron import cron_spec
from scheduler_service.migrating.converted import CannotConvert, Converted, checked, job_id_of
from scheduler_service.migrating.functions import task_of
from scheduler_service.migrating.their_times import Fires, interval_fires

NOTES: Final = ("APScheduler runs a function in its own process; here a worker runs a Celery task",)
MOST_BYTES: Final = 16 * 1024 * 1024
_GIVE: Final = "give what `python -m itinerary export-apscheduler MODULE:SCHEDULER` prints"


def read_apscheduler(
    text: str | bytes, where: str, *, task: str | None, queue: str | None, now: Instant
) -> tuple[str, list[Converted]]:
    """The scheduler's name and every job of it; BadValue for another text, or where it holds no job."""
    taken: set[str] = set()
    try:
        body = json.loads(text)
        if body["format"] != FORMAT:
            raise ValueError(f"the format is {body['format']!r}, this service reads {FORMAT}: install the same release")
        entries, place = list(body["entries"]), str(body["scheduler"])
        found = [_entry(entry, task, queue, now, taken) for entry in entries]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as exc:
        raise BadValue("--from-json", where, f"{_GIVE} ({type(exc).__name__}: {exc})") from exc
    if not found:
        raise BadValue("MODULE:SCHEDULER", place, "it has no job: name the scheduler to which the jobs are added")
    return place, found


def _entry(entry: Mapping[str, Any], task: str | None, queue: str | None, now: Instant, taken: set[str]) -> Converted:
    name = str(entry["name"])
    try:
        if entry["refused"] is not None:
            raise CannotConvert(str(entry["refused"]))
        differences: list[str] = []
        schedule, bounds = _schedule(entry["trigger"], differences)
        called = task_of(entry["function"], entry["args"], entry["kwargs"], task, differences, known=entry["task"])
        policies = _policies(entry, differences)
        jitter = _jitter(entry["trigger"], differences)
    except CannotConvert as exc:
        return Converted(name, refused=str(exc))
    job_id = job_id_of(name, taken, "job")
    body = {"job_id": job_id, **({"title": entry["title"]} if entry["title"] not in ("", job_id) else {}), **called}
    body |= {"schedule": schedule, **bounds, **policies, **jitter, **({"queue": queue} if queue else {})}
    converted, job, by_clock = _with_clocks(name, body, entry["clocks"], now)
    if converted.body is None or job is None:
        return converted
    taken.add(job_id)
    has_phase = entry["trigger"]["kind"] != "interval" or entry["trigger"]["start"] is not None
    odd = _times_that_differ(job, entry["times"], now) if has_phase else []
    more = (*odd, *by_clock, *differences, *converted.differences)
    paused = "it is paused there; resume it and import again" if entry["paused"] else None
    return Converted(name, converted.body, more, left_out=paused, fires=_fires(entry, schedule))


def _fires(entry: Mapping[str, Any], schedule: Mapping[str, Any]) -> Fires | None:
    """APScheduler's own times over the span that was exported; an interval without a start counts from the span's."""
    if entry["trigger"]["kind"] == "interval" and entry["trigger"]["start"] is None:
        return interval_fires(schedule)
    held = entry.get("span")
    if held is None:
        return None
    times = [parse_instant(text) for text in held]
    return lambda start, end: [at for at in times if start < at < end]


def _with_clocks(
    name: str, body: Mapping[str, Any], clocks: Sequence[Mapping[str, Any]], now: Instant
) -> tuple[Converted, Job | None, list[str]]:
    """The job under the rule for skipped times that comes closest to APScheduler's, and what differs even so."""
    best: tuple[Converted, Job | None, list[str]] | None = None
    has_rule = "dst_gap" in body["schedule"]
    for rule in ({}, {"dst_gap": "next_valid"}, {"dst_gap": "skip"}) if has_rule else ({},):
        converted, job = checked(name, {**body, "schedule": {**body["schedule"], **rule}}, (), now)
        differences = [] if job is None else [text for each in clocks if (text := _about_change(job, each))]
        if best is None or len(differences) < len(best[2]):
            best = converted, job, differences
        if not differences:
            break
    assert best is not None  # the first rule is always tried
    return best


def _about_change(job: Job, change: Mapping[str, Any]) -> str | None:
    start, end = parse_instant(change["from"]), parse_instant(change["to"])
    theirs, mine = {*map(parse_instant, change["times"])}, {*occurrences(job.schedule, start, end)}
    theirs = {at for at in theirs if at < end}
    sides = [("only there", theirs - mine), ("only here", mine - theirs)]
    shown = "; ".join(f"{where} {len(times)}x, first {format_instant(min(times))}" for where, times in sides if times)
    return f"when the clocks change after {format_instant(start)}: {shown}" if shown else None


def _schedule(trigger: Mapping[str, Any], differences: list[str]) -> tuple[dict[str, Any], dict[str, str]]:
    """Our schedule, and the bounds of the job."""
    if trigger["kind"] == "date":
        return {"kind": "once", "at": trigger["at"]}, {}
    try:
        timezone = zone(trigger["timezone"]).key
    except BadValue as exc:
        raise CannotConvert(f"its time zone {trigger['timezone']!r} has no IANA name: name one") from exc
    # The last time counts there, and is the first that does not count here.
    bounds = {} if trigger["end"] is None else {"end_at": format_instant(parse_instant(trigger["end"]) + 1)}
    if trigger["kind"] == "cron":
        start = {} if trigger["start"] is None else {"start_at": trigger["start"]}
        return cron_spec(trigger["fields"], timezone), start | bounds
    every = int(trigger["microseconds"])
    if every < SECOND or every % SECOND:
        raise CannotConvert(f"every {every / SECOND:g} s: intervals here are whole seconds, 1 s or more")
    length = format_duration(every)
    spec = {"kind": "interval", "every": length, "anchor": trigger["start"], "timezone": timezone}
    if trigger["start"] is None:
        differences.append(f"APScheduler counts from its start; here it runs at 00:00 ({timezone}) + k x {length}")
    return spec, bounds


def _policies(entry: Mapping[str, Any], differences: list[str]) -> dict[str, Any]:
    grace, coalesces, at_once = entry["misfire_grace_time"], entry["coalesce"], entry["max_instances"]
    if grace is None:
        misfire = {"policy": "fire_once" if coalesces else "fire_all"}
    else:
        misfire = {"policy": "skip", "grace": f"{grace}s"}
        if coalesces:
            differences.append(f"coalesce: what is late by up to {grace} s runs once there, and here each time")
    if at_once is not None and at_once > 1:
        differences.append(f"max_instances {at_once}: that many run at once there; here overlap `allow` has no limit")
    return {"misfire": misfire, "overlap": "allow" if (at_once or 1) > 1 else "skip"}


def _jitter(trigger: Mapping[str, Any], differences: list[str]) -> dict[str, str]:
    seconds = trigger.get("jitter")
    if not seconds:
        return {}
    differences.append(f"jitter {seconds}: up to {seconds} s earlier or later there, and here up to {seconds} s later")
    return {"jitter": f"{round(seconds)}s"}


def _times_that_differ(job: Job, times: Sequence[str], now: Instant) -> list[str]:
    """Compare APScheduler's own next times with ours, up to the last of them."""
    theirs = [at for at in map(parse_instant, times) if at > now]
    if not theirs:
        return []
    mine = upcoming(job.schedule, now, len(theirs) + 1, start_at=job.start_at, end_at=job.end_at)
    mine = [at for at in mine if at <= theirs[-1]]
    found = []
    for only, where in (({*theirs} - {*mine}, "there"), ({*mine} - {*theirs}, "here")):
        if only:
            found.append(
                f"{len(only)} of its next {len(theirs)} times are only {where}, first {format_instant(min(only))}"
            )
    return found
