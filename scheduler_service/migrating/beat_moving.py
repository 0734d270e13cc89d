"""Beat's entries as jobs: every entry is moved with its differences told, or refused by name. Opens no connection."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final

from celery import Celery

from itinerary.protocol.instants import SECOND, Instant, format_instant
from scheduler_service.core.model import Job
from scheduler_service.core.schedules.schedule import IntervalSchedule, upcoming
from scheduler_service.migrating.beat_entry import BeatEntry, ConvertedEntry
from scheduler_service.migrating.beat_options import arguments_of, options_of, queue_of
from scheduler_service.migrating.beat_schedules import spec_of
from scheduler_service.migrating.comparing import Comparison, clock_differences, compare
from scheduler_service.migrating.converted import CannotConvert, Converted, checked, job_id_of

_GAP_RULES: Final[tuple[dict[str, str], ...]] = ({}, {"dst_gap": "shift"}, {"dst_gap": "skip"})


@lru_cache(maxsize=256)
def app_of_zone(zone: str) -> Celery:
    """A Celery app of nobody's, in which crontabs are meant in that zone."""
    changes = {"timezone": zone, "enable_utc": True}
    return Celery("itinerary-moving-in", set_as_current=False, fixups=[], changes=changes)


def clock_app(app: Celery, entry: BeatEntry) -> Celery:
    """The app in whose zone the entry's schedule is asked."""
    return app if entry.zone is None else app_of_zone(entry.zone)


def move_entries(
    entries: list[BeatEntry],
    app: Celery,
    now: Instant,
    each: Callable[[list[BeatEntry]], Iterable[BeatEntry]] = lambda entries: entries,
    *,
    clocks: bool = True,
    app_known: bool = True,
) -> list[ConvertedEntry]:
    """Every entry, moved or refused; `each` may show how far it has come.

    With `clocks` the coming changes of the clocks are examined, which takes a while for busy entries. Unless
    `app_known` the app stands in for one that was not named, and nothing is said of its tasks.
    """
    taken: set[str] = set()
    found = []
    for entry in each(entries):
        job_id = job_id_of(entry.name, taken, "entry")
        taken.add(job_id)
        converted = _converted(app, entry, job_id, now, clocks, app_known)
        found.append(
            replace(converted, converted=replace(converted.converted, left_out=entry.asleep))
            if entry.asleep
            else converted
        )
    return found


def compare_entry(converted: ConvertedEntry, app: Celery, start: Instant, end: Instant) -> Comparison | None:
    """Beat's times and ours over (start, end); None for what is refused or left out."""
    job, entry = converted.job, converted.entry
    if job is None or converted.converted.left_out is not None:
        return None
    bounds = {"start_at": job.start_at, "end_at": job.end_at}
    return compare(entry.paced, clock_app(app, entry), job.schedule, start, end, **bounds)


def _converted(
    app: Celery, entry: BeatEntry, job_id: str, now: Instant, clocks: bool, app_known: bool
) -> ConvertedEntry:
    try:
        if entry.refused is not None:
            raise CannotConvert(entry.refused)
        spec, differences = spec_of(entry.schedule, clock_app(app, entry))
        body = {
            "job_id": job_id,
            **({"title": entry.name} if entry.name != job_id else {}),
            "task": entry.task,
            **arguments_of(entry),
            "schedule": spec,
            "overlap": "allow",
            **_bounds(entry, now),
            **({"description": entry.description} if entry.description else {}),
        }
        body |= {"queue": queue_of(app, entry)}
        differences += _anchor(entry, spec, differences)
        differences += [*entry.differences, *options_of(app, entry, body, app_known)]
        if entry.once and spec["kind"] != "once":
            return _once(entry, body, differences, now)
    except CannotConvert as exc:
        return ConvertedEntry(entry, Converted(entry.name, refused=str(exc)), None)
    converted, job = checked(entry.name, body, tuple(differences), now)
    if clocks and job is not None and spec["kind"] not in ("interval", "once", "solar"):
        return _with_clocks(app, entry, body, differences, now)
    return ConvertedEntry(entry, converted, job)


def _bounds(entry: BeatEntry, now: Instant) -> dict[str, str]:
    bounds = {"end_at": entry.end_at, "start_at": entry.start_at if (entry.start_at or 0) > now else None}
    return {name: format_instant(at) for name, at in bounds.items() if at is not None}


def _anchor(entry: BeatEntry, spec: dict[str, Any], differences: list[str]) -> list[str]:
    """Has an interval go on from when beat last sent it, and `differences` say so instead of beat's start."""
    anchor = entry.last_run_at if entry.last_run_at is not None else entry.start_at
    if spec["kind"] != "interval" or anchor is None:
        return []
    anchor = max(anchor, entry.start_at or anchor)
    spec["anchor"] = format_instant(anchor - anchor % SECOND)
    differences[:] = [text for text in differences if not text.startswith("beat counts from its start")]
    return [f"beat counts from when it last sent, which drifts; here it runs at {spec['anchor']} + k x {spec['every']}"]


def _once(entry: BeatEntry, body: dict[str, Any], differences: Sequence[str], now: Instant) -> ConvertedEntry:
    """The entry at its next time alone; asleep where that has come already, as nothing here sends what is past."""
    converted, job = checked(entry.name, body, (), now)
    if job is None:
        return ConvertedEntry(entry, converted, None)
    overdue = _overdue_since(entry, job, now)
    at = overdue if overdue is not None else next(iter(_next_of(job, now)), None)
    if at is None:
        raise CannotConvert("it is to be sent once, and its schedule has no time to come")
    body = {**body, "schedule": {"kind": "once", "at": format_instant(at)}}
    body.pop("start_at", None)
    note = "one_off: sent once, at the next time of its schedule, and disabled; here that is a job of one time"
    converted, job = checked(entry.name, body, (*differences, note), now)
    asleep = f"beat would send it at once, since it was due at {format_instant(at)}" if overdue is not None else None
    return ConvertedEntry(entry, replace(converted, left_out=asleep), job)


def _overdue_since(entry: BeatEntry, job: Job, now: Instant) -> Instant | None:
    if not isinstance(job.schedule, IntervalSchedule):
        return None
    if entry.last_run_at is not None and entry.last_run_at + job.schedule.every <= now:
        return entry.last_run_at + job.schedule.every
    return (
        entry.start_at if entry.last_run_at is None and entry.start_at is not None and entry.start_at <= now else None
    )


def _next_of(job: Job, now: Instant) -> list[Instant]:
    return upcoming(job.schedule, now, 1, start_at=job.start_at, end_at=job.end_at)


def _with_clocks(
    app: Celery, entry: BeatEntry, body: dict[str, Any], differences: Sequence[str], now: Instant
) -> ConvertedEntry:
    """The entry under the rule for skipped times that comes closest to Celery's, and what differs even so."""
    best: tuple[list[str], ConvertedEntry] | None = None
    for rule in _GAP_RULES if _is_fixed(body["schedule"]) else _GAP_RULES[:1]:
        ruled = {**body, "schedule": {**body["schedule"], **rule}}
        converted, job = checked(entry.name, ruled, (), now)
        if job is not None:
            by_clock = clock_differences(entry.schedule, clock_app(app, entry), job.schedule, now)
            if best is None or len(by_clock) < len(best[0]):
                chosen = Converted(converted.name, converted.body, (*differences, *by_clock))
                best = by_clock, ConvertedEntry(entry, chosen, job)
            if not by_clock:
                break
    assert best is not None  # the first rule is the default, with which the job was accepted
    return best[1]


def _is_fixed(spec: Mapping[str, Any]) -> bool:
    """Whether the rules for skipped times mean anything to the schedule; those that follow elapsed time heed none."""
    return spec["kind"] == "cron" and not any(part.startswith("*") for part in spec["expr"].split()[:2])
