"""The page of one job: next and last runs, policies, versions, and the actions pause, run now and delete."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final
from urllib.parse import quote

from fastapi import APIRouter, Query, Request, Response

from itinerary.protocol.errors import BadValue
from itinerary.protocol.instants import MICROSECOND, SECOND, Instant, format_instant, parse_instant
from itinerary.protocol.redaction import redacted
from scheduler_service.api.context import ApiContext, Context
from scheduler_service.api.http.auth import Who, demand
from scheduler_service.api.http.bodies import read_json
from scheduler_service.api.http.problems import Problem
from scheduler_service.api.pages.charts import Health, RunChart, duration_chart, health
from scheduler_service.api.pages.csrf import Form, FormBody
from scheduler_service.api.pages.missed_ranges import MissedRangeLine, missed_range_line
from scheduler_service.api.pages.moments import (
    Moment,
    RunLine,
    length,
    moment,
    optional_moment,
    pretty,
    read_time,
    run_line,
)
from scheduler_service.api.pages.policy_text import VersionLine, policies, version_lines
from scheduler_service.api.pages.reader_zone import follow_job
from scheduler_service.api.pages.shell import CHANGER, READER, PageRoute, address_of, go, page
from scheduler_service.api.pages.wrong import Reader, Wrong, or_again
from scheduler_service.api.routes.explain import why_at
from scheduler_service.api.routes.jobs import delete_job, known_job, pause_job, resume_job, triggered
from scheduler_service.api.services.held_jobs import freezes_of
from scheduler_service.api.services.previews import job_preview, next_runs
from scheduler_service.core.audit import Caller
from scheduler_service.core.balancing.balancer import needs_place
from scheduler_service.core.contract.job_words import job_sentence
from scheduler_service.core.explain.explanation import Explanation
from scheduler_service.core.model import Job, Overlap
from scheduler_service.core.schedules.schedule import zone_of
from scheduler_service.ports.stores import RunFilter

_NEXT: Final = 10
_HISTORY: Final = 20
_MISSED_RANGES: Final = 5
_CHARTED: Final = 60
_VERSIONS: Final = 20
_LABELS: Final = {
    "at": "At ({zone})", "reason": "Why", "until": "Until", "kwargs": "Arguments by name",
    "limits": "Limits in place of the job's", "fair_key": "Fair key in place of the job's",
    "overlap": "If another run is not over", "confirm": "The job's id, to delete it",
}  # fmt: skip
_SKIPPED: Final = "the next run is skipped"

router = APIRouter(include_in_schema=False, dependencies=READER, route_class=PageRoute)


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
    chart: RunChart
    health: Health
    timeout: str | None
    history: list[RunLine]
    older: bool
    missed_ranges: list[MissedRangeLine]
    versions: list[VersionLine]
    arguments: str
    overlaps: list[str]
    freezes: list[str]


@router.get("/jobs/{job_id}")
def show_job(
    request: Request, context: Context, job_id: str, at: Annotated[str, Query(max_length=40)] = ""
) -> Response:
    """Show the job and, if `at` is given, the decision for that instant."""
    reader = Reader(_LABELS)
    why = reader.tried(lambda: why_at(context, job_id, read_time(at, "at"))) if at else None
    return _show(request, context, job_id, reader.wrong(), {"at": at}, why)


def _show(
    request: Request,
    context: ApiContext,
    job_id: str,
    wrong: Wrong,
    typed: Mapping[str, str],
    why: Explanation | None = None,
) -> Response:
    seen = _view(context, known_job(context, job_id))
    address = f"/jobs/{quote(job_id, safe='')}" if request.method == "POST" else address_of(request)
    return page(
        request, "job.html", wrong=wrong, seen=seen, typed=typed, at=typed.get("at", ""), why=why, address=address
    )


@router.post("/jobs/{job_id}/pause", dependencies=CHANGER)
def pause(request: Request, context: Context, who: Who, job_id: str, form: FormBody) -> Response:
    """Pause the job, indefinitely or until a time."""

    def act() -> Response:
        body = {
            "reason": form.one("reason") or None,
            "until": form.time("until") or None,
            "waiting": "skip" if form.one("skip_waiting") else "keep",
        }
        pause_job(context, who, job_id, body)
        return go(f"/jobs/{job_id}", "paused")

    return or_again(act, lambda wrong: _show(request, context, job_id, wrong, form.texts()), _LABELS)


@router.post("/jobs/{job_id}/skip-next", dependencies=CHANGER)
def skip_next(request: Request, context: Context, who: Who, job_id: str) -> Response:
    """Skip only the next run: a pause that ends right after it."""
    return or_again(
        lambda: _skipped(context, who, job_id), lambda wrong: _show(request, context, job_id, wrong, {}), _LABELS
    )


def _skipped(context: ApiContext, who: Caller, job_id: str) -> Response:
    job = known_job(context, job_id)
    coming = next_runs(job, context.clock(), 1)
    if job.paused or not coming:
        raise Problem(409, f"{job_id} is paused or has no next run, so there is none to skip", kind="nothing-to-skip")
    until = format_instant(parse_instant(coming[0]) + MICROSECOND)
    # Never replace a pause that another caller began meanwhile: this one would end it.
    pause_job(context, who, job_id, {"reason": _SKIPPED, "until": until}, f'"{job.version}"')
    return go(f"/jobs/{job_id}", "skipped")


@router.post("/jobs/{job_id}/resume", dependencies=CHANGER)
def resume(context: Context, who: Who, job_id: str) -> Response:
    """Resume the job."""
    resume_job(context, who, job_id)
    return go(f"/jobs/{job_id}", "resumed")


@router.post("/jobs/{job_id}/trigger", dependencies=CHANGER)
def trigger(request: Request, context: Context, who: Who, job_id: str, form: FormBody) -> Response:
    """Run the job now, then go to the page of the run."""
    return or_again(
        lambda: go(f"/runs/{triggered(context, who, job_id, _asked(form)).run_id}", "triggered"),
        lambda wrong: _show(request, context, job_id, wrong, form.texts()),
        _LABELS,
    )


@router.post("/jobs/{job_id}/delete", dependencies=CHANGER)
def delete(request: Request, context: Context, who: Who, job_id: str, form: FormBody) -> Response:
    """Delete the job if its name was typed."""
    demand(who, "admin", "deleting jobs")

    def act() -> Response:
        if form.one("confirm") != job_id:
            raise BadValue("confirm", form.one("confirm"), f"type {job_id} to delete the job")
        delete_job(context, who, job_id)
        return go("/jobs", "deleted")

    return or_again(act, lambda wrong: _show(request, context, job_id, wrong, form.texts()), _LABELS)


def _asked(form: Form) -> dict[str, Any]:
    body: dict[str, Any] = {name: form.one(name) or None for name in ("overlap", "fair_key")}
    read = {name: read_json(text, name) for name in ("kwargs", "limits") if (text := form.one(name))}
    return {**body, "force": bool(form.one("force")), **read}


def _view(context: ApiContext, job: Job) -> JobView:
    follow_job(zone_of(job.schedule))
    now = context.clock()
    after = max(now, job.paused_until - 1) if job.paused and job.paused_until is not None else now
    preview = job_preview(job, after, _NEXT)
    latest = context.stores.history.latest_of([job.job_id], now + SECOND, _CHARTED)[job.job_id]
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
        chart=duration_chart(latest, job.timeout, _CHARTED),
        health=health(latest, _CHARTED, now),
        timeout=length(job.timeout),
        history=[run_line(run, now) for run in history.items],
        older=history.next_cursor is not None,
        missed_ranges=[
            missed_range_line(missed_range, now)
            for missed_range in context.stores.history.missed_ranges_of(job.job_id, _MISSED_RANGES)
        ],
        versions=version_lines(context.stores.history.versions(job.job_id, _VERSIONS), now),
        arguments=pretty(redacted({"args": list(job.args), "kwargs": dict(job.kwargs)})),
        overlaps=[overlap.value for overlap in Overlap],
        freezes=[_sentence(one.held()) for one in freezes_of(context, job)],
    )


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
