"""The first page: the leader, running and next runs, and alerts. Only shows."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from fastapi import APIRouter, Request, Response

from itinerary.protocol.errors import StoreUnavailable
from itinerary.protocol.instants import DAY, SECOND, Instant, parse_instant
from scheduler_service.api.context import ApiContext, Context
from scheduler_service.api.pages.alerts import alerts
from scheduler_service.api.pages.charts import Health, health
from scheduler_service.api.pages.coming import Change, changes_to_come
from scheduler_service.api.pages.live import Issue, Live, read_live
from scheduler_service.api.pages.moments import SHAPES, Moment, RunLine, length, moment, run_line
from scheduler_service.api.pages.shell import READER, PageRoute, page
from scheduler_service.api.pages.trends import CHOSEN, Window, shown_trends
from scheduler_service.api.services.previews import next_runs
from scheduler_service.core.model import Job
from scheduler_service.core.run_state import ACTIVE, RunState
from scheduler_service.ports.stores import JobFilter, RunFilter

_JOBS: Final = 200
_COMING: Final = 10
_RUNS: Final = 10
_RUNNING: Final = 10
_SAMPLE: Final = 2000
_MOST_COUNTED: Final = 10_000

router = APIRouter(include_in_schema=False, dependencies=READER, route_class=PageRoute)


@dataclass(frozen=True, slots=True)
class Coming:
    """A planned run."""

    job_id: str
    at: Moment


@dataclass(frozen=True, slots=True)
class Overview:
    """The values that the page shows."""

    live: Live
    since: Moment | None
    last_seen: Moment | None
    lag: str | None
    lag_note: str
    workers: int | None
    counts: list[tuple[str, str, str]]
    health: Health
    running: list[RunLine]
    coming: list[Coming]
    runs: list[RunLine]
    changes: list[Change]
    issues: list[Issue]
    has_jobs: bool


@router.get("/")
def first_page(request: Request, context: Context, window: Window = CHOSEN) -> Response:
    """Show the leader, trends, running runs, next runs."""
    try:
        wrong, shown = shown_trends(request, context, window)
        return page(request, "overview.html", wrong=wrong, seen=overview(context), **shown)
    except StoreUnavailable:
        return page(request, "overview.html", seen=None)


def overview(context: ApiContext) -> Overview:
    """Collect everything that the page shows, as of now."""
    now, stores = context.clock(), context.stores
    live = read_live(context)
    jobs = stores.jobs.list(JobFilter(), _JOBS, None)
    all_jobs = jobs.next_cursor is None
    running = stores.runs.list(RunFilter(states=(RunState.RUNNING,)), _RUNNING, None)
    progress = context.progress_of(*running.items)
    latest = stores.runs.list(RunFilter(until=now + SECOND), _RUNS, None)
    counts = stores.history.active_counts(_MOST_COUNTED)
    planned = {job.job_id: _next(job, now) for job in jobs.items}
    return Overview(
        live=live,
        since=live.since(now),
        last_seen=live.last_seen(now),
        lag=lag_text(live, now),
        lag_note=lag_note(live, now),
        workers=sum(worker["alive"] for worker in live.workers) if live.figures else None,
        counts=[(state.value, SHAPES[state], _count(counts[state])) for state in RunState if state in ACTIVE],
        health=health(stores.history.latest(now - DAY, now, _SAMPLE), _SAMPLE, now),
        running=[run_line(run, now, progress.get(run.run_id)) for run in running.items],
        coming=_coming(planned if all_jobs else {}, live, now),
        runs=[run_line(run, now) for run in latest.items],
        changes=changes_to_come(context, now),
        issues=[*alerts(context, live, jobs.items, planned, now)],
        has_jobs=bool(jobs.items),
    )


def lag_text(live: Live, now: Instant) -> str | None:
    """Say how far the queues with workers are behind; alerts name queues without one."""
    if not live.figures:
        return None
    return length(max((lag.behind for lag in live.lags(now) if lag.served), default=0))


def lag_note(live: Live, now: Instant) -> str:
    """Name the queue of the lag, or count the queues with overdue runs and no worker."""
    lags = live.lags(now)
    served = [lag for lag in lags if lag.served]
    if served and served[0].behind >= SECOND:
        return f"in {served[0].queue}"
    orphans = len(lags) - len(served)
    return f"{orphans} without worker" if orphans else "overdue"


def _count(count: int) -> str:
    return f"{count:,}" + ("+" if count >= _MOST_COUNTED else "")


def _next(job: Job, now: Instant) -> Instant | None:
    found = next_runs(job, now, 1)
    return parse_instant(found[0]) if found else None


def _coming(planned: dict[str, Instant | None], live: Live, now: Instant) -> list[Coming]:
    """Return the jobs that run next within a day: each job if there are few, else from the leader's index."""
    upcoming: Sequence[Any] = live.figures.get("upcoming", ())
    found = {str(run["job_id"]): parse_instant(run["scheduled_at"]) for run in reversed(upcoming)}
    found |= {job_id: at for job_id, at in planned.items() if at is not None}
    soon = sorted((at, job_id) for job_id, at in found.items() if now <= at < now + DAY)
    return [Coming(job_id, moment(at, now)) for at, job_id in soon[:_COMING]]
