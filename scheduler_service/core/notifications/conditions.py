"""Conditions found by a scan, not by an event: runs late or too long, jobs that will never run again. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from itinerary.protocol.instants import Duration, Instant
from scheduler_service.core.balancing.balancer import needs_place
from scheduler_service.core.model import Job
from scheduler_service.core.notifications.notices import Named, Notice, Topic, coalesced, run_notice
from scheduler_service.core.schedules.closed import own_schedule
from scheduler_service.core.schedules.kinds import OnceSchedule
from scheduler_service.core.schedules.stepping import next_after

_CRON_WITH_YEAR: Final = 7


@dataclass(frozen=True, slots=True)
class Pending:
    """A due run that was not started."""

    run: Named
    due_at: Instant


@dataclass(frozen=True, slots=True)
class Running:
    """A started run that is not over."""

    run: Named
    started_at: Instant
    timeout: Duration | None


def late(pending: Iterable[Pending], now: Instant, late_after: Duration) -> list[Notice]:
    """Return jobs with a run that has been due for longer than `late_after`."""
    overdue = [one for one in pending if now - one.due_at > late_after]
    overdue.sort(key=lambda one: -one.due_at)
    return coalesced(run_notice(Topic.RUN_LATE, one.run, one.due_at) for one in overdue)


def overlong(running: Iterable[Running], now: Instant, long_after: Duration) -> list[Notice]:
    """Return jobs with a run that has taken four fifths of its timeout, or `long_after` if it has none."""
    long = [one for one in running if now - one.started_at > _allowed(one, long_after)]
    long.sort(key=lambda one: -one.started_at)
    return coalesced(run_notice(Topic.RUN_OVERLONG, one.run, one.started_at) for one in long)


def may_end(definition: Mapping[str, Any]) -> bool:
    """Whether a job with this definition could ever run out of occurrences: only such jobs must be parsed."""
    return definition.get("end_at") is not None or _may_run_out(definition.get("schedule") or {})


def _may_run_out(schedule: Mapping[str, Any]) -> bool:
    match schedule.get("kind"):
        case "once":
            return True
        case "cron":
            return len(str(schedule.get("expr")).split()) == _CRON_WITH_YEAR
        case "rrule":
            return any(f"{part}=" in str(schedule.get("rrule")) for part in ("COUNT", "UNTIL"))
        case "any":
            return all(map(_may_run_out, schedule.get("of") or ()))
        case _:
            return False


def ended(jobs: Iterable[Job], now: Instant) -> list[Notice]:
    """Return jobs that are active but will never run again."""
    return [_ended_notice(job, now) for job in jobs if _has_ended(job, now)]


def _allowed(one: Running, long_after: Duration) -> Duration:
    return long_after if one.timeout is None else one.timeout * 4 // 5


def _has_ended(job: Job, now: Instant) -> bool:
    if job.paused or job.deleted or needs_place(job):
        return False
    own = own_schedule(job.schedule)
    if isinstance(own, OnceSchedule):  # it has run and is done, unless its time had passed already
        return own.at < min(job.created_at, now)
    return next_after(job.schedule, now, start_at=job.start_at, end_at=job.end_at) is None


def _ended_notice(job: Job, now: Instant) -> Notice:
    facts = {"job_id": job.job_id, "task": job.task, "run_id": None}
    return Notice(Topic.JOB_ENDED, job.job_id, 1, now, now, facts)
