"""The list of jobs: filtered by deep links, paged by key, paused and resumed in bulk."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Final, Literal
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request, Response

from scheduler_service.api.auth import Who
from scheduler_service.api.context import ApiContext, Context
from scheduler_service.api.pages.charts import RunChart, spark
from scheduler_service.api.pages.csrf import FormBody
from scheduler_service.api.pages.moments import SHAPES, Moment, moment, optional_moment
from scheduler_service.api.pages.shell import CHANGER, READER, PageRoute, go, page
from scheduler_service.api.previews import next_runs
from scheduler_service.api.problems import Problem
from scheduler_service.api.routes_jobs import Cursor, pause_job, resume_job
from scheduler_service.core.balancer import needs_place
from scheduler_service.core.errors import NotFound
from scheduler_service.core.fields import read_text
from scheduler_service.core.instants import Instant, parse_instant
from scheduler_service.core.model import Job
from scheduler_service.core.words import describe
from scheduler_service.ports.history import Outcome

_JOBS: Final = 50
_SPARK: Final = 30

router = APIRouter(include_in_schema=False, dependencies=READER, route_class=PageRoute)


@dataclass(frozen=True, slots=True)
class LastRun:
    """The newest run that fell due."""

    run_id: str
    state: str
    shape: str
    at: Moment


@dataclass(frozen=True, slots=True)
class JobLine:
    """One job of the list."""

    job_id: str
    title: str
    task: str
    tags: tuple[str, ...]
    schedule: str
    next_run: Moment | None
    next_words: str
    paused: bool
    pause_reason: str | None
    last: LastRun | None
    spark: RunChart


@router.get("/jobs")
def list_jobs(
    request: Request,
    context: Context,
    q: Annotated[str, Query(max_length=200)] = "",
    tag: Annotated[str, Query(max_length=100)] = "",
    paused: Literal["", "true", "false"] = "",
    cursor: Cursor = None,
) -> Response:
    """Jobs by their id, with what came of their last runs."""
    for name, text in (("tag", tag), ("q", q), ("cursor", cursor or "")):
        read_text(text, name)
    wanted = {"": None, "true": True, "false": False}[paused]
    found = context.stores.jobs.list(tag=tag or None, text=q or None, paused=wanted, limit=_JOBS, cursor=cursor)
    asked = {name: value for name, value in (("q", q), ("tag", tag), ("paused", paused)) if value}
    following = urlencode({**asked, "cursor": found.next_cursor}) if found.next_cursor else None
    return page(
        request, "jobs.html", jobs=job_lines(context, found.items), following=following, q=q, tag=tag, paused=paused,
        filtered=bool(asked), first=urlencode(asked) if cursor else None, back=request.url.query,
    )  # fmt: skip


@router.post("/jobs", dependencies=CHANGER)
def change_jobs(context: Context, who: Who, form: FormBody) -> Response:
    """Pause or resume the jobs that are ticked."""
    chosen = form.all("job")
    if not chosen:
        raise Problem(422, "no job is ticked")
    doing = form.one("do")
    if doing not in ("pause", "resume"):
        raise Problem(422, "choose to pause or to resume")
    for job_id in chosen[:_JOBS]:
        with suppress(NotFound):  # deleted meanwhile: the others are not
            if doing == "pause":
                pause_job(context, who, job_id, {"reason": form.one("reason") or None})
            else:
                resume_job(context, who, job_id)
    back = form.one("back")
    return go(f"/jobs?{back}" if back.isprintable() and back else "/jobs", f"{doing}d")


def job_lines(context: ApiContext, jobs: Sequence[Job]) -> list[JobLine]:
    """The lines of these jobs."""
    now = context.clock()
    latest = context.stores.history.latest_of([job.job_id for job in jobs], now, _SPARK)
    return [_line(job, latest[job.job_id], now) for job in jobs]


def _line(job: Job, newest_first: Sequence[Outcome], now: Instant) -> JobLine:
    found = next_runs(job, now, 1)
    return JobLine(
        job.job_id, job.title, job.task, job.tags, describe(job.schedule),
        moment(parse_instant(found[0]), now) if found else None,
        "being placed" if needs_place(job) else "never again", job.paused, job.pause_reason,
        last_run(newest_first, now), spark(newest_first, _SPARK),
    )  # fmt: skip


def last_run(newest_first: Sequence[Outcome], now: Instant) -> LastRun | None:
    """The newest of these runs."""
    if not newest_first:
        return None
    run = newest_first[0]
    at = optional_moment(run.finished_at, now) or moment(run.scheduled_at, now)
    return LastRun(run.run_id, run.state.value, SHAPES[run.state], at)
