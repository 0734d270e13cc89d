"""The list of jobs: filtered by deep links, paged by key, paused and resumed in bulk."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Final
from urllib.parse import parse_qsl, urlencode

from fastapi import APIRouter, Query, Request, Response

from itinerary.protocol.errors import BadValue, NotFound
from itinerary.protocol.instants import Instant, parse_instant
from scheduler_service.api.context import ApiContext, Context
from scheduler_service.api.http.auth import Who
from scheduler_service.api.http.problems import Problem
from scheduler_service.api.pages.charts import RunChart, spark
from scheduler_service.api.pages.csrf import Form, FormBody
from scheduler_service.api.pages.moments import SHAPES, Moment, moment, optional_moment
from scheduler_service.api.pages.shell import CHANGER, READER, PageRoute, go, page
from scheduler_service.api.pages.totals import total_text
from scheduler_service.api.pages.wrong import NOTHING_WRONG, Reader, Wrong, or_again
from scheduler_service.api.routes.jobs import Cursor, pause_job, resume_job
from scheduler_service.api.services.previews import next_runs
from scheduler_service.core.audit import Caller
from scheduler_service.core.balancing.balancer import needs_place
from scheduler_service.core.contract.fields import read_text
from scheduler_service.core.contract.job_words import job_sentence
from scheduler_service.core.model import Job
from scheduler_service.ports.history import Outcome, Total
from scheduler_service.ports.stores import JobFilter, Page

_JOBS: Final = 50
_SPARK: Final = 30
_LABELS: Final = {
    "q": "Search", "tag": "Tag", "paused": "Show", "cursor": "Page of the list", "job": "Jobs",
    "reason": "Reason of a pause",
}  # fmt: skip

_EMPTY: Final[Page[Job]] = Page([], None)

router = APIRouter(include_in_schema=False, dependencies=READER, route_class=PageRoute)


@dataclass(frozen=True, slots=True)
class LastRun:
    """The newest run that was due."""

    run_id: str
    state: str
    shape: str
    at: Moment


@dataclass(frozen=True, slots=True)
class JobLine:
    """One job in the list."""

    job_id: str
    title: str
    task: str
    tags: tuple[str, ...]
    schedule: str
    next_run: Moment | None
    next_text: str
    paused: bool
    pause_reason: str | None
    last: LastRun | None
    spark: RunChart


@dataclass(frozen=True, slots=True)
class Asked:
    """The filter of the list, as typed."""

    q: str = ""
    tag: str = ""
    paused: str = ""
    cursor: str | None = None

    def pairs(self) -> dict[str, str]:
        """Return the filled fields except the cursor."""
        return {name: value for name, value in (("q", self.q), ("tag", self.tag), ("paused", self.paused)) if value}


@router.get("/jobs")
def list_jobs(
    request: Request,
    context: Context,
    q: Annotated[str, Query(max_length=200)] = "",
    tag: Annotated[str, Query(max_length=100)] = "",
    paused: Annotated[str, Query(max_length=20)] = "",
    cursor: Cursor = None,
) -> Response:
    """List jobs by id, with the results of their last runs."""
    return _list(request, context, Asked(q, tag, paused, cursor))


@router.post("/jobs", dependencies=CHANGER)
def change_jobs(request: Request, context: Context, who: Who, form: FormBody) -> Response:
    """Pause or resume the ticked jobs."""
    back = form.one("back")
    return or_again(
        lambda: _changed(context, who, form, back),
        lambda wrong: _list(request, context, _asked_before(back), wrong, form),
        _LABELS,
    )


def _changed(context: ApiContext, who: Caller, form: Form, back: str) -> Response:
    chosen, doing, reason = form.all("job"), form.one("do"), form.one("reason") or None
    if doing not in ("pause", "resume"):
        raise Problem(422, "choose to pause or to resume")
    if not chosen:
        raise BadValue("job", None, f"tick the jobs to {doing}")
    for job_id in chosen[:_JOBS]:
        with suppress(NotFound):  # deleted meanwhile: go on with the others
            if doing == "pause":
                pause_job(context, who, job_id, {"reason": reason})
            else:
                resume_job(context, who, job_id)
    return go(f"/jobs?{back}" if back.isprintable() and back else "/jobs", f"{doing}d")


def _asked_before(back: str) -> Asked:
    given = dict(parse_qsl(back))
    return Asked(given.get("q", ""), given.get("tag", ""), given.get("paused", ""), given.get("cursor"))


def _list(
    request: Request, context: ApiContext, asked: Asked, refused: Wrong = NOTHING_WRONG, form: Form | None = None
) -> Response:
    """Show the list; if a change was refused (`refused`), with the ticked and typed values of `form`."""
    reader = Reader(_LABELS)
    tag = reader.tried(lambda: read_text(asked.tag, "tag")) or None
    text = reader.tried(lambda: read_text(asked.q, "q")) or None
    paused = reader.tried(lambda: _paused(asked.paused))
    wanted = JobFilter(tag, text, paused)
    found = reader.tried(lambda: context.stores.jobs.list(wanted, _JOBS, asked.cursor))
    wrong = reader.wrong() if refused is NOTHING_WRONG else refused
    listed = found if found is not None and reader.wrong() is NOTHING_WRONG else _EMPTY
    total = context.stores.history.count_jobs(wanted) if listed.items else Total(0, False)
    pairs = asked.pairs()
    here = urlencode({**pairs, "cursor": asked.cursor} if asked.cursor else pairs)
    return page(
        request, "jobs.html", wrong=wrong, address=f"/jobs?{here}" if here else "/jobs",
        jobs=job_lines(context, listed.items), total=total_text(len(listed.items), total, "jobs"),
        following=urlencode({**pairs, "cursor": listed.next_cursor}) if listed.next_cursor else None, q=asked.q,
        tag=asked.tag, paused=asked.paused, filtered=bool(pairs), first=urlencode(pairs) if asked.cursor else None,
        back=here, ticked=form.all("job") if form else [], reason=form.one("reason") if form else "",
    )  # fmt: skip


def _paused(text: str) -> bool | None:
    known = {"": None, "true": True, "false": False}
    if text not in known:
        raise BadValue("paused", text, "choose all, active or paused")
    return known[text]


def job_lines(context: ApiContext, jobs: Sequence[Job]) -> list[JobLine]:
    """Return the lines of these jobs."""
    now = context.clock()
    latest = context.stores.history.latest_of([job.job_id for job in jobs], now, _SPARK)
    return [_line(job, latest[job.job_id], now) for job in jobs]


def _line(job: Job, newest_first: Sequence[Outcome], now: Instant) -> JobLine:
    found = next_runs(job, now, 1)
    return JobLine(
        job.job_id, job.title, job.task, job.tags, job_sentence(job),
        moment(parse_instant(found[0]), now) if found else None,
        "being placed" if needs_place(job) else "never again", job.paused, job.pause_reason,
        last_run(newest_first, now), spark(newest_first, _SPARK),
    )  # fmt: skip


def last_run(newest_first: Sequence[Outcome], now: Instant) -> LastRun | None:
    """Return the newest of these runs."""
    if not newest_first:
        return None
    run = newest_first[0]
    at = optional_moment(run.finished_at, now) or moment(run.scheduled_at, now)
    return LastRun(run.run_id, run.state.value, SHAPES[run.state], at)
