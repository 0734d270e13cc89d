"""The parts of the page of one job: next and last runs, policies, durations, versions. Only reads."""

from dataclasses import dataclass
from typing import Any, Final

from itinerary.protocol.instants import SECOND, Instant, parse_instant
from itinerary.protocol.redaction import redacted
from scheduler_service.api.context import ApiContext
from scheduler_service.api.pages.charts import Health, RunChart, duration_chart, health
from scheduler_service.api.pages.coming_weeks import coming_weeks
from scheduler_service.api.pages.durations import VersionDurations, by_version, drift
from scheduler_service.api.pages.job_fields import CHOICE_TEXTS
from scheduler_service.api.pages.missed_ranges import MissedRangeLine, missed_range_line
from scheduler_service.api.pages.moments import (
    SHAPES,
    Moment,
    RunLine,
    length,
    moment,
    optional_moment,
    pretty,
    run_line,
)
from scheduler_service.api.pages.policy_text import Comparison, VersionLine, compared, policies, version_lines
from scheduler_service.api.pages.reader_zone import follow_job
from scheduler_service.api.pages.year import DaySquare
from scheduler_service.api.services.held_jobs import freezes_of
from scheduler_service.api.services.previews import job_preview
from scheduler_service.core.balancing.balancer import needs_place
from scheduler_service.core.contract.job_words import job_sentence
from scheduler_service.core.model import Job
from scheduler_service.core.schedules.schedule import zone_of
from scheduler_service.ports.stores import RunFilter

_NEXT: Final = 10
_HISTORY: Final = 20
_MISSED_RANGES: Final = 5
_CHARTED: Final = 60
_MEASURED: Final = 300
_VERSIONS: Final = 20


@dataclass(frozen=True, slots=True)
class NextRun:
    """A planned run: in UTC, in the job's zone, and the effect of a clock change on it."""

    at: Moment
    local: str
    offset: str
    dst: str | None


@dataclass(frozen=True, slots=True)
class JobView:
    """The values that the page shows."""

    job: Job
    schedule: str
    warnings: list[str]
    coming: list[NextRun]
    none_coming: str
    paused_until: Moment | None
    policies: list[tuple[str, str]]
    weeks: tuple[tuple[DaySquare, int], ...]
    zone: str
    last: Moment | None
    last_state: tuple[str, str] | None
    chart: RunChart
    health: Health
    by_version: list[VersionDurations]
    drift: str | None
    timeout: str | None
    history: list[RunLine]
    older: bool
    missed_ranges: list[MissedRangeLine]
    versions: list[VersionLine]
    compared: Comparison | None
    arguments: str
    overlaps: dict[str, str]
    freezes: list[str]


def view_of(context: ApiContext, job: Job, pair: tuple[int, int] | None = None) -> JobView:
    """Read what the page shows; `pair`: the versions to compare. The page's zone follows the job's from here on."""
    follow_job(zone_of(job.schedule))
    now = context.clock()
    after = max(now, job.paused_until - 1) if job.paused and job.paused_until is not None else now
    preview = job_preview(job, after, _NEXT)
    latest = context.stores.history.latest_of([job.job_id], now + SECOND, _MEASURED)[job.job_id]
    charted = latest[:_CHARTED]
    versions = context.stores.history.versions(job.job_id, _VERSIONS)
    history = context.stores.runs.list(RunFilter(job_id=job.job_id), _HISTORY, None)
    return JobView(
        job=job,
        schedule=preview["text"],
        warnings=preview["warnings"],
        coming=[]
        if job.paused and job.paused_until is None
        else [_next(found, now) for found in preview["occurrences"]],
        none_coming=_none_coming(job),
        paused_until=optional_moment(job.paused_until, now),
        policies=list(policies(job)),
        weeks=_weeks(job, now, after),
        zone=zone_of(job.schedule),
        last=moment(latest[0].scheduled_at, now) if latest else None,
        last_state=(latest[0].state.value, SHAPES[latest[0].state]) if latest else None,
        chart=duration_chart(charted, job.timeout, _CHARTED),
        health=health(charted, _CHARTED, now),
        by_version=by_version(latest),
        drift=drift(latest),
        timeout=length(job.timeout),
        history=[run_line(run, now) for run in history.items],
        older=history.next_cursor is not None,
        missed_ranges=[
            missed_range_line(missed_range, now)
            for missed_range in context.stores.history.missed_ranges_of(job.job_id, _MISSED_RANGES)
        ],
        versions=version_lines(versions, now),
        compared=compared(versions, *pair) if pair else None,
        arguments=pretty(redacted({"args": list(job.args), "kwargs": dict(job.kwargs)})),
        overlaps=CHOICE_TEXTS["overlap"],
        freezes=[_sentence(one.held()) for one in freezes_of(context, job)],
    )


def _weeks(job: Job, now: Instant, after: Instant) -> tuple[tuple[DaySquare, int], ...]:
    if needs_place(job) or (job.paused and job.paused_until is None):
        return ()
    return coming_weeks(job.schedule, now, max(after, (job.start_at or 0) - 1), job.end_at)


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}"


def _next(found: dict[str, Any], now: Instant) -> NextRun:
    return NextRun(moment(parse_instant(found["at"]), now), found["local"], found["offset"], found["dst"])


def _none_coming(job: Job) -> str:
    if job.paused:
        return "It is paused indefinitely: resume it to let it run again."
    if needs_place(job):
        return "The leader is about to place it."
    return f"Never again: {job_sentence(job)}."
